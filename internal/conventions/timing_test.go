package conventions

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"testing"
)

// timing finds timers by their types, beyond those that isTimer finds by their names: comparisons of times and durations, also as integers
// (nanoseconds since 1970 or since a program's own zero), differences of such integers, and durations that are stored in fields, of this module's
// structs or of others', where something else waits for them.
type timing struct {
	info   *types.Info
	clocks map[types.Object]bool // functions of the module that return the present, or what is computed from it
	names  map[types.Object]bool // the same, of variables of the function at hand
	part   map[ast.Node]bool     // differences that are part of a comparison, which counts
}

// timerPosition is where a timer stands, and from where to where its function reaches.
type timerPosition struct {
	token.Position
	from, to token.Position
}

// in reports whether a place is in the timer's function.
func (p timerPosition) in(at position) bool {
	return !at.before(position{p.from.Line, p.from.Column}) && !(position{p.to.Line, p.to.Column}).before(at)
}

func newTiming() *timing { return &timing{clocks: map[types.Object]bool{}} }

// scan adds the timers of a package, which must come after those that it imports.
func (m *timing) scan(info *types.Info, set *token.FileSet, files []*ast.File, seen map[string]bool, found map[string][]timerPosition) {
	m.info = info
	for more := true; more; {
		more = false
		for _, file := range files {
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && !m.clocks[info.Defs[f.Name]] && m.tellsTime(f) {
					m.clocks[info.Defs[f.Name]], more = true, true
				}
			}
		}
	}
	for _, file := range files {
		path := filepath.ToSlash(set.Position(file.Pos()).Filename)
		if seen[path] = true; !isServed(path) {
			continue
		}
		for _, decl := range file.Decls {
			m.enter(decl)
			isNamed := timers()
			ast.Inspect(decl, func(n ast.Node) bool {
				if n != nil && (isNamed(n) || m.is(n)) {
					at := place(path, nameOf(decl))
					found[at] = append(found[at], timerPosition{set.Position(n.Pos()), set.Position(decl.Pos()), set.Position(decl.End())})
				}
				return true
			})
		}
	}
}

// tellsTime reports whether a function does nothing but return the present, or what is computed from it.
func (m *timing) tellsTime(f *ast.FuncDecl) bool {
	if f.Body == nil || len(f.Body.List) != 1 || f.Type.Results.NumFields() != 1 {
		return false
	}
	r, ok := f.Body.List[0].(*ast.ReturnStmt)
	m.names = nil
	return ok && len(r.Results) == 1 && isTime(m.info.TypeOf(r.Results[0])) && m.isPresent(r.Results[0])
}

// enter begins a declaration: it finds the variables to which the present, or what is computed from it, is assigned.
func (m *timing) enter(decl ast.Decl) {
	m.names, m.part = map[types.Object]bool{}, map[ast.Node]bool{}
	for before := -1; before != len(m.names); {
		before = len(m.names)
		ast.Inspect(decl, func(n ast.Node) bool {
			a, ok := n.(*ast.AssignStmt)
			if !ok || len(a.Lhs) != len(a.Rhs) {
				return true
			}
			for i, to := range a.Lhs {
				if name, ok := to.(*ast.Ident); ok && m.isPresent(a.Rhs[i]) {
					if v := m.info.ObjectOf(name); v != nil && isTime(v.Type()) {
						m.names[v] = true
					}
				}
			}
			return true
		})
	}
}

// is reports whether a node is a timer.
func (m *timing) is(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		switch n.Op {
		case token.LSS, token.LEQ, token.GTR, token.GEQ:
			if !m.isPresent(n.X) && !m.isPresent(n.Y) && (!m.isDuration(n.X) || !m.isDuration(n.Y) || m.isZero(n.X) || m.isZero(n.Y)) {
				return false
			}
			ast.Inspect(n, func(n ast.Node) bool {
				if n != nil {
					m.part[n] = true
				}
				return true
			})
			return true
		case token.SUB:
			return !m.part[n] && (m.isPresent(n.X) || m.isPresent(n.Y))
		}
	case *ast.CallExpr:
		f, ok := n.Fun.(*ast.SelectorExpr)
		if !ok || len(n.Args) != 1 || !isNamed(m.info.TypeOf(f.X), "Time") {
			return false
		}
		switch f.Sel.Name {
		case "Before", "After", "Compare":
			return m.isPresent(f.X) || m.isPresent(n.Args[0])
		}
	case *ast.AssignStmt:
		if len(n.Lhs) != len(n.Rhs) || n.Tok != token.ASSIGN {
			return false
		}
		for i, to := range n.Lhs {
			if field, ok := to.(*ast.SelectorExpr); ok && m.isDuration(field) && !m.isPresent(n.Rhs[i]) && !m.isZero(n.Rhs[i]) {
				return true
			}
		}
	case *ast.CompositeLit:
		t := m.info.TypeOf(n)
		if t == nil {
			return false
		}
		if _, is := t.Underlying().(*types.Struct); !is {
			return false
		}
		for _, e := range n.Elts {
			if field, keyed := e.(*ast.KeyValueExpr); keyed {
				if name, ok := field.Key.(*ast.Ident); ok && slices.Contains(timerFields, name.Name) {
					continue // counts by its name
				}
				e = field.Value
			}
			if m.isDuration(e) && !m.isPresent(e) && !m.isZero(e) {
				return true
			}
		}
	}
	return false
}

func (m *timing) isDuration(e ast.Expr) bool { return isNamed(m.info.TypeOf(e), "Duration") }

func (m *timing) isZero(e ast.Expr) bool {
	v := m.info.Types[e].Value
	return v != nil && v.Kind() == constant.Int && constant.Sign(v) == 0
}

// isTime reports whether a type is that of times, durations, or of the integers and floats that stand for them.
func isTime(t types.Type) bool {
	if t == nil {
		return false
	}
	if isNamed(t, "Time") || isNamed(t, "Duration") {
		return true
	}
	b, ok := t.Underlying().(*types.Basic)
	return ok && (b.Kind() == types.Int64 || b.Kind() == types.Uint64 || b.Kind() == types.Float64)
}

// isNamed reports whether a type is that of the package time with a name.
func isNamed(t types.Type, name string) bool {
	n, ok := t.(*types.Named)
	return ok && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == "time" && n.Obj().Name() == name
}

// isPresent reports whether an expression is the present time, in whatever form, or computed from it.
func (m *timing) isPresent(e ast.Expr) bool {
	if !isTime(m.info.TypeOf(e)) {
		return false
	}
	switch e := e.(type) {
	case *ast.ParenExpr:
		return m.isPresent(e.X)
	case *ast.BinaryExpr:
		return m.isPresent(e.X) || m.isPresent(e.Y)
	case *ast.Ident:
		return m.isPresentVariable(m.info.ObjectOf(e))
	case *ast.SelectorExpr:
		return m.isPresentVariable(m.info.ObjectOf(e.Sel))
	case *ast.CallExpr:
		return m.returnsPresent(e)
	}
	return false
}

func (m *timing) isPresentVariable(o types.Object) bool {
	v, ok := o.(*types.Var)
	return ok && (m.names[v] || v.Name() == "now")
}

// clockNames are those of functions in variables and fields that return the present.
var clockNames = []string{"clock", "now"}

func (m *timing) returnsPresent(c *ast.CallExpr) bool {
	if m.info.Types[c.Fun].IsType() { // a conversion
		return m.isPresent(c.Args[0])
	}
	var callee types.Object
	var on ast.Expr
	switch f := c.Fun.(type) {
	case *ast.Ident:
		callee = m.info.ObjectOf(f)
	case *ast.SelectorExpr:
		callee, on = m.info.ObjectOf(f.Sel), f.X
	}
	switch callee := callee.(type) {
	case *types.Builtin: // min and max
		return slices.ContainsFunc(c.Args, m.isPresent)
	case *types.Var:
		return len(c.Args) == 0 && slices.Contains(clockNames, callee.Name())
	case *types.Func:
		if m.clocks[callee.Origin()] {
			return true
		}
		if callee.Pkg() == nil || callee.Pkg().Path() != "time" {
			return false
		}
		method := callee.Signature().Recv() != nil
		switch callee.Name() {
		case "Now", "Since", "Until":
			return true
		case "Unix", "UnixNano", "UnixMilli", "UnixMicro":
			return method
		}
		return method && (m.isPresent(on) || slices.ContainsFunc(c.Args, m.isPresent))
	}
	return false
}

// TestTimersAreFound: the scan sees timers in all the forms that they have.
func TestTimersAreFound(t *testing.T) {
	const source = `package p
import "time"
type conf struct{ Wait time.Duration; n int }
type state struct { swept, now int64; clock func() time.Duration; looked time.Duration; conf *conf }
var zero = time.Now()
const pause = time.Second
func ticks() int64 { return int64(time.Since(zero)) }
func (s *state) counter() bool { return ticks()-s.swept > int64(pause) }
func (s *state) named() bool { at := ticks(); return at-s.swept > int64(pause) }
func (s *state) field() bool { return s.now > s.swept }
func (s *state) passed(now time.Duration) bool { return now < s.looked }
func (s *state) called() bool { return s.clock()-s.looked < pause }
func (s *state) unix() bool { return time.Now().UnixNano()-s.swept < 5 }
func (s *state) stored(at int64) bool { last := time.Unix(0, at).UnixMilli(); return last > s.swept }
func (s *state) difference() int64 { return ticks()-s.swept }
func (s *state) seconds() bool { return time.Since(zero).Seconds() > 2 }
func (s *state) before(at time.Time) bool { t := time.Now(); return at.Before(t) }
func (s *state) durations(d time.Duration) bool { return d >= pause }
func (s *state) assigned() { s.conf.Wait = pause }
func made() conf { return conf{Wait: pause} }
func unkeyed() conf { return conf{pause, 1} }
func waits() { time.Sleep(1) }
func fires() { time.AfterFunc(1, waits) }

func checked(d time.Duration) bool { return d < 0 }
func counts(c *conf) bool { return c.n > 5 }
func (s *state) measures() { s.looked = time.Since(zero) }
func zeroed() conf { return conf{Wait: 0} }
func stamps(s *state) { s.swept = ticks() }
`
	set, file, info, _ := checkSource(t, source, "time")
	found := map[string][]timerPosition{}
	newTiming().scan(info, set, []*ast.File{file}, map[string]bool{}, found)
	want := []string{"fires", "made", "state.assigned", "state.before", "state.called", "state.counter", "state.difference", "state.durations", "state.field",
		"state.named", "state.passed", "state.seconds", "state.stored", "state.unix", "unkeyed", "waits"}
	for i := range want {
		want[i] = "p.go:" + want[i]
	}
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
		t.Errorf("timers are in\n%v, not in\n%v", got, want)
	}
	for at, all := range found {
		if len(all) != 1 {
			t.Errorf("%s has %d timers: %v", at, len(all), all)
		}
	}
}
