package conventions

import (
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// belowTheWire are the folders whose goroutines process input from outside.
var belowTheWire = []string{"graph", "actors", "devices", "kernels", "containers", "queues", "internal"}

// uncontained are the places, by file and function, whose goroutines, timers and callbacks do not go through package
// contain, each with its reason.
var uncontained = map[string]string{
	"internal/blocks/blocks.go:Goroutine":               "only tests call it",
	"internal/contain/contain.go:Go":                    "it is what the others go through",
	"devices/cuda/fake/build.go:compileAll":             "compiles the driver that tests run on; no server has it",
	"devices/gpu/device.go:Open":                        "the device's own thread: it runs the driver's calls, and what panics there leaves the card unusable",
	"devices/gpu/waiter.go:newWaiter":                   "a thread that waits for a driver's events; what it calls for others is contained where it calls it",
	"devices/gpu/share.go:abandon":                      "tells another device of the card that it was lost",
	"devices/gpu/thread.go:stop":                        "waits for the device's own threads",
	"internal/command/daemon/signals.go:ReloadOnHangup": "reads the operator's files on a signal",
	"internal/command/daemon/signals.go:Run":            "waits for the end of the process's servers, and returns their idle memory",
	"internal/command/daemon/signals.go:stop":           "stops the process's servers",
	"queues/pipeline/consumer.go:source":                "runs in the client's process, for its own program",
	"queues/pipeline/producer.go:Producer":              "runs in the client's process, for its own program",
	"queues/pipeline/lease.go:newLeases":                "runs in the client's process, for its own program",
}

// TestGoroutinesAreContained checks that a panic caused by input from outside does not end the process: each go
// statement, each call of a method Go, and each AfterFunc below the wire goes through package contain.
func TestGoroutinesAreContained(t *testing.T) {
	used := map[string]bool{}
	found := 0
	for _, root := range belowTheWire {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || !isServed(filepath.ToSlash(path)) {
				return err
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, decl := range file.Decls {
				name := ""
				if f, ok := decl.(*ast.FuncDecl); ok {
					name = f.Name.Name
				}
				place := filepath.ToSlash(path) + ":" + name
				ast.Inspect(decl, func(n ast.Node) bool {
					loose, isStart := startOf(n)
					if isStart {
						found++
					}
					if !loose {
						return true
					}
					if _, listed := uncontained[place]; listed {
						used[place] = true
						return true
					}
					var text strings.Builder
					if err := printer.Fprint(&text, set, n); err != nil {
						t.Fatal(err)
					}
					first, _, _ := strings.Cut(text.String(), "\n")
					t.Errorf("%s: %s does not go through package contain: a panic there ends the process", set.Position(n.Pos()), first)
					return true
				})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for place, reason := range uncontained {
		if !used[place] {
			t.Errorf("%s is on the list (%s), and starts nothing any more", place, reason)
		}
	}
	if found < 30 {
		t.Errorf("only %d starts were found: the test does not see them", found)
	}
}

// recovering are the functions that recover a panic in other ways than through package contain, and why.
var recovering = map[string]string{
	"actors/cast/performer.go:guard":       "an actor's panic is counted by kind, and ends the actor",
	"devices/parallel.go:fail":             "the panic goes on in the goroutine that the work is for",
	"internal/roles/mailbox.go:guard":      "a role's panic is counted, and goes to its supervisor",
	"internal/roles/mailbox.go:do":         "the same",
	"kernels/linalg/linalg.go:endWithStep": "it is no failure: it ends a computation whose step has ended",
}

// TestPanicsKeepTheirStacks checks that each recovered panic goes through package contain, which logs its stack.
func TestPanicsKeepTheirStacks(t *testing.T) {
	used := map[string]bool{}
	found := 0
	eachFile(t, func(path string, text []byte) {
		path = filepath.ToSlash(path)
		if !isServed(path) || strings.HasPrefix(path, "internal/contain/") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			recovers, contains := false, false
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				switch fun := call.Fun.(type) {
				case *ast.Ident:
					recovers = recovers || fun.Name == "recover"
				case *ast.SelectorExpr:
					contains = contains || isName(fun.X, "contain") && fun.Sel.Name == "Error" || keepers[fun.Sel.Name]
				}
				return true
			})
			if !recovers {
				continue
			}
			found++
			place := path + ":" + f.Name.Name
			if _, listed := recovering[place]; listed {
				used[place] = true
			} else if !contains {
				t.Errorf("%s recovers a panic, whose stack is lost: use package contain", place)
			}
		}
	}, ".go")
	for place, reason := range recovering {
		if !used[place] {
			t.Errorf("%s is on the list (%s), and recovers nothing any more", place, reason)
		}
	}
	if found < len(recovering)+3 {
		t.Errorf("only %d functions that recover were found: the test does not see them", found)
	}
}

// keepers are the methods of a run that pass a panic to contain.Error.
var keepers = map[string]bool{"panicked": true, "abandon": true}

func isName(e ast.Expr, name string) bool {
	i, ok := e.(*ast.Ident)
	return ok && i.Name == name
}

// startOf reports whether a node starts a goroutine or passes a function to one, and whether a panic there is not contained (loose).
func startOf(n ast.Node) (loose, is bool) {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true, true
	case *ast.CallExpr:
		f, ok := n.Fun.(*ast.SelectorExpr)
		if !ok {
			return false, false
		}
		switch {
		case f.Sel.Name == "Go" && !isOf(f, "contain") && !isOf(f, "disk"): // disk.Go contains what it runs
			return len(n.Args) != 1 || !contained(n.Args[0]), true
		case f.Sel.Name == "Go":
			return false, true
		case f.Sel.Name == "AfterFunc" && len(n.Args) == 2:
			// A context's CancelFunc only ends a context.
			cancel, ok := n.Args[1].(*ast.Ident)
			return !(ok && cancel.Name == "cancel") && !contained(n.Args[1]), true
		}
	}
	return false, false
}

// contained reports whether an expression is a call of contain.Func.
func contained(e ast.Expr) bool {
	c, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	f, ok := c.Fun.(*ast.SelectorExpr)
	return ok && f.Sel.Name == "Func" && isOf(f, "contain")
}

// isOf reports whether a selector selects from a package.
func isOf(f *ast.SelectorExpr, pkg string) bool {
	x, ok := f.X.(*ast.Ident)
	return ok && x.Name == pkg
}
