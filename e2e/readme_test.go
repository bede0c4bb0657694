//go:build unix

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadme checks that the program in the README is complete, has fewer than 60 lines of code, and does what the README says.
func TestReadme(t *testing.T) {
	t.Parallel()
	program := readmeProgram(t)
	lines := 0
	for line := range strings.Lines(program) {
		if strings.TrimSpace(line) != "" {
			lines++
		}
	}
	if lines >= 60 {
		t.Errorf("the program has %d lines", lines)
	}
	path := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(path, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), "go", "run", path)
	run.Dir = ".."
	out, err := run.CombinedOutput()
	if err != nil || string(out) != "after 200 steps 10 gives [32.0]\n" { // without lines of the log
		t.Errorf("%v: it printed %s", err, out)
	}
}

// readmeProgram returns the README's program in Go.
func readmeProgram(t testing.TB) string {
	t.Helper()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, found := strings.Cut(string(readme), "```go\npackage main")
	program, _, ended := strings.Cut(program, "```")
	if !found || !ended {
		t.Fatal("the README has no program")
	}
	return "package main" + program
}
