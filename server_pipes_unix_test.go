//go:build unix

package troupe

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
)

// TestThousandsOfPipes runs a step that reads more named pipes than the process may have threads. Nothing writes to the
// pipes.
func TestThousandsOfPipes(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	s := op.NewScope()
	name := op.Const(s, pipe)
	var targets []string
	for range 11_000 {
		targets = append(targets, op.ReadFile(s, name).Name())
	}
	session := sessionOf(t, localServer(t), s)
	_, err := session.Run(t.Context(), nil, targets, nil)
	if status.CodeOf(err) != status.FailedPrecondition || !strings.Contains(err.Error(), "a named pipe") {
		t.Errorf("got %v", err)
	}
}
