package shim

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestUpToDate checks that trampolines.S is what gen.go generates from symbols.txt.
func TestUpToDate(t *testing.T) {
	made := filepath.Join(t.TempDir(), "trampolines.S")
	if out, err := exec.Command("go", "run", "gen.go", "symbols.txt", made).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want, err := os.ReadFile(made)
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("trampolines.S")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Error("trampolines.S is not made of symbols.txt: run go generate")
	}
}
