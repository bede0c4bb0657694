//go:build unix

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestSpelling checks the spelling of code, comments and documents with typos; .ci/spelling/typos.toml lists words that it does not know.
func TestSpelling(t *testing.T) {
	t.Parallel()
	typos := filepath.Join(filepath.Dir(needPython(t)), "typos") // a program that pip installs beside the interpreter
	if _, err := os.Stat(typos); err != nil && os.Getenv("CI") != "true" {
		t.Skip("the Python of the tests has no typos")
	}
	check := func(path string) (string, error) {
		cmd := exec.CommandContext(t.Context(), typos, "--config", ".ci/spelling/typos.toml", "--format", "brief", "--color", "never", path)
		cmd.Dir = ".."
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if found, err := check("."); err != nil {
		t.Errorf("%v\n%s", err, found)
	}
	wrong := filepath.Join(t.TempDir(), "wrong.md")
	if err := os.WriteFile(wrong, []byte("Recie"+"ved.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := check(wrong); err == nil {
		t.Error("a misspelled word is not found")
	}
}
