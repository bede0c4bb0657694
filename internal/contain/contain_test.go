package contain_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
)

func TestPanicBecomesAnError(t *testing.T) {
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	err := contain.Run(log, "The kernel of op Add", func() error { panic("boom") })
	if status.CodeOf(err) != status.Internal || !strings.HasPrefix(err.Error(), "The kernel of op Add panicked: boom (contain_test.go:") {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(text.String(), "contain_test.go") {
		t.Errorf("the log does not have the stack: %s", text.String())
	}
	plain := errors.New("plain")
	if err := contain.Run(log, "f", func() error { return plain }); !errors.Is(err, plain) {
		t.Errorf("got %v", err)
	}
}

func TestGoTellsOfAPanic(t *testing.T) {
	told := make(chan error, 1)
	log := slog.New(slog.DiscardHandler)
	contain.Go(log, "work", func() { panic(1) }, func(err error) { told <- err })
	if err := <-told; status.CodeOf(err) != status.Internal {
		t.Errorf("got %v", err)
	}
	// A panic of the failure callback, or one without a callback, must not end the process either.
	contain.Func(log, "work", func() { panic(1) }, func(error) { panic(2) })()
	contain.Func(log, "work", func() { panic(1) }, nil)()
}
