package conventions

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/internal/extent"
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
		!strings.HasPrefix(path, ".ci/") && !strings.Contains(path, "/simd/asm/")
}

// servedPythonWait and scriptWait match what waits for a time, or ends something after one, in the Python package and in the dashboard.
var (
	servedPythonWait = regexp.MustCompile(pythonWait.String() + `|[(,] *\w*timeout\w* *[,)]|\bself\.\w+\.join\(\w`)
	scriptWait       = regexp.MustCompile(`\b(setTimeout|setInterval|requestAnimationFrame|requestIdleCallback)\(|AbortSignal\.timeout\(|` +
		`\b(Date|performance)\.now\(\) *[-<>]|[-<>]=? *(Date|performance)\.now\(\)`)
)

// scriptFunction matches the first line of a function or a method in JavaScript.
var scriptFunction = regexp.MustCompile(`^( *)(?:(?:export|default|async|static|function|const|get) )*(\w+)(?:\(.*\) \{$| = (?:async )?(?:\(.*\)|\w+) =>)`)

// servedTimers returns how many timers stand where in what programs, servers and pages run: in Go, in the Python package, and in the dashboard. What is
// not built for this system is looked at without its types, by the timers' names alone.
func servedTimers(t *testing.T) map[string]int {
	t.Helper()
	m, err := scanModule()
	if err != nil {
		t.Fatal(err)
	}
	found := scan(t, func(path string) bool { return isServed(path) && !m.files[path] }, timers())
	for at, all := range m.timers {
		found[at] += len(all)
	}
	maps.Copy(found, scanLines(t, []string{filepath.Join("python", "troupe")}, ".py", `"""`, " # ", pythonFunction, servedPythonWait))
	maps.Copy(found, scanLines(t, []string{filepath.Join("remote", "observe", "ui", "assets")}, ".js", "`", " // ", scriptFunction, scriptWait))
	return found
}

// restElsewhere are the kinds that other tests cover: in which package, by which name (as for go test -run), and why not by TestRests.
var restElsewhere = map[string]struct{ in, test, why string }{
	"retry":     {"./remote/internal/gateway", "^TestRepeatedRequest$", "clients choose the ids of their requests themselves"},
	"pull":      {"./remote/internal/workerservice", "^TestPeers$", "connections to tasks whose tensors eager contexts receive are made by their clients"},
	"dashboard": {"./e2e", "^TestProcessesThatRest$/^dashboard$", "browsers have real connections"},
	"memory":    {"./e2e", "^TestProcessesThatRest$/^memory$", "the system's memory is that of real processes"},
}

// timerKinds are the kinds of timers beside those of rests. The head of testdata/timers.txt explains them.
var timerKinds = []string{"call", "start", "stop", "pace", "set", "measure"}

// restsOf returns the names of the operations that test a timer: of rest:NAME or rest:NAME,NAME. It returns nil for other kinds.
func restsOf(p listedPlace) []string {
	names, is := strings.CutPrefix(p.kind, "rest:")
	if !is {
		return nil
	}
	return strings.Split(names, ",")
}

// TestTimersAreListed checks that testdata/timers.txt has every timer of the sources, and what each is for. Timers that may end something
// idle name the operations of TestRests that test them; TestRestsRunTheirTimers checks that they do.
func TestTimersAreListed(t *testing.T) {
	t.Parallel()
	found := servedTimers(t)
	languages := map[string]int{}
	for at := range found {
		file, _, _ := strings.Cut(at, ":")
		languages[filepath.Ext(file)]++
	}
	for language, least := range map[string]int{".go": 200, ".py": 10, ".js": 3} {
		if languages[language] < least {
			t.Fatalf("only %d places with timers were found in files %s: the test does not see them", languages[language], language)
		}
	}
	tested, here := map[string]bool{}, namesIn(t, "rests_test.go", "restKinds")
	for at, p := range checkPlaces(t, list("timers.txt"), found) {
		names := restsOf(p)
		if names == nil && !slices.Contains(timerKinds, p.kind) {
			t.Errorf("%s is of no known kind: %s", at, p.kind)
		}
		for _, rests := range names {
			tested[rests] = true
			_, elsewhere := restElsewhere[rests]
			if !elsewhere && !slices.Contains(here, rests) {
				t.Errorf("%s is tested by operations %q, which TestRests does not have", at, rests)
			}
		}
	}
	for rests, e := range restElsewhere {
		if !tested[rests] {
			t.Errorf("restElsewhere has %q, which no timer is of", rests)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(e.test, "^"), "$")
		if !isTestOf(t, e.in, name) {
			t.Errorf("restElsewhere has the test %s of %s for %q, and there is none", name, e.in, rests)
		}
	}
}

// isTestOf reports whether a folder has a test.
func isTestOf(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("\nfunc "+name+"(t *testing.T)")) {
			return true
		}
	}
	return false
}

// TestRestsRunTheirTimers checks that the tests which the lines rest:NAME of testdata/timers.txt name do run these timers: it builds the tests so that they
// count what they run, and runs the operations of each name alone, in the form of make test.
func TestRestsRunTheirTimers(t *testing.T) {
	if !extent.Check() || extent.RaceDetector {
		t.Skip("it builds tests that count what they run: TROUPE_TESTS=check")
	}
	m, err := scanModule()
	if err != nil {
		t.Fatal(err)
	}
	_, listed := readPlaces(t, list("timers.txt"))
	tests, packages := map[string]ran{}, map[string]map[string]bool{} // packages by the folders of the tests
	for at, p := range listed {
		names := restsOf(p)
		if names == nil {
			continue
		}
		if m.timers[at] == nil {
			t.Errorf("%s is not built for this system, or is no Go: nobody knows whether a test runs it", at)
			continue
		}
		file, _, _ := strings.Cut(at, ":")
		for _, rests := range names {
			tests[rests] = nil
			in, _ := testOf(rests)
			if packages[in] == nil {
				packages[in] = map[string]bool{}
			}
			packages[in][path.Join(module, path.Dir(file))] = true
		}
	}
	covered := &coverage{t.TempDir(), map[string]string{}}
	for _, rests := range slices.Sorted(maps.Keys(tests)) {
		in, test := testOf(rests)
		tests[rests] = covered.of(t, in, test, slices.Sorted(maps.Keys(packages[in])))
	}
	for at, p := range listed {
		names := restsOf(p)
		if names == nil {
			continue
		}
		for _, timer := range m.timers[at] {
			if !slices.ContainsFunc(names, func(rests string) bool { return tests[rests].has(timer) }) {
				t.Errorf("%s: %s:%d is no timer that the operations %s run", at, timer.Filename, timer.Line, strings.Join(names, " and "))
			}
		}
	}
}

// testOf returns the test of a kind: its folder, and its name as for go test -run.
func testOf(rests string) (in, test string) {
	if e, elsewhere := restElsewhere[rests]; elsewhere {
		return e.in, e.test
	}
	return ".", "^TestRests$/^" + rests + "$"
}

// coverage builds and runs tests that count what they run of some packages.
type coverage struct {
	dir   string
	built map[string]string // tests by their folders
}

// program is the path of the command that counts what it runs, for tests of processes.
func (c *coverage) program() string { return filepath.Join(c.dir, "troupe") }

// build builds the tests of a folder, which count what they run of some packages. Those of e2e have processes do that.
func (c *coverage) build(t *testing.T, in string, packages []string) {
	t.Helper()
	counting := []string{"-cover", "-coverpkg=" + strings.Join(packages, ",")}
	c.built[in] = filepath.Join(c.dir, strings.NewReplacer("/", "_", ".", "_").Replace(in)+".test")
	args := []string{"test", "-c", "-o", c.built[in]}
	if in == "./e2e" {
		const command = "./cmd/troupe" // is counted as well, since programs whose package main is not counted write nothing down
		c.tool(t, slices.Concat([]string{"build", "-o", c.program()}, counting[:1], []string{counting[1] + "," + path.Join(module, command), command})...)
	} else {
		args = append(args, counting...)
	}
	c.tool(t, append(args, in)...)
}

// tool runs the go command.
func (c *coverage) tool(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// ran is what a test has run: by file, the blocks of statements, and whether they were run.
type ran map[string][]block

type block struct {
	from, to position
	ran      bool
}

type position struct{ line, column int }

func (p position) before(q position) bool {
	return p.line < q.line || p.line == q.line && p.column < q.column
}

// of runs tests of a folder. Tests of e2e count what their processes run, which end in order.
func (c *coverage) of(t *testing.T, in, test string, packages []string) ran {
	t.Helper()
	profile := filepath.Join(c.dir, "profile")
	if c.built[in] == "" {
		c.build(t, in, packages)
	}
	args := []string{"-test.run=" + test, "-test.timeout=10m"}
	length := "TROUPE_TESTS="
	var counters string
	if in == "./e2e" {
		length, counters = "TROUPE_TESTS=check", t.TempDir()
	} else {
		args = append(args, "-test.coverprofile="+profile)
	}
	cmd := exec.CommandContext(t.Context(), c.built[in], args...)
	cmd.Dir = in
	cmd.Env = append(os.Environ(), length, "GOCOVERDIR="+counters, "TROUPE_E2E_BINARY="+c.program())
	out, err := cmd.CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("no tests to run")) {
		t.Errorf("%s in %s: %v\n%s", test, in, err, out)
		return nil
	}
	if counters != "" {
		c.tool(t, "tool", "covdata", "textfmt", "-i="+counters, "-o="+profile)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	all := ran{}
	for line := range strings.Lines(string(text)) {
		file, rest, ok := strings.Cut(strings.TrimPrefix(line, module+"/"), ":")
		var b block
		var statements, times int
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.from.line, &b.from.column, &b.to.line, &b.to.column, &statements, &times); ok && err == nil {
			b.ran = times > 0
			all[file] = append(all[file], b)
		}
	}
	return all
}

// has reports whether a timer was run: the block of statements that it is in or, for the conditions of cases, which are in none, its function.
func (r ran) has(timer timerPosition) bool {
	at, inBlock, inFunction := position{timer.Line, timer.Column}, false, false
	for _, b := range r[timer.Filename] {
		here := !at.before(b.from) && at.before(b.to)
		if here && b.ran {
			return true
		}
		inBlock = inBlock || here
		inFunction = inFunction || b.ran && timer.in(b.from) && timer.in(b.to)
	}
	return inFunction && !inBlock
}
