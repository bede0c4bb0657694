package troupe

import (
	"slices"
	"strings"
	"testing"
)

// promised are the packages that programs may build on, as CONTRIBUTING.md lists them.
var promised = []string{
	"",
	"graph/grad",
	"graph/op",
	"graph/op/attr",
	"graph/shape",
	"graph/status",
	"graph/tensor",
	"graph/train",
	"queues/pipeline",
	"remote/client",
}

// shared are the packages that programs can import though nothing is promised of them, since two of the top-level
// folders need them: Go's internal folders hide only what one of them needs. The families of kernels are below
// kernels itself, where one looks for them, and export their table alone.
var shared = []string{
	"actors",
	"actors/cast",
	"actors/wire",
	"containers",
	"containers/accumulator",
	"containers/barrier",
	"containers/mutex",
	"containers/staging",
	"containers/table",
	"devices",
	"devices/cards",
	"devices/cuda",
	"devices/cuda/fake",
	"devices/cuda/shim",
	"devices/gpu",
	"graph",
	"graph/lower",
	"graph/partition",
	"graph/place",
	"kernels",
	"kernels/*",
	"queues",
	"remote",
	"remote/access",
	"remote/closing",
	"remote/compress",
	"remote/observe",
	"remote/observe/ui",
	"remote/proxy",
	"remote/spec",
	"remote/spec/spectest",
}

// TestImportablePackages holds that other modules can import what is promised, and beyond that only what two folders
// share. The examples are there to be copied, and e2e has nothing but tests.
func TestImportablePackages(t *testing.T) {
	listed := slices.Concat(promised, shared)
	seen := map[string]bool{}
	for _, p := range goList(t, "-tags", "cuda", "./...") {
		path := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if len(p.GoFiles) == 0 || p.Name == "main" || p.hidden || path == "e2e" || strings.HasPrefix(path, "examples/") {
			continue
		}
		if rest, ok := strings.CutPrefix(path, "kernels/"); ok && !strings.Contains(rest, "/") {
			path = "kernels/*"
		}
		seen[path] = true
		if !slices.Contains(listed, path) {
			t.Errorf("other modules can import %s: move it below an internal folder, or promise it", p.ImportPath)
		}
	}
	for _, path := range listed {
		if !seen[path] {
			t.Errorf("there is no package %q to import", path)
		}
	}
}
