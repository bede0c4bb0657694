package all

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestEachOpHasALine checks that each op of a family begins a line in the family's table, exactly once, and that every such line names an
// op. People search the tables for ops, so no name may be assembled or hidden in a helper.
func TestEachOpHasALine(t *testing.T) {
	for _, f := range families {
		ops, lines := f.table().Ops(), linesOf(t, filepath.Join("..", f.name))
		for _, op := range ops {
			if places := lines[op]; len(places) != 1 {
				t.Errorf("%s: op %s has %d lines in the family's table, want 1: %v", f.name, op, len(places), places)
			}
		}
		for op, places := range lines {
			if !slices.Contains(ops, op) {
				t.Errorf("%s: %q at %v is no op of the family", f.name, op, places)
			}
		}
	}
}

// sourcesOf returns the source files in a folder and below it, such as those of a family and of its internal packages, whose names end with
// suffix. Tests are left out.
func sourcesOf(t *testing.T, folder, suffix string) []string {
	t.Helper()
	var sources []string
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, suffix) && !strings.HasSuffix(path, "_test.go") {
			sources = append(sources, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

// linesOf returns the names that rows in a folder's table files begin with, and their positions. Rows are statements that call a function
// with the name, and literals with the field Op.
func linesOf(t *testing.T, folder string) map[string][]string {
	t.Helper()
	files := sourcesOf(t, folder, "table.go")
	if len(files) == 0 {
		t.Fatalf("there are no tables in %s", folder)
	}
	lines := map[string][]string{}
	for _, path := range files {
		set := token.NewFileSet()
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(set, path, source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			name, ok := rowName(n)
			if !ok {
				return true
			}
			at := set.Position(n.Pos())
			if before := source[at.Offset-at.Column+1 : at.Offset]; len(bytes.TrimSpace(before)) > 0 {
				t.Errorf("%v: the row of %s does not begin its line", at, name)
			}
			lines[name] = append(lines[name], at.String())
			return true
		})
	}
	return lines
}

// rowName returns the name that a row begins with, if the node is a row.
func rowName(n ast.Node) (string, bool) {
	var first ast.Expr
	switch n := n.(type) {
	case *ast.ExprStmt:
		if call, ok := n.X.(*ast.CallExpr); ok && len(call.Args) > 0 {
			first = call.Args[0]
		}
	case *ast.CompositeLit:
		if len(n.Elts) > 0 {
			if field, ok := n.Elts[0].(*ast.KeyValueExpr); ok && isIdent(field.Key, "Op") {
				first = field.Value
			}
		}
	}
	literal, ok := first.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	name, err := strconv.Unquote(literal.Value)
	return name, err == nil && !strings.ContainsAny(name, " /")
}

func isIdent(e ast.Expr, name string) bool {
	i, ok := e.(*ast.Ident)
	return ok && i.Name == name
}
