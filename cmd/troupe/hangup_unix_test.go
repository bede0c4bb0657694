//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/troupe-run/troupe/internal/command/exit"
)

// TestHangup: serve and up read their files again on SIGHUP, and keep the previous contents of malformed ones.
func TestHangup(t *testing.T) {
	for _, args := range [][]string{{"serve", "--local=localhost:0"}, {"up", "--tasks", "w=1"}} {
		t.Run(args[0], func(t *testing.T) {
			policy := filepath.Join(t.TempDir(), "policy.yaml")
			write := func(text string) {
				t.Helper()
				if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("rules: [{who: loopback, may: open}]")
			p := start(t, nil, append(args, "--policy", policy)...)
			if args[0] == "serve" {
				p.target()
			} else {
				p.line(p.stdout)
			}
			hangup := func(want string) {
				t.Helper()
				if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
					t.Fatal(err)
				}
				for !strings.Contains(p.line(p.stderr), want) { // it ends with the log, which patience bounds
				}
			}
			hangup("the files of the flags were reloaded")
			write("rules: [{who: nobody}]")
			hangup("the files could not be reloaded")
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if code, log := p.ends(); code != exit.CodeOK {
				t.Errorf("exit code %d: %s", code, log)
			}
		})
	}
}
