package simd

import (
	"bytes"
	endian "encoding/binary"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// instruction is what the assembler made of a line.
type instruction struct {
	line       string // position and text
	code       []byte
	extensions []string // the processor features that it needs
	err        error    // of its decoding
}

// assemblers decode what code begins with.
var assemblers = map[string]func(line string, code []byte) []instruction{"amd64": decodeX86, "arm64": decodeARM}

func decodeX86(line string, code []byte) (all []instruction) {
	named := !strings.HasPrefix(text(line), "BYTE")
	for len(code) > 0 {
		extensions, length, err := x86Extensions(code)
		switch {
		case err == nil && length == 0 && !named:
			err = fmt.Errorf("% x is written as bytes, of which this test knows instructions with a VEX or EVEX prefix only", code)
		case err == nil && length != 0 && named && length != len(code), length > len(code):
			err = fmt.Errorf("% x has %d bytes, not %d", code, len(code), length)
		}
		if length == 0 || err != nil {
			length = len(code)
		}
		all = append(all, instruction{line, code[:length], extensions, err})
		code = code[length:]
	}
	return all
}

func decodeARM(line string, code []byte) (all []instruction) {
	for ; len(code) >= 4; code = code[4:] {
		word := endian.LittleEndian.Uint32(code)
		if word == 0 { // after the function's end
			continue
		}
		i := instruction{line: line, code: code[:4]}
		if extension, ok := armExtension(word); !ok {
			i.err = fmt.Errorf("%08x is in no table of this test", word)
		} else if extension != "" {
			i.extensions = []string{extension}
		}
		all = append(all, i)
	}
	return all
}

var (
	listedFunction = regexp.MustCompile(`^\S*?\.?(\w+) STEXT .*size=(\d+)`)
	listedLine     = regexp.MustCompile(`^\t0x([0-9a-f]+) \d+ \(([^)]*)\)\t(.*)$`)
	listedBytes    = regexp.MustCompile(`^\t0x([0-9a-f]{4,}) ((?:[0-9a-f]{2} ){1,16})`)
	joined         = regexp.MustCompile(`^(BYTE|LOCK|REPN?)\b`) // parts of an instruction
)

// assemble runs Go's assembler, and returns the instructions of each function by the assembler's own listing.
func assemble(t *testing.T, goarch, source string) map[string][]instruction {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "source_"+goarch+".s")
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	return assembleFile(t, goarch, path)
}

func assembleFile(t *testing.T, goarch, path string) map[string][]instruction {
	t.Helper()
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("the assembler is not here:", err)
	}
	root, err := exec.Command(goTool, "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(goTool, "tool", "asm", "-S", "-p", "simd", "-I", filepath.Join(strings.TrimSpace(string(root)), "pkg", "include"),
		"-D", "GOOS_linux", "-D", "GOARCH_"+goarch, "-o", filepath.Join(t.TempDir(), "out.o"), path)
	c.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+goarch)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	listing, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", path, err, stderr.Bytes())
	}

	type start struct {
		at   int
		line string
		join bool
	}
	functions := map[string][]instruction{}
	var name string
	var starts []start
	var code []byte
	finish := func() {
		if name == "" {
			return
		}
		if len(code) == 0 || len(starts) == 0 {
			t.Fatalf("%s: the listing of %s has no code", path, name)
		}
		for i := 0; i < len(starts); {
			end := i + 1
			for end < len(starts) && (starts[end].at == starts[i].at || starts[end-1].join) {
				// Bytes go on with bytes only.
				if strings.HasPrefix(text(starts[end-1].line), "BYTE") && !strings.HasPrefix(text(starts[end].line), "BYTE") {
					break
				}
				end++
			}
			last := len(code)
			if end < len(starts) {
				last = starts[end].at
			}
			if line := starts[end-1].line; last > starts[i].at {
				functions[name] = append(functions[name], assemblers[goarch](line, code[starts[i].at:last])...)
			}
			i = end
		}
	}
	size := 0
	for line := range strings.Lines(string(listing)) {
		line = strings.TrimRight(line, "\n")
		if m := listedFunction.FindStringSubmatch(line); m != nil {
			finish()
			name, starts, code = m[1], nil, nil
			size, _ = strconv.Atoi(m[2])
			functions[name] = nil
			continue
		}
		if !strings.HasPrefix(line, "\t") { // data
			finish()
			name = ""
			continue
		}
		if name == "" {
			continue
		}
		if m := listedLine.FindStringSubmatch(line); m != nil {
			at, err := strconv.ParseInt(m[1], 16, 64)
			if err != nil {
				t.Fatal(line, err)
			}
			starts = append(starts, start{int(at), m[2] + ": " + m[3], joined.MatchString(m[3])})
		} else if m := listedBytes.FindStringSubmatch(line); m != nil && len(code) < size {
			b, err := hex.DecodeString(strings.ReplaceAll(m[2], " ", ""))
			if err != nil {
				t.Fatal(line, err)
			}
			code = append(code, b[:min(len(b), size-len(code))]...)
		}
	}
	finish()
	return functions
}

// text is the part of a line after its position.
func text(line string) string {
	_, after, _ := strings.Cut(line, ": ")
	return after
}

// checkKinds holds the decoder to instructions whose extensions are known.
func checkKinds(t *testing.T, goarch string, kinds map[string]string) {
	var source strings.Builder
	texts := slices.Sorted(maps.Keys(kinds))
	for i, text := range texts {
		fmt.Fprintf(&source, "TEXT ·f%d(SB), 4, $0\n\t%s\n\tRET\n", i, text)
	}
	all := assemble(t, goarch, source.String())
	for i, text := range texts {
		got := map[string]bool{}
		f := all[fmt.Sprintf("f%d", i)]
		for _, in := range f {
			if in.err != nil {
				got["?"] = true
			}
			for _, e := range in.extensions {
				got[e] = true
			}
		}
		if len(got) > 1 {
			delete(got, "SSE2") // of RET
		}
		if found := strings.Join(slices.Sorted(maps.Keys(got)), " "); found != kinds[text] || len(f) < 2 {
			t.Errorf("%s is decoded as %q, want %q: %v", text, found, kinds[text], f)
		}
	}
}

// gates are the Go functions that ask for what functions in assembly need, by the functions' names or their ends. The package has these
// functions in its files for the architecture.
var gates = []struct{ goarch, end, gate string }{
	{"amd64", "AVX512", "hasAVX512"},
	{"amd64", "AVX2", "hasAVX2"},
	{"amd64", "bfloatDots", "hasBFloatDots"},
	{"amd64", "bfloatTiles", "hasBFloatTiles"},
	{"arm64", "NEON", "hasNEON"},
	// For these, any processor of the architecture will do.
	{"amd64", "permitTiles", ""},
	{"amd64", "control", ""}, {"amd64", "setControl", ""},
	{"arm64", "control", ""}, {"arm64", "setControl", ""},
}

// features returns what a gate asks for: the fields of cpu.X86 and cpu.ARM64 in its condition, which has to be a conjunction.
func features(t *testing.T, functions map[string]*ast.FuncDecl, gate string) (names []string) {
	t.Helper()
	f := functions[gate]
	if f == nil || len(f.Body.List) != 1 {
		t.Fatalf("the gate %s is not a function with one statement", gate)
	}
	result, ok := f.Body.List[0].(*ast.ReturnStmt)
	if !ok || len(result.Results) != 1 {
		t.Fatalf("the gate %s does not return a condition", gate)
	}
	var add func(e ast.Expr)
	add = func(e ast.Expr) {
		switch e := e.(type) {
		case *ast.BinaryExpr:
			if e.Op != token.LAND {
				t.Fatalf("the gate %s has the operator %s", gate, e.Op)
			}
			add(e.X)
			add(e.Y)
		case *ast.CallExpr:
			names = append(names, features(t, functions, e.Fun.(*ast.Ident).Name)...)
		case *ast.SelectorExpr:
			name, ok := strings.CutPrefix(e.Sel.Name, "Has")
			if !ok {
				t.Fatalf("the gate %s asks for %s", gate, e.Sel.Name)
			}
			names = append(names, name)
		default:
			t.Fatalf("the gate %s has a %T", gate, e)
		}
	}
	add(result.Results[0])
	return names
}

// parsed returns the declarations of the package's files for an architecture: functions, and variables by name.
func parsed(t *testing.T) (functions map[string]*ast.FuncDecl, variables map[string]*ast.ValueSpec) {
	t.Helper()
	functions, variables = map[string]*ast.FuncDecl{}, map[string]*ast.ValueSpec{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name != "init" {
					functions[d.Name.Name] = d
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if v, ok := s.(*ast.ValueSpec); ok {
						for _, name := range v.Names {
							variables[name.Name] = v
						}
					}
				}
			}
		}
	}
	return functions, variables
}

// TestInstructionsFitTheirGates assembles all assembly of the repository and decodes the result: what a function's instructions need of a
// processor must be asked for by its gate. Go's assembler accepts all instructions and registers everywhere.
func TestInstructionsFitTheirGates(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "dist" || d.Name() == "shared"):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".s"):
			files = append(files, path)
		}
		return nil
	})
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	declared, _ := parsed(t)
	found := map[string]int{} // functions by gate
	for _, path := range files {
		goarch := ""
		for arch := range assemblers {
			if strings.HasSuffix(path, "_"+arch+".s") {
				goarch = arch
			}
		}
		if goarch == "" {
			t.Errorf("%s is for no architecture that this test can decode", path)
			continue
		}
		for name, instructions := range assembleFile(t, goarch, path) {
			i := slices.IndexFunc(gates, func(g struct{ goarch, end, gate string }) bool {
				return g.goarch == goarch && strings.HasSuffix(name, g.end) && (name == g.end || strings.ToUpper(g.end) == g.end)
			})
			if i < 0 {
				t.Errorf("%s: %s is in no gate's list", path, name)
				continue
			}
			found[gates[i].goarch+" "+gates[i].end]++
			allowed := []string{"SSE2"}
			if gate := gates[i].gate; gate != "" {
				allowed = append(allowed, features(t, declared, gate)...)
			}
			for _, in := range instructions {
				if in.err != nil {
					t.Errorf("%s: %s has %s: %v", filepath.Base(path), name, in.line, in.err)
				}
				for _, e := range in.extensions {
					if !slices.Contains(allowed, e) {
						t.Errorf("%s: %s has %s, which needs %s; its gate asks for %v", filepath.Base(path), name, in.line, e, allowed)
					}
				}
			}
		}
	}
	for _, g := range gates {
		n, least := found[g.goarch+" "+g.end], 1
		if strings.ToUpper(g.end) == g.end {
			least = 50
		}
		if n < least {
			t.Errorf("only %d functions of %s for %s were found", n, g.end, g.goarch)
		}
	}
}

// TestLevelsUseTheirFunctions checks that only what belongs to a level refers to the level's functions: the name of each function and variable
// that refers to one ends like it, and AVX-512 may use those of AVX2.
func TestLevelsUseTheirFunctions(t *testing.T) {
	levelOf := func(name string) string {
		for _, level := range []string{"AVX512", "AVX2", "NEON"} {
			if strings.HasSuffix(strings.ToUpper(name), level) {
				return level
			}
		}
		return ""
	}
	functions, variables := parsed(t)
	uses := 0
	check := func(name string, node ast.Node) {
		ast.Inspect(node, func(n ast.Node) bool {
			used, ok := n.(*ast.Ident)
			if !ok || functions[used.Name] == nil || functions[used.Name].Body != nil || levelOf(used.Name) == "" {
				return true
			}
			uses++
			if own, other := levelOf(name), levelOf(used.Name); own != other && !(own == "AVX512" && other == "AVX2") {
				t.Errorf("%s refers to %s", name, used.Name)
			}
			return true
		})
	}
	for name, f := range functions {
		if f.Body != nil {
			check(name, f.Body)
		}
	}
	for name, v := range variables {
		for _, value := range v.Values {
			check(name, value)
		}
	}
	if uses < 300 {
		t.Errorf("only %d uses were found", uses)
	}
}

// TestLevelsCanBeChosen checks that GODEBUG turns the faster levels off, as the Makefile's targets do.
func TestLevelsCanBeChosen(t *testing.T) {
	if os.Getenv("SHOW_LEVEL") != "" {
		fmt.Printf("level %s.\n", Level())
		return
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("the other architectures have one level")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for off, want := range map[string]string{"cpu.avx2=off": "go", "cpu.avx512f=off": "avx2"} {
		if want == "avx2" && !slices.ContainsFunc(available(), func(s *kernelSet) bool { return s.name == want }) {
			continue
		}
		c := exec.Command(exe, "-test.run=^TestLevelsCanBeChosen$", "-test.v")
		c.Env = append(os.Environ(), "SHOW_LEVEL=1", "GODEBUG="+off)
		out, err := c.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("level "+want+".")) {
			t.Errorf("GODEBUG=%s: %v, want the level %s:\n%s", off, err, want, out)
		}
	}
}
