package troupe

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// TestKernelsOpenNoFiles checks that kernels open files only through kernels/files, which gives each op those that its session may use: no
// other package below kernels can open one, start a program or reach a network.
func TestKernelsOpenNoFiles(t *testing.T) {
	opens := []string{"os", "syscall", "golang.org/x/sys/unix", "golang.org/x/sys/windows", "net", "io/ioutil", "plugin", "runtime/debug", "runtime/pprof", "runtime/trace"}
	except := []string{
		module + "/kernels/files",            // the door
		module + "/kernels/internal/process", // the machine's name, the environment and the terminal
		module + "/kernels/kernelstest",      // reads tests' data
	}
	checked := 0
	for _, p := range goList(t, "./kernels/...") {
		if p.Name == "main" || slices.Contains(except, p.ImportPath) { // tools that generate sources are not part of a server
			continue
		}
		checked++
		for _, i := range p.Imports {
			if slices.ContainsFunc(opens, func(o string) bool { return within(i, o) }) {
				t.Errorf("%s imports %s: kernels get files from kernels.Context.Files", p.ImportPath, i)
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d packages were found", checked)
	}
}

// TestDoors checks that what kernels access is resolved where a session's rights are checked: a resource handle in
// kernels.Context.Handle, and files by the door that the task has made for the session.
func TestDoors(t *testing.T) {
	doors := []struct {
		selector string   // what is called
		in       string   // the folder in which it is
		except   []string // the places that may call it, each with its reason
	}{
		{"Handles", "kernels/", []string{
			"kernels/handle.go",                     // the door
			"kernels/data/fingerprint.go",           // compares names
			"kernels/data/capture.go",               // names it; reads go through the door
			"kernels/internal/element/element.go",   // moves elements
			"kernels/internal/layout/move.go",       // moves elements
			"kernels/internal/printing/printing.go", // prints names
			"kernels/kernelstest/",                  // tests
		}},
		{"NewDoor", "", []string{"actors/workersession.go", "kernels/files/door.go", "kernels/kernelstest/"}},
		{"All", "kernels/", []string{"kernels/files/", "kernels/kernelstest/", "kernels/all/"}},
	}
	for _, d := range doors {
		found := scan(t, func(path string) bool { return strings.HasPrefix(path, d.in) && !strings.HasSuffix(path, "_test.go") }, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok || s.Sel.Name != d.selector {
				return false
			}
			x, isName := s.X.(*ast.Ident)
			return d.selector == "Handles" || isName && x.Name == "files"
		})
		used := map[string]bool{}
		for at := range found {
			i := slices.IndexFunc(d.except, func(e string) bool { return strings.HasPrefix(at, e) })
			if i < 0 {
				t.Errorf("%s uses %s: see the package that it is of for the way that asks for rights", at, d.selector)
				continue
			}
			used[d.except[i]] = true
		}
		for _, e := range d.except {
			if !used[e] && strings.HasSuffix(e, ".go") && e != "kernels/files/door.go" {
				t.Errorf("%s does not use %s any more: the list of this test has it", e, d.selector)
			}
		}
	}
}
