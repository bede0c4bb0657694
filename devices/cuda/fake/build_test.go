//go:build linux

package fake

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/extent"
)

// needExtent skips tests that compile all kernels as C++.
func needExtent(t *testing.T) {
	t.Helper()
	if !extent.Check() {
		t.Skip("make check runs it: it builds the fake driver, which takes minutes the first time")
	}
}

// TestBuild checks that the repository's kernels compile, and that built libraries are found again.
func TestBuild(t *testing.T) {
	needExtent(t)
	lib := Build(t)
	before, err := os.Stat(lib)
	if err != nil {
		t.Fatal(err)
	}
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	kernels := filepath.Join(root, "kernels", "cuda")
	again, err := buildFrom(kernels, kernels, "driver")
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(again)
	if err != nil || !os.SameFile(before, after) || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("%s was built again as %s (%v)", lib, again, err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(lib), "libcublas.so.12")); err != nil {
		t.Error(err)
	}
}

// TestDriver runs the checks of testdata/checks: C++ programs that use the driver with the kernels of testdata/kernels, each in its own
// process.
func TestDriver(t *testing.T) {
	needExtent(t)
	needCompiler(t)
	lib, err := buildFrom(filepath.Join("testdata", "kernels"), filepath.Join("..", "..", "..", "kernels", "cuda"), "driver")
	if err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("testdata/checks/*.cc")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "checks")
	if err := gpp(slices.Concat([]string{"-std=c++20", "-Wall", "-Wextra", "-Werror", "-o", program}, sources,
		[]string{lib, "-Wl,-rpath," + filepath.Dir(lib), "-lpthread"}), ""); err != nil {
		t.Fatal(err)
	}
	names, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(string(names)) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, program, name)
			cmd.Env = append(os.Environ(), "FAKE_CUDA_EAGER=", "FAKE_CUDA_FAIL=", "FAKE_CUDA_MEM=", "FAKE_CUDA_DEVICES=", "FAKE_CUDA_SM=")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
