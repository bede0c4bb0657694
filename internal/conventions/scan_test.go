package conventions

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// relist makes the tests that check lists of places in the sources rewrite these lists, keeping the text of each place.
var relist = flag.Bool("relist", false, "write the lists of places in the sources anew")

// place returns the name of a place in the sources: a file and a function.
func place(path, function string) string { return filepath.ToSlash(path) + ":" + function }

// scan counts the nodes for which is returns true in the Go files below the module's root for which keep returns true, by place.
func scan(t *testing.T, keep func(path string) bool, is func(n ast.Node) bool) map[string]int {
	t.Helper()
	found := map[string]int{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == ".cache" || name == "testdata"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || !keep(filepath.ToSlash(path)):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			ast.Inspect(decl, func(n ast.Node) bool {
				if n != nil && is(n) {
					found[place(path, nameOf(decl))]++
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// nameOf returns a function's name, with its receiver's type. It is empty for other declarations.
func nameOf(decl ast.Decl) string {
	f, ok := decl.(*ast.FuncDecl)
	if !ok {
		return ""
	}
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	for {
		switch e := of.(type) {
		case *ast.StarExpr:
			of = e.X
			continue
		case *ast.IndexExpr:
			of = e.X
			continue
		case *ast.IndexListExpr:
			of = e.X
			continue
		case *ast.Ident:
			return e.Name + "." + f.Name.Name
		}
		return f.Name.Name
	}
}

// listedPlace is a line of a list of places: how often something occurs there, its kind, and the reason for it.
type listedPlace struct {
	count     int
	kind, why string
}

// readPlaces reads a list of places: the place, the count, the kind and the reason, separated by blanks. Lines that begin with # are
// comments.
func readPlaces(t *testing.T, name string) (comments []string, places map[string]listedPlace) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	places = map[string]listedPlace{}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if strings.HasPrefix(line, "#") {
			comments = append(comments, line)
			continue
		}
		fields := strings.Fields(line)
		var p listedPlace
		if len(fields) < 4 {
			t.Errorf("%s:%d: a line has a place, a count, a kind and a reason: %q", name, i+1, line)
		} else if _, err := fmt.Sscan(fields[1], &p.count); err != nil {
			t.Errorf("%s:%d: %q is no count", name, i+1, fields[1])
		} else {
			p.kind, p.why = fields[2], strings.Join(fields[3:], " ")
			places[fields[0]] = p
		}
	}
	return comments, places
}

// checkPlaces checks that a list has exactly the places that were found. With -relist, it rewrites the list instead. New places then have
// the kind ?, which no test accepts.
func checkPlaces(t *testing.T, name string, found map[string]int) map[string]listedPlace {
	t.Helper()
	comments, listed := readPlaces(t, name)
	if *relist {
		var b strings.Builder
		for _, c := range comments {
			b.WriteString(c + "\n")
		}
		for _, at := range slices.Sorted(maps.Keys(found)) {
			p := listed[at]
			if p.kind == "" {
				p.kind, p.why = "?", "?"
			}
			fmt.Fprintf(&b, "%s %d %s %s\n", at, found[at], p.kind, p.why)
		}
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return listed
	}
	for _, at := range slices.Sorted(maps.Keys(found)) {
		if p, ok := listed[at]; !ok || p.count != found[at] {
			t.Errorf("%s: %d stand there, and %s has %d: go test -run %s -relist ./internal/conventions writes them down, and their kind and reason have to be added", at, found[at], name, p.count, t.Name())
		}
	}
	for _, at := range slices.Sorted(maps.Keys(listed)) {
		if found[at] == 0 {
			t.Errorf("%s has %s, where nothing stands any more", name, at)
		}
	}
	return listed
}

// namesIn returns the names of the elements of a table of tests: the first text in each element of a variable of a file.
func namesIn(t *testing.T, path, variable string) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || v.Names[0].Name != variable || len(v.Values) != 1 {
			return true
		}
		if table, ok := v.Values[0].(*ast.CompositeLit); ok {
			for _, element := range table.Elts {
				names = append(names, firstText(t, element))
			}
		}
		return false
	})
	if len(names) == 0 {
		t.Fatalf("%s has no table %s", path, variable)
	}
	return names
}

func firstText(t *testing.T, e ast.Expr) (text string) {
	t.Helper()
	ast.Inspect(e, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING && text == "" {
			var err error
			if text, err = strconv.Unquote(literal.Value); err != nil {
				t.Fatal(err)
			}
		}
		return text == ""
	})
	if text == "" {
		t.Fatal("an element of a table of tests has no name")
	}
	return text
}
