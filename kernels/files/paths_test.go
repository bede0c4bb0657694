package files

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// allowed lists what kernels may use of packages that open files: functions that take no path.
var allowed = map[string][]string{
	"os":                    {"Getenv", "Getpid", "Hostname", "Stderr", "Stdout"},
	"path/filepath":         {"Base", "Clean", "Dir", "IsLocal", "Join", "Rel"},
	"syscall":               {"Errno", "ENOSPC", "ENOTDIR"},
	"io/ioutil":             nil,
	"golang.org/x/sys/unix": nil,
}

// TestOnlyThisPackageOpensFiles reads the source of all kernels. This package decides what a session may do with files, so nothing may
// bypass it. Generators are not part of a server.
func TestOnlyThisPackageOpensFiles(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"asm", "files", "kernelstest", "pack", "testdata"}, d.Name()):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		seen++
		for _, use := range uses(t, path) {
			t.Errorf("%s: kernels use files through package files, by what their step may", use)
		}
		return nil
	})
	if err != nil || seen < 300 {
		t.Errorf("%d files were read, %v", seen, err)
	}
}

// uses finds disallowed uses in a file.
func uses(t *testing.T, path string) (all []string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string]string{} // by their names in the file
	for _, i := range file.Imports {
		name := strings.Trim(i.Path.Value, `"`)
		if _, watched := allowed[name]; !watched {
			continue
		}
		local := name[strings.LastIndexByte(name, '/')+1:]
		if i.Name != nil {
			local = i.Name.Name
		}
		packages[local] = name
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && packages[x.Name] != "" && x.Obj == nil && !slices.Contains(allowed[packages[x.Name]], s.Sel.Name) {
				all = append(all, set.Position(s.Pos()).String()+": "+x.Name+"."+s.Sel.Name)
			}
		}
		return true
	})
	if name, dots := packages["."]; dots {
		all = append(all, path+": imports all names of "+name)
	}
	return all
}
