package conventions

import (
	"slices"
	"strings"
	"testing"
)

// promised are the packages that programs may build on, as CONTRIBUTING.md lists them.
var promised = []string{
	"",
	"graph/device",
	"graph/grad",
	"graph/op",
	"graph/op/attr",
	"graph/shape",
	"graph/status",
	"graph/tensor",
	"graph/train",
	"node",
	"queues/pipeline",
	"remote/access",
	"remote/client",
	"serve",
	"troupetest",
}

// shared are the packages that programs can import although their API is not promised. At least two of the top-level
// folders need them, and Go's internal folders only hide packages that one of these needs. The families of kernels are
// below kernels itself, where a reader looks for them, and export only their table.
var shared = []string{
	"actors",
	"actors/bare",
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
	"graph/component",
	"graph/lower",
	"graph/partition",
	"graph/place",
	"graph/transfer",
	"kernels",
	"kernels/*",
	"queues",
	"remote",
	"remote/closing",
	"remote/compress",
	"remote/member",
	"remote/observe",
	"remote/observe/ui",
	"remote/proxy",
	"remote/spec",
	"remote/spec/spectest",
}

// TestImportablePackages checks that other modules can import the promised packages, and apart from these only those
// that two folders share. The examples are meant to be copied, and e2e has only tests.
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

// TestExamplesCanBeCopied checks that examples compile in a module of their own: they import promised packages and those below examples.
func TestExamplesCanBeCopied(t *testing.T) {
	for _, p := range goList(t, "./examples/...") {
		for _, to := range p.Imports {
			path, ok := strings.CutPrefix(to, module)
			path = strings.TrimPrefix(path, "/")
			if ok && !slices.Contains(promised, path) && (!strings.HasPrefix(path, "examples/") || strings.Contains(path, "internal")) {
				t.Errorf("%s imports %s, which a copy of it in another module cannot or should not", p.ImportPath, to)
			}
		}
	}
}
