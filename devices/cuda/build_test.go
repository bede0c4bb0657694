package cuda_test

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/internal/extent"
)

// build compiles testdata/cards, with or without the tag cuda.
func build(t *testing.T, args, env []string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "cards")
	cmd := exec.Command("go", append(append([]string{"build", "-o", program}, args...), "./testdata/cards")...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// run returns the output of a program with TROUPE_LIBCUDA set to this file.
func run(t *testing.T, program, libcuda string) string {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "TROUPE_LIBCUDA="+libcuda)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func TestWithoutTheTag(t *testing.T) {
	program := build(t, nil, []string{"CGO_ENABLED=0"})
	if out := run(t, program, ""); !strings.Contains(out, "built without CUDA") {
		t.Errorf("it says %q", out)
	}
}

// TestWithTheTag checks that a program with the tag can be built and started without CUDA's libraries, and says why there are no cards.
func TestWithTheTag(t *testing.T) {
	if !extent.Check() {
		t.Skip("make check runs it: it fetches CUDA's headers and builds a program with cgo")
	}
	if runtime.GOOS != "linux" {
		t.Skip("the tag cuda is for Linux")
	}
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skipf("the tag cuda needs a C compiler: %v", err)
	}
	headers := exec.Command("./headers.sh")
	headers.Stderr = os.Stderr
	flags, err := headers.Output()
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("the tag cuda needs CUDA's headers: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	program := build(t, []string{"-tags", "cuda"}, []string{"CGO_ENABLED=1", "CGO_CFLAGS=" + strings.TrimSpace(string(flags))})

	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	needed, err := file.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(needed, func(name string) bool { return strings.HasPrefix(name, "libcu") }) {
		t.Errorf("the program does not start without %v", needed)
	}
	dynamic, err := file.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range dynamic {
		if strings.HasPrefix(s.Name, "cu") {
			t.Errorf("%s is visible to the libraries that the program loads", s.Name)
		}
	}

	if out := run(t, program, "/nowhere/libcuda.so.1"); !strings.Contains(out, "no cards: the CUDA driver cannot be loaded: /nowhere/libcuda.so.1") {
		t.Errorf("without a driver it says %q", out)
	}
	// A library that is not a driver: the program's own C library certainly exists.
	if out := run(t, program, "libc.so.6"); !strings.Contains(out, "no cards: libc.so.6 is not a CUDA driver") {
		t.Errorf("with another library it says %q", out)
	}
}
