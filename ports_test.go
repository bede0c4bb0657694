package troupe

import (
	"go/ast"
	"go/parser"
	"slices"
	"strings"
	"testing"
)

// TestPortsAreClaimed checks that no test looks for a free port by closing a listener whose address it keeps: until the port is used,
// another test may take it. spectest.Addresses claims ports, and a listener can be handed over instead.
func TestPortsAreClaimed(t *testing.T) {
	listeners := 0
	found := scan(t, func(path string) bool { return strings.HasSuffix(path, "_test.go") }, func(n ast.Node) bool {
		if isCall(n, "net", "Listen", "ListenPacket") {
			listeners++
		}
		f, ok := n.(*ast.FuncDecl)
		return ok && f.Body != nil && keepsClosedAddress(f.Body)
	})
	for at := range found {
		t.Errorf("%s: it closes a listener and returns its address: use spectest.Addresses", at)
	}
	if listeners < 10 {
		t.Errorf("only %d listeners were found: the test does not see them", listeners)
	}
	// The check sees what it is for.
	if !keepsClosedAddress(bodyOf(t, `l, _ := net.Listen("tcp", ""); defer l.Close(); return l.Addr().String()`)) ||
		keepsClosedAddress(bodyOf(t, `l, _ := net.Listen("tcp", ""); return l.Addr().String()`)) {
		t.Error("the check does not tell the two apart")
	}
}

// keepsClosedAddress reports whether a function returns the address of a listener that it closes.
func keepsClosedAddress(body *ast.BlockStmt) bool {
	var closed, returned []string
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CallExpr:
			if of, name := methodOf(n); name == "Close" {
				closed = append(closed, of)
			}
		case *ast.ReturnStmt:
			for _, result := range n.Results {
				ast.Inspect(result, func(n ast.Node) bool {
					if call, ok := n.(*ast.CallExpr); ok {
						if of, name := methodOf(call); name == "Addr" || name == "LocalAddr" {
							returned = append(returned, of)
						}
					}
					return true
				})
			}
		}
		return true
	})
	return slices.ContainsFunc(returned, func(name string) bool { return slices.Contains(closed, name) })
}

// methodOf returns the variable and the method of a call such as l.Close().
func methodOf(call *ast.CallExpr) (of, name string) {
	if s, ok := call.Fun.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			return x.Name, s.Sel.Name
		}
	}
	return "", ""
}

// isCall reports whether a node calls one of a package's functions.
func isCall(n ast.Node, pkg string, names ...string) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	of, name := methodOf(call)
	return of == pkg && slices.Contains(names, name)
}

// bodyOf parses statements.
func bodyOf(t *testing.T, statements string) *ast.BlockStmt {
	t.Helper()
	e, err := parser.ParseExpr("func() string {" + statements + "}")
	if err != nil {
		t.Fatal(err)
	}
	return e.(*ast.FuncLit).Body
}
