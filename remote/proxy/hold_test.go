package proxy

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
)

// TestNothingIsHeldAfterClose checks that a connection that was accepted just before Close does not outlive it:
// Close waits for its end.
func TestNothingIsHeldAfterClose(t *testing.T) {
	p, err := Listen(t.Context(), "127.0.0.1:0", Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	late, far := net.Pipe()
	defer late.Close()
	defer far.Close()
	if p.hold(late) {
		t.Fatal("a closed proxy holds a connection")
	}
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection has not ended: %v", err)
	}
}
