package conventions

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
	"testing"
)

// recursionKinds are the kinds of bounds on a recursion's depth.
var recursionKinds = []string{"code", "half", "limit", "rank", "turn"}

// TestRecursionsAreBounded checks that testdata/recursion.txt has every function that may call itself, directly or through others, and what
// bounds its depth: Go cannot recover from a stack overflow. A call through an interface of the module counts as a call of every type that
// implements it. A function that passes on or stores another one counts as calling it.
func TestRecursionsAreBounded(t *testing.T) {
	t.Parallel()
	found := map[string]int{}
	for _, name := range recursions(t) {
		found[name]++
	}
	if len(found) < 50 {
		t.Fatalf("only %d recursive functions were found: the test does not see them", len(found))
	}
	for at, p := range checkPlaces(t, list("recursion.txt"), found) {
		if !slices.Contains(recursionKinds, p.kind) {
			t.Errorf("%s is of no known kind: %s", at, p.kind)
		}
	}
}

// TestRecursionsAreFound: the graph of calls has the kinds of recursion that Go has.
func TestRecursionsAreFound(t *testing.T) {
	const source = `package p
type tree struct{ next []tree; then func(); shape walker }
type walker interface{ walk() }
func itself(n int) { itself(n) }
func one(n int) { two(n) }
func two(n int) { one(n) }
func (t tree) each() { for _, n := range t.next { n.each() } }
func generic[T any](v T) { generic(v) }
func local() { var visit func(n int); visit = func(n int) { visit(n) }; visit(1) }
func passed(f func()) { f() }
func passes() { passed(func() { passes() }) }
func (t tree) walk() { t.shape.walk() }
var table map[string]func()
func init() { table = map[string]func(){"a": tabled} }
func tabled() { table["a"]() }
func stored() { t := tree{then: stored}; t.then() }
func plain() { itself(1); local() }
`
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	g := newCalls(set)
	if err := g.check("p", []*ast.File{file}, nil); err != nil {
		t.Fatal(err)
	}
	want := []string{"p.go:generic", "p.go:itself", "p.go:local.visit", "p.go:one", "p.go:passes", "p.go:passes.func", "p.go:stored", "p.go:table", "p.go:tabled",
		"p.go:tree.each", "p.go:two", "p.go:walker.walk"}
	if got := g.recursive(); !slices.Equal(got, want) {
		t.Errorf("recursive are\n%v, not\n%v", got, want)
	}
}

// recursions returns the recursive functions of the code that programs and servers run.
func recursions(t *testing.T) []string {
	t.Helper()
	m, err := scanModule()
	if err != nil {
		t.Fatal(err)
	}
	return m.recursive
}

// calls is the graph of possible calls. Its nodes are functions and methods (*types.Func, the generic ones), literals of functions
// (*ast.FuncLit), and variables and fields that hold functions (*types.Var). Variables and fields have edges to the functions assigned to
// them.
type calls struct {
	files    *token.FileSet
	others   types.Importer // of packages of other modules
	packages map[string]*types.Package
	edges    map[any]map[any]bool
	names    map[any]string
	// dynamic are the methods of the module's interfaces, and concrete the named types, which may implement them.
	dynamic  map[*types.Func]*types.Interface
	concrete []*types.Named
	also     func(path string, info *types.Info, files []*ast.File) // looks at each package too; may be nil
}

func newCalls(files *token.FileSet) *calls {
	return &calls{files: files, packages: map[string]*types.Package{}, edges: map[any]map[any]bool{}, names: map[any]string{}, dynamic: map[*types.Func]*types.Interface{}}
}

// Import returns the module's packages as checked from their sources, since they must share their objects.
func (g *calls) Import(path string) (*types.Package, error) {
	if p := g.packages[path]; p != nil {
		return p, nil
	}
	if g.others == nil {
		return nil, fmt.Errorf("no package %s", path)
	}
	return g.others.Import(path)
}

// check adds a package. Only the files for which counted returns true are examined, or all if counted is nil.
func (g *calls) check(path string, files []*ast.File, counted func(file string) bool) error {
	info := newInfo()
	conf := types.Config{Importer: g, FakeImportC: true, Sizes: types.SizesFor("gc", "amd64")}
	pkg, err := conf.Check(path, g.files, files, info)
	if err != nil {
		return err
	}
	g.packages[path] = pkg
	if g.also != nil {
		g.also(plain(path), info, files)
	}
	scope := pkg.Scope()
	for _, name := range scope.Names() {
		if tn, ok := scope.Lookup(name).(*types.TypeName); ok && !tn.IsAlias() {
			if named, ok := tn.Type().(*types.Named); ok {
				g.declared(named)
			}
		}
	}
	for _, file := range files {
		name := g.files.Position(file.Pos()).Filename
		if counted != nil && !counted(name) {
			continue
		}
		for _, decl := range file.Decls {
			w := &walk{calls: g, info: info, file: name}
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Body != nil {
					f := info.Defs[decl.Name].(*types.Func)
					w.in, w.name = f, nameOf(decl)
					g.names[f] = place(name, w.name)
					w.body(decl.Body)
				}
			case *ast.GenDecl:
				w.body(decl)
			}
		}
	}
	return nil
}

func (g *calls) declared(named *types.Named) {
	face, ok := named.Underlying().(*types.Interface)
	if !ok {
		g.concrete = append(g.concrete, named)
		return
	}
	for i := range face.NumExplicitMethods() {
		m := face.ExplicitMethod(i)
		g.dynamic[m] = face
		g.names[m] = place(g.files.Position(m.Pos()).Filename, named.Obj().Name()+"."+m.Name())
	}
}

func (g *calls) edge(from, to any) {
	if from == nil || to == nil {
		return
	}
	if g.edges[from] == nil {
		g.edges[from] = map[any]bool{}
	}
	g.edges[from][to] = true
}

// walk visits the code of one declaration.
type walk struct {
	*calls
	info *types.Info
	file string
	name string // of the declaration
	in   any    // the node whose code it is; nil outside of functions
}

// body adds edges from the function, or the variable, to what its code mentions.
func (w *walk) body(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			w.literal(n, "func")
			return false
		case *ast.GoStmt:
			// Another goroutine has a stack of its own.
			outer := w.in
			w.in = nil
			w.body(n.Call)
			w.in = outer
			return false
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && (f.Sel.Name == "Go" || f.Sel.Name == "AfterFunc") {
				w.body(n.Fun)
				outer := w.in
				w.in = nil
				w.each(n.Args)
				w.in = outer
				return false
			}
		case *ast.Ident:
			w.mention(w.info.Uses[n])
		case *ast.AssignStmt:
			for i, right := range n.Rhs {
				if len(n.Lhs) == len(n.Rhs) {
					w.given(w.variable(n.Lhs[i]), right)
				}
			}
			w.each(n.Lhs)
			if len(n.Lhs) != len(n.Rhs) {
				w.each(n.Rhs)
			}
			return false
		case *ast.ValueSpec:
			for i, right := range n.Values {
				if len(n.Names) == len(n.Values) {
					w.given(w.variable(n.Names[i]), right)
				} else {
					w.body(right)
				}
			}
			return false
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok {
				if field, ok := w.info.Uses[key].(*types.Var); ok && field.IsField() {
					w.given(field, n.Value)
					return false
				}
			}
		}
		return true
	})
}

func (w *walk) each(list []ast.Expr) {
	for _, e := range list {
		w.body(e)
	}
}

// variable returns the variable or field that an expression denotes, or nil if it denotes none.
func (w *walk) variable(e ast.Expr) *types.Var {
	switch e := e.(type) {
	case *ast.Ident:
		v, _ := w.info.ObjectOf(e).(*types.Var)
		return v
	case *ast.SelectorExpr:
		v, _ := w.info.Uses[e.Sel].(*types.Var)
		return v
	case *ast.IndexExpr:
		return w.variable(e.X)
	}
	return nil
}

// given adds edges for a value assigned to a variable. The assigning function need not call the value.
func (w *walk) given(v *types.Var, value ast.Expr) {
	if v == nil || v.Name() == "_" || !holdsFunctions(w.info.TypeOf(value)) {
		w.body(value)
		return
	}
	outer := w.in
	v = v.Origin()
	if v.Parent() != nil && v.Parent() == v.Pkg().Scope() && w.names[v] == "" {
		w.names[v] = place(w.file, v.Name())
	}
	switch value := value.(type) {
	case *ast.FuncLit:
		w.in = v
		w.literal(value, v.Name())
	case *ast.Ident, *ast.SelectorExpr:
		w.in = v
		w.body(value)
		w.in = outer
		if s, ok := value.(*ast.SelectorExpr); ok {
			w.body(s.X)
		}
	default: // calls, which happen here
		if _, ok := value.(*ast.CompositeLit); ok {
			w.in = v
		}
		w.body(value)
	}
	w.in = outer
}

// holdsFunctions reports whether a type is a function type, or a list, map or pointer of one.
func holdsFunctions(t types.Type) bool {
	if t == nil {
		return false
	}
	switch t := t.Underlying().(type) {
	case *types.Signature:
		return true
	case *types.Map:
		return holdsFunctions(t.Elem())
	case *types.Slice:
		return holdsFunctions(t.Elem())
	case *types.Array:
		return holdsFunctions(t.Elem())
	case *types.Struct:
		for i := range t.NumFields() {
			if _, ok := t.Field(i).Type().Underlying().(*types.Signature); ok {
				return true
			}
		}
	}
	return false
}

func (w *walk) literal(n *ast.FuncLit, name string) {
	w.edge(w.in, n)
	outer, outerName := w.in, w.name
	w.name = strings.TrimPrefix(w.name+"."+name, ".")
	w.in = n
	w.names[n] = place(w.file, w.name)
	w.body(n.Body)
	w.in, w.name = outer, outerName
}

// mention adds the edge to a function or variable that the code names.
func (w *walk) mention(o types.Object) {
	switch o := o.(type) {
	case *types.Func:
		w.edge(w.in, o.Origin())
	case *types.Var:
		if holdsFunctions(o.Type()) {
			w.edge(w.in, o.Origin())
		}
	}
}

// implement adds edges from the methods of an interface to those of the types that implement it.
func (g *calls) implement(face *types.Interface, methods []*types.Func) {
	for _, named := range g.concrete {
		var t types.Type = types.NewPointer(named)
		if named.TypeParams().Len() == 0 && !types.Implements(t, face) {
			continue
		}
		for _, m := range methods {
			if o, _, _ := types.LookupFieldOrMethod(t, true, m.Pkg(), m.Name()); o != nil {
				if f, ok := o.(*types.Func); ok && g.edges[f.Origin()] != nil {
					g.edge(m, f.Origin())
				}
			}
		}
	}
}

// recursive returns the names of the nodes on cycles. An interface's methods are looked at with the calls through that interface alone:
// devices call kernels, which call devices, so with all interfaces everything would be one cycle.
func (g *calls) recursive() []string {
	found := map[string]bool{}
	g.circles(func(n any) { found[g.names[n]] = true })
	faces := map[*types.Interface][]*types.Func{}
	for m, face := range g.dynamic {
		faces[face] = append(faces[face], m)
	}
	for face, methods := range faces {
		g.implement(face, methods)
		g.circles(func(n any) {
			if m, ok := n.(*types.Func); ok && g.dynamic[m] != nil {
				found[g.names[n]] = true
			}
		})
		for _, m := range methods {
			delete(g.edges, m)
		}
	}
	delete(found, "") // fields, whose functions have names
	return slices.Sorted(maps.Keys(found))
}

// circles calls report for each node on a cycle, by Tarjan's algorithm.
func (g *calls) circles(report func(n any)) {
	index, low, on := map[any]int{}, map[any]int{}, map[any]bool{}
	var stack []any
	var visit func(n any)
	visit = func(n any) {
		index[n], low[n] = len(index)+1, len(index)+1
		stack, on[n] = append(stack, n), true
		for m := range g.edges[n] {
			if index[m] == 0 {
				visit(m)
				low[n] = min(low[n], low[m])
			} else if on[m] {
				low[n] = min(low[n], index[m])
			}
		}
		if low[n] != index[n] {
			return
		}
		at := slices.Index(stack, n)
		for _, m := range stack[at:] {
			on[m] = false
			if len(stack) > at+1 || g.edges[m][m] {
				report(m)
			}
		}
		stack = stack[:at]
	}
	for n := range g.edges {
		if index[n] == 0 {
			visit(n)
		}
	}
}
