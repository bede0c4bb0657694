package conventions

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ownPrinting are the functions that may write without package plain, each with the reason.
var ownPrinting = map[string]string{
	"cmd/troupe/certs.go writePrivate":                    "a file",
	"cmd/troupe/context.go save":                          "a file",
	"cmd/troupe/internal/bench/machine.go echo":           "what has come over a connection",
	"cmd/troupe/internal/bench/machine.go measureMachine": "what is measured over a connection",
	"cmd/troupe/internal/demo/demo.go Run":                "a log, whose handler escapes",
	"cmd/troupe/internal/doctor/udp.go probeUDP":          "a request",
	"cmd/troupe/main.go run":                              "the errors of cobra, whose arguments are the user's own",
	"cmd/troupe/query.go row":                             "cells, as plain.Line",
	"cmd/troupe/query.go table":                           "columns of cells that row has made",
	"internal/command/command.go LogFlags":                "a log, whose handler escapes",
	"internal/command/journal/journal.go Write":           "a log, whose handler has escaped",
	"serve/internal/owner/call.go fill":                   "the protocol of the program that owns the server",
	"serve/internal/owner/call.go write":                  "the protocol of the program that owns the server",
	"cmd/troupe/query.go printJSON":                       "JSON, which is escaped",
	"cmd/troupe/top.go run":                               "what a terminal is told on purpose",
	"cmd/troupe/top.go draw":                              "what a terminal is told on purpose, and lines of show.Screen",
	"cmd/troupe/internal/doctor/collect.go greeting":      "a request",
	"cmd/troupe/internal/show/table.go Write":             "rows of cells, as plain.Line",
	"internal/command/command.go Report":                  "an error, as plain.Text",
	"serve/internal/owner/owner.go dial":                  "the protocol of the program that owns the server",
}

// TestOnlyPlainPrints checks that the command, and what it shares with package serve, write only through package plain, where no name can end a
// line or control a terminal. A function writes if it calls a method of a writer, or gives a writer to a package of another module, such as fmt, io,
// bufio and encoding/json; a writer into memory is none.
func TestOnlyPlainPrints(t *testing.T) {
	m, err := scanModule()
	if err != nil {
		t.Fatal(err)
	}
	if m.printed < 10 {
		t.Fatalf("only %d packages that print were found", m.printed)
	}
	found := m.prints
	for where, call := range found {
		if ownPrinting[where] == "" {
			t.Errorf("%s calls %s: print with package plain", where, call)
		}
	}
	for where := range ownPrinting {
		if found[where] == "" {
			t.Errorf("%s does not print", where)
		}
	}
}

// TestWritersAreFound checks that TestOnlyPlainPrints sees each way to write.
func TestWritersAreFound(t *testing.T) {
	const source = `package p
import ("bufio"; "bytes"; "encoding/json"; "fmt"; "io"; "log"; "os"; "strings"; "text/tabwriter")
func write(w io.Writer) { w.Write(nil) }
func text(f *os.File) { f.WriteString("") }
func ioText(w io.Writer) { io.WriteString(w, "") }
func buffered(w io.Writer) { bufio.NewWriter(w) }
func flushed(w *bufio.Writer) { w.WriteByte(1) }
func encoded(w io.Writer) { json.NewEncoder(w) }
func formatted(w io.Writer) { fmt.Fprintf(w, "") }
func plainly() { fmt.Println() }
func logged() { log.Print() }
func builtIn() { println() }
func columns(w io.Writer) { tabwriter.NewWriter(w, 0, 0, 0, 0, 0) }
func copied(w io.Writer, r io.Reader) { io.Copy(w, r) }
func standard() { fmt.Fprint(os.Stderr) }
func method(w io.Writer) func([]byte) (int, error) { return w.Write }
type own struct{ io.Writer }
func embedded(o own) { o.Write(nil) }
func memory() { var b strings.Builder; fmt.Fprint(&b); b.WriteString(""); var c bytes.Buffer; c.WriteByte(1); bufio.NewWriter(&c) }
func pass(w io.Writer) { memory2(w) }
func memory2(w io.Writer) {}
func text2() string { return fmt.Sprint() }
func read(f *os.File) { bufio.NewReader(f) }
`
	set, file, info, others := checkSource(t, source, "bufio", "bytes", "encoding/json", "fmt", "io", "log", "os", "strings", "text/tabwriter")
	into, err := ioWriter(others)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	(&printing{info, into}).writes(set, []*ast.File{file}, found)
	want := "buffered builtIn columns copied embedded encoded flushed formatted ioText logged method plainly standard text write"
	var got []string
	for where := range found {
		got = append(got, strings.TrimPrefix(where, "p.go "))
	}
	slices.Sort(got)
	if strings.Join(got, " ") != want {
		t.Errorf("writing are\n%s, not\n%s", strings.Join(got, " "), want)
	}
}

// isPrinted reports whether a package is the command, or shared by it with package serve. Package plain is what they write through.
func isPrinted(path string) bool {
	return (within(path, module+"/cmd/troupe") || within(path, module+"/serve") || within(path, module+"/command")) && path != module+"/command/plain"
}

// printing finds what writes in a package.
type printing struct {
	info *types.Info
	into *types.Interface // io.Writer
}

// ioWriter returns the interface io.Writer.
func ioWriter(from types.Importer) (*types.Interface, error) {
	pkg, err := from.Import("io")
	if err != nil {
		return nil, err
	}
	return pkg.Scope().Lookup("Writer").Type().Underlying().(*types.Interface), nil
}

// writes adds what each function calls to write, by file and function.
func (c *printing) writes(set *token.FileSet, files []*ast.File, found map[string]string) {
	for _, file := range files {
		path := set.Position(file.Pos()).Filename
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if call := c.call(n); call != "" {
					found[path+" "+f.Name.Name] = call
				}
				return true
			})
		}
	}
}

// implicit are functions that write to the standard output or error.
var implicit = regexp.MustCompile(`^(fmt\.Print|log\.(Print|Fatal|Panic|Output)|slog\.(Debug|Info|Warn|Error|Log))`)

// call returns what a node calls to write; nothing if it does not.
func (c *printing) call(n ast.Node) string {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		s := c.info.Selections[n]
		if s != nil && s.Kind() != types.FieldVal && strings.HasPrefix(n.Sel.Name, "Write") && (c.writer(s.Recv()) || c.writer(types.NewPointer(s.Recv()))) {
			return s.Recv().String() + "." + n.Sel.Name
		}
	case *ast.CallExpr:
		if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "print" || id.Name == "println") {
			if _, ok := c.info.Uses[id].(*types.Builtin); ok {
				return id.Name
			}
		}
		f, ok := n.Fun.(*ast.SelectorExpr)
		if !ok {
			return ""
		}
		callee, ok := c.info.Uses[f.Sel].(*types.Func)
		if !ok || callee.Pkg() == nil || strings.HasPrefix(callee.Pkg().Path(), module) {
			return ""
		}
		name := callee.Pkg().Name() + "." + callee.Name()
		if implicit.MatchString(name) && callee.Signature().Recv() == nil || callee.Pkg().Name() == "cobra" && strings.HasPrefix(callee.Name(), "Print") {
			return name
		}
		params := callee.Signature().Params()
		for i, arg := range n.Args {
			if i < params.Len() && c.writer(params.At(i).Type()) && c.writer(c.info.TypeOf(arg)) {
				return name
			}
		}
	}
	return ""
}

// writer reports whether values of a type write somewhere else than into memory.
func (c *printing) writer(t types.Type) bool {
	if t == nil || !types.Implements(t, c.into) {
		return false
	}
	return !slices.Contains([]string{"*strings.Builder", "*bytes.Buffer", "hash.Hash", "hash.Hash32", "hash.Hash64", "fmt.State"}, t.String())
}
