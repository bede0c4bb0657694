package conventions

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// moduleScan is what one look at all packages of the module, with their types, has found: nobody keeps the types, which take much memory.
type moduleScan struct {
	recursive []string                   // functions, as recursions returns them
	timers    map[string][]timerPosition // by their functions' places
	files     map[string]bool            // that were looked at, from the module's root
	prints    map[string]string          // what functions of the printed packages call to write, by file and function
	printed   int                        // packages
}

// scanModule looks at the packages as they are built for this system.
var scanModule = sync.OnceValues(func() (m moduleScan, err error) {
	packages, err := listPackages("-deps", "-export", "./...")
	if err != nil {
		return m, err
	}
	root, err := os.Getwd()
	if err != nil {
		return m, err
	}
	m.timers, m.files, m.prints = map[string][]timerPosition{}, map[string]bool{}, map[string]string{}
	exports := map[string]string{}
	g := newCalls(token.NewFileSet())
	times := newTiming()
	var into *types.Interface
	g.also = func(path string, info *types.Info, files []*ast.File) {
		times.scan(info, g.files, files, m.files, m.timers)
		if isPrinted(path) {
			m.printed++
			(&printing{info, into}).writes(g.files, files, m.prints)
		}
	}
	g.others = importer.ForCompiler(g.files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, p := range packages {
		exports[p.ImportPath] = p.Export
		if _, ours := folderOf(p.ImportPath); !ours {
			continue
		}
		if into == nil {
			if into, err = ioWriter(g.others); err != nil {
				return m, err
			}
		}
		var files []*ast.File
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			local, err := filepath.Rel(root, path)
			if err != nil {
				return m, err
			}
			source, err := os.ReadFile(path)
			if err != nil {
				return m, err
			}
			file, err := parser.ParseFile(g.files, filepath.ToSlash(local), source, parser.SkipObjectResolution)
			if err != nil {
				return m, err
			}
			files = append(files, file)
		}
		counted := func(path string) bool {
			return isServed(path) && !strings.HasPrefix(path, "cmd/") && !strings.HasPrefix(path, "examples/")
		}
		if err := g.check(p.ImportPath, files, counted); err != nil {
			return m, err
		}
	}
	m.recursive = g.recursive()
	return m, nil
})

func newInfo() *types.Info {
	return &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{},
		Selections: map[*ast.SelectorExpr]*types.Selection{}}
}

// checkSource checks a file p.go that imports packages of the standard library, for tests of what is found in it.
func checkSource(t *testing.T, source string, imports ...string) (*token.FileSet, *ast.File, *types.Info, types.Importer) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "p.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for _, p := range goList(t, append([]string{"-deps", "-export"}, imports...)...) {
		exports[p.ImportPath] = p.Export
	}
	from := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	conf, info := types.Config{Importer: from, Sizes: types.SizesFor("gc", "amd64")}, newInfo()
	if _, err := conf.Check("p", set, []*ast.File{file}, info); err != nil {
		t.Fatal(err)
	}
	return set, file, info, from
}
