package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/client"
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

// printed are the packages whose functions are looked at.
var printed = []string{"./cmd/troupe/...", "./serve/...", "./internal/command/..."}

// TestOnlyPlainPrints checks that the command, and what it shares with package serve, write only through package plain, where no name can end a
// line or control a terminal. A function writes if it calls a method of a writer, or gives a writer to a package of another module, such as fmt, io,
// bufio and encoding/json; a writer into memory is none.
func TestOnlyPlainPrints(t *testing.T) {
	found := map[string]string{}
	for _, p := range loadPrinted(t) {
		p.writes(found)
	}
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
	root := repository(t)
	p := checked{root: root}
	p.check(t, exportsOf(t, root, "bufio", "bytes", "encoding/json", "fmt", "io", "log", "os", "strings", "text/tabwriter"), "p", map[string]any{filepath.Join(root, "p.go"): source})
	found := map[string]string{}
	p.writes(found)
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

// checked is a package with its types.
type checked struct {
	root  string
	set   *token.FileSet
	files []*ast.File
	info  *types.Info
	into  *types.Interface // io.Writer
}

// repository returns the root of the module.
func repository(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
}

// listPackages returns packages and all that they need.
func listPackages(t *testing.T, root string, patterns ...string) (all []listed) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,DepOnly"}, patterns...)...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// exportsOf returns the files that describe packages to a compiler, by their paths.
func exportsOf(t *testing.T, root string, patterns ...string) map[string]string {
	t.Helper()
	exports := map[string]string{}
	for _, p := range listPackages(t, root, patterns...) {
		exports[p.ImportPath] = p.Export
	}
	return exports
}

// loadPrinted checks the types of the packages that print.
func loadPrinted(t *testing.T) (all []checked) {
	t.Helper()
	root, exports := repository(t), map[string]string{}
	packages := listPackages(t, root, append([]string{"io"}, printed...)...)
	for _, p := range packages {
		exports[p.ImportPath] = p.Export
	}
	for _, p := range packages {
		if p.DepOnly || p.ImportPath == "io" || strings.HasSuffix(p.ImportPath, "/internal/command/plain") {
			continue
		}
		files := map[string]any{}
		for _, name := range p.GoFiles {
			files[filepath.Join(p.Dir, name)] = nil
		}
		c := checked{root: root}
		c.check(t, exports, p.ImportPath, files)
		all = append(all, c)
	}
	if len(all) < 10 {
		t.Fatalf("only %d packages were found", len(all))
	}
	return all
}

// check checks a package's files, each with its source, or nil for what is on disk.
func (c *checked) check(t *testing.T, exports map[string]string, path string, sources map[string]any) {
	t.Helper()
	c.set = token.NewFileSet()
	for name, source := range sources {
		file, err := parser.ParseFile(c.set, name, source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		c.files = append(c.files, file)
	}
	from := importer.ForCompiler(c.set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	c.info = &types.Info{Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	conf := types.Config{Importer: from, Sizes: types.SizesFor("gc", "amd64")}
	if _, err := conf.Check(path, c.set, c.files, c.info); err != nil {
		t.Fatal(err)
	}
	pkg, err := from.Import("io")
	if err != nil {
		t.Fatal(err)
	}
	c.into = pkg.Scope().Lookup("Writer").Type().Underlying().(*types.Interface)
}

// writes notes what each function calls to write, by file and function.
func (c *checked) writes(found map[string]string) {
	for _, file := range c.files {
		path, err := filepath.Rel(c.root, c.set.Position(file.Pos()).Filename)
		if err != nil {
			path = err.Error()
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if call := c.call(n); call != "" {
					found[filepath.ToSlash(path)+" "+f.Name.Name] = call
				}
				return true
			})
		}
	}
}

// implicit are functions that write to the standard output or error.
var implicit = regexp.MustCompile(`^(fmt\.Print|log\.(Print|Fatal|Panic|Output)|slog\.(Debug|Info|Warn|Error|Log))`)

// call returns what a node calls to write; nothing if it does not.
func (c *checked) call(n ast.Node) string {
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
		if !ok || callee.Pkg() == nil || strings.HasPrefix(callee.Pkg().Path(), "github.com/troupe-run/troupe") {
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
func (c *checked) writer(t types.Type) bool {
	if t == nil || !types.Implements(t, c.into) {
		return false
	}
	return !slices.Contains([]string{"*strings.Builder", "*bytes.Buffer", "hash.Hash", "hash.Hash32", "hash.Hash64", "fmt.State"}, t.String())
}

// notAsked are the commands with a target that do not end in the test below, or that change what it looks at.
var notAsked = []string{"drain", "reset", "cancel", "proxy", "wait"}

// TestHostileNames runs each command that looks at a cluster on one where a client has chosen names that control terminals and end lines.
func TestHostileNames(t *testing.T) {
	const hostile = "\x1b]0;owned\a\x1b[2J\u009b2J\nFORGED\r\u202eline"
	server, err := troupe.NewServer(t.Context(), troupe.ClusterSpec{"local": {"127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	c, err := client.Dial(t.Context(), server.Target())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	s := op.NewScope()
	queue := op.FIFOQueueV2(s, []tensor.DType{tensor.Float32}, attr.SharedName(hostile))
	op.QueueDequeueV2(s.WithName("never"), queue, []tensor.DType{tensor.Float32})
	begun := op.FIFOQueueV2(s, []tensor.DType{tensor.Float32}, attr.SharedName("begun"))
	op.QueueEnqueueV2(s.WithName("begin"), begun, []op.Output{op.Const[float32](s, 1)})
	op.QueueDequeueV2(s.WithName("begun"), begun, []tensor.DType{tensor.Float32})
	def, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	session, err := c.NewSession(t.Context(), def, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if _, err := session.Run(ctx, nil, []string{"never:0"}, []string{"begin"}); ctx.Err() == nil {
			t.Error(err)
			cancel()
		}
	}()
	defer func() { cancel(); <-ended }()
	if _, err := session.Run(ctx, nil, []string{"begun:0"}, nil); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, cmd := range newRoot(os.Stdin).Commands() {
		if !strings.Contains(cmd.Use, "TARGET") || slices.Contains(notAsked, cmd.Name()) {
			continue
		}
		for _, flags := range flagsOf(t, cmd) {
			args := append([]string{cmd.Name(), server.Target()}, flags...)
			var out, errs bytes.Buffer
			bounded, stop := context.WithTimeout(t.Context(), 5*time.Second)
			run(bounded, args, os.Stdin, &out, &errs)
			stop()
			asked++
			for _, text := range []string{out.String(), errs.String()} {
				if strings.ContainsAny(text, "\x1b\a\r\u009b\u202e") {
					t.Errorf("%q prints what commands a terminal:\n%q", args, text)
				}
				for line := range strings.SplitSeq(text, "\n") {
					if strings.HasPrefix(line, "FORGED") {
						t.Errorf("%q prints a line that a client has made:\n%q", args, text)
					}
				}
			}
			t.Logf("%q: %d bytes, with the name: %v", args, out.Len(), strings.Contains(out.String(), "FORGED"))
		}
	}
	if asked < 10 {
		t.Errorf("only %d commands were asked", asked)
	}
}

// flagsOf returns the ways to run a command: for people and, if it has --json, as JSON.
func flagsOf(t *testing.T, cmd *cobra.Command) [][]string {
	var short []string
	switch cmd.Name() {
	case "why":
		short = []string{"--longer-than", "0s"}
	case "top":
		short = []string{"--once"}
	case "timeline":
		short = []string{"--output", filepath.Join(t.TempDir(), "trace.json")}
	}
	all := [][]string{short}
	if cmd.Flags().Lookup("json") != nil {
		all = append(all, append(slices.Clone(short), "--json"))
	}
	return all
}
