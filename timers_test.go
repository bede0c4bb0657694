package troupe

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// timerCalls are the functions and methods that wait for a time, or end something after one.
var timerCalls = []string{"NewTimer", "AfterFunc", "NewTicker", "After", "Tick", "Sleep", "WithTimeout", "WithDeadline", "WithTimeoutCause", "WithDeadlineCause",
	"SetDeadline", "SetReadDeadline", "SetWriteDeadline"}

// timerFields are the fields of servers and dialers that do.
var timerFields = []string{"Timeout", "ReadHeaderTimeout", "ReadTimeout", "WriteTimeout", "IdleTimeout", "KeepAlive"}

// timers returns a function for scan that reports whether a node waits for a time, or compares how much time has passed.
func timers() func(n ast.Node) bool {
	var elapsed map[string]bool
	return func(n ast.Node) bool {
		if f, ok := n.(*ast.FuncDecl); ok {
			elapsed = elapsedNames(f)
		}
		return isTimer(n, elapsed)
	}
}

// elapsedNames returns the names that a function gives to times that have passed, or are left.
func elapsedNames(f *ast.FuncDecl) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == len(a.Rhs) {
			for i, to := range a.Lhs {
				if name, ok := to.(*ast.Ident); ok && isElapsed(a.Rhs[i], nil) {
					names[name.Name] = true
				}
			}
		}
		return true
	})
	return names
}

func isTimer(n ast.Node, elapsed map[string]bool) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		f, ok := n.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		switch name := f.Sel.Name; {
		case name == "AfterFunc" && isOf(f, "context"):
			return false // it waits for the context
		case name == "Before" || name == "After" && !isOf(f, "time"):
			return len(n.Args) == 1 && (isNow(f.X) || isNow(n.Args[0]))
		case name == "Within":
			return isOf(f, "distance")
		default:
			return slices.Contains(timerCalls, name)
		}
	case *ast.BinaryExpr:
		switch n.Op {
		case token.LSS, token.LEQ, token.GTR, token.GEQ:
			return isElapsed(n.X, elapsed) || isElapsed(n.Y, elapsed)
		}
	case *ast.KeyValueExpr:
		key, ok := n.Key.(*ast.Ident)
		return ok && slices.Contains(timerFields, key.Name)
	}
	return false
}

// isNow reports whether an expression is the present time.
func isNow(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "now"
	case *ast.CallExpr:
		f, ok := e.Fun.(*ast.SelectorExpr)
		return ok && f.Sel.Name == "Now" && isOf(f, "time")
	}
	return false
}

// isElapsed reports whether an expression is a time that has passed, or is left, or the name of one.
func isElapsed(e ast.Expr, names map[string]bool) bool {
	if name, ok := e.(*ast.Ident); ok {
		return names[name.Name]
	}
	c, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	f, ok := c.Fun.(*ast.SelectorExpr)
	return ok && (f.Sel.Name == "Since" || f.Sel.Name == "Until" || f.Sel.Name == "Sub")
}

// isServed reports whether a file is part of what programs and servers run. Tests, generators and tools are not.
func isServed(path string) bool {
	return !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, ".pb.go") && !strings.HasPrefix(path, "e2e/") &&
		!strings.HasPrefix(path, "cmd/internal/") && !strings.HasPrefix(path, "internal/network/simnet/") && !strings.HasPrefix(path, "troupetest/") && !strings.HasPrefix(path, "devices/cuda/wheel/") &&
		!strings.Contains(path, "/simd/asm/")
}

// TestTimersAreListed checks that testdata/timers.txt has every timer of the sources, and what each is for. Timers that may end something
// idle name the operations of TestRests that test them.
func TestTimersAreListed(t *testing.T) {
	found := scan(t, isServed, timers())
	if len(found) < 100 {
		t.Fatalf("only %d places with timers were found: the test does not see them", len(found))
	}
	tested := map[string]bool{}
	for at, p := range checkPlaces(t, filepath.Join("testdata", "timers.txt"), found) {
		rests, isRest := strings.CutPrefix(p.kind, "rest:")
		if !isRest {
			if !slices.Contains([]string{"call", "start", "stop", "pace"}, p.kind) {
				t.Errorf("%s is of no known kind: %s", at, p.kind)
			}
			continue
		}
		tested[rests] = true
		if restElsewhere[rests] == "" && !slices.ContainsFunc(restKinds, func(k restKind) bool { return k.name == rests }) {
			t.Errorf("%s is tested by operations %q, which TestRests does not have", at, rests)
		}
	}
	for rests := range restElsewhere {
		if !tested[rests] {
			t.Errorf("restElsewhere has %q, which no timer is of", rests)
		}
	}
}
