package conventions

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// harmless are the packages, besides the module's own, that kernels may import: none of them opens a file, starts a program, reaches a network or
// asks the system for anything but time, memory, processors and random numbers, except by the functions in opening.
var harmless = strings.Fields(`bufio bytes cmp compress/gzip compress/lzw container/heap container/list context crypto/rand crypto/sha256 embed encoding/base64
	encoding/binary encoding/hex encoding/json errors fmt hash/crc32 hash/fnv image image/color image/png io io/fs iter log/slog maps math math/bits math/cmplx math/rand/v2
	path path/filepath reflect regexp runtime slices sort strconv strings sync sync/atomic time unicode unicode/utf8 unsafe
	github.com/dchest/siphash github.com/dgryski/go-farm github.com/galeone/tensorflow/ github.com/klauspost/compress/ golang.org/x/image/webp golang.org/x/sys/cpu
	golang.org/x/text/ gonum.org/v1/gonum/ google.golang.org/protobuf/`)

// opening are the functions of harmless packages, and of the module's, that open files or look at them, or reach a network.
var opening = map[string][]string{
	"path/filepath":              {"Walk", "WalkDir", "Glob", "EvalSymlinks", "Abs"},
	"time":                       {"LoadLocation"},
	module + "/internal/durable": {"Open"},
	module + "/internal/network": {"System"},
}

// doorFolders are the folders below kernels whose packages may import what they like, each with the reason.
var doorFolders = map[string]string{
	"kernels/files/":                  "the door",
	"kernels/internal/process/":       "the machine's name, the environment and the terminal",
	"kernels/kernelstest/":            "reads tests' data",
	"kernels/data/internal/datatest/": "builds pipelines for tests",
	"kernels/internal/simd/asm/":      "a program that generates sources",
}

// TestKernelsOpenNoFiles checks that kernels open files only through kernels/files, which gives each op those that its session may use. It looks at
// all sources, of all systems and builds.
func TestKernelsOpenNoFiles(t *testing.T) {
	used, checked := map[string]bool{}, 0
	found := walls(t, "kernels", func(path string) bool {
		for folder := range doorFolders {
			if strings.HasPrefix(path, folder) {
				used[folder] = true
				return false
			}
		}
		checked++
		return true
	})
	for _, f := range found {
		t.Errorf("%s: kernels get files from kernels.Context.Files", f)
	}
	if checked < 300 || len(used) != len(doorFolders) {
		t.Errorf("%d files were found, and of the folders that may open files %v", checked, used)
	}
}

// TestWallsAreSeen checks that each way through is found.
func TestWallsAreSeen(t *testing.T) {
	for source, want := range map[string]string{
		`import "os"`: "imports os", `import "syscall"`: "imports syscall", `import _ "io/ioutil"`: "imports io/ioutil", `import "net"`: "imports net",
		`import "C"`: "imports C", `import "golang.org/x/sys/unix"`: "imports golang.org/x/sys/unix", `import "os/exec"`: "imports os/exec",
		"import f \"path/filepath\"\nvar _ = f.Walk": "calls path/filepath.Walk", "import . \"time\"": "imports time without a name",
		"import _ \"unsafe\"\n//go:linkname open os.Open\nfunc open()": "go:linkname", "import \"path/filepath\"\nvar _ = filepath.Join": "",
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "p.go", "package p\n"+source, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(wall(file), ", ")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: found %q, not %q", source, got, want)
		}
	}
}

// walls returns what goes through the wall in the sources below a folder for which keep returns true, except for tests and programs.
func walls(t *testing.T, folder string, keep func(path string) bool) (all []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		path = filepath.ToSlash(path)
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || !keep(path) {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil || file.Name.Name == "main" { // programs that generate sources are not part of a server
			return err
		}
		for _, w := range wall(file) {
			all = append(all, path+" "+w)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// wall returns what goes through the wall in a file.
func wall(file *ast.File) (all []string) {
	names := map[string]string{} // of packages, by the names in the file
	for _, i := range file.Imports {
		from, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			from = err.Error()
		}
		allowed := within(from, module) || slices.ContainsFunc(harmless, func(h string) bool { return from == h || strings.HasSuffix(h, "/") && strings.HasPrefix(from, h) })
		name := path.Base(from)
		if i.Name != nil {
			name = i.Name.Name
		}
		switch {
		case !allowed:
			all = append(all, "imports "+from)
		case name == ".":
			all = append(all, "imports "+from+" without a name")
		}
		names[name] = from
	}
	for _, group := range file.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//go:linkname ") || strings.HasPrefix(c.Text, "//go:cgo_") {
				all = append(all, "has "+c.Text)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && slices.Contains(opening[names[x.Name]], s.Sel.Name) {
			all = append(all, "calls "+names[x.Name]+"."+s.Sel.Name)
		}
		return true
	})
	return all
}

// TestDoors checks that what kernels access is resolved where a session's rights are checked: a resource handle in
// kernels.Context.Handle, and files by the door that the task has made for the session.
func TestDoors(t *testing.T) {
	doors := []struct {
		selector string   // what is called
		in       string   // the folder in which it is
		except   []string // the places that may call it, each with its reason
	}{
		{"Handles", "kernels/", []string{
			"kernels/handle.go",                            // the door
			"kernels/data/internal/storage/fingerprint.go", // compares names
			"kernels/data/internal/datatest/",              // tests
			"kernels/data/internal/dataset/capture.go",     // names it; reads go through the door
			"kernels/internal/element/element.go",          // moves elements
			"kernels/internal/layout/move.go",              // moves elements
			"kernels/internal/printing/printing.go",        // prints names
			"kernels/kernelstest/",                         // tests
		}},
		{"NewDoor", "", []string{"actors/workersession.go", "kernels/files/door.go", "kernels/kernelstest/"}},
		{"All", "kernels/", []string{"kernels/files/", "kernels/kernelstest/", "kernels/all/"}},
	}
	for _, d := range doors {
		found := scan(t, func(path string) bool { return strings.HasPrefix(path, d.in) && !strings.HasSuffix(path, "_test.go") }, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok || s.Sel.Name != d.selector {
				return false
			}
			x, isName := s.X.(*ast.Ident)
			return d.selector == "Handles" || isName && x.Name == "files"
		})
		used := map[string]bool{}
		for at := range found {
			i := slices.IndexFunc(d.except, func(e string) bool { return strings.HasPrefix(at, e) })
			if i < 0 {
				t.Errorf("%s uses %s: see the package that it is of for the way that asks for rights", at, d.selector)
				continue
			}
			used[d.except[i]] = true
		}
		for _, e := range d.except {
			if !used[e] && strings.HasSuffix(e, ".go") && e != "kernels/files/door.go" {
				t.Errorf("%s does not use %s any more: the list of this test has it", e, d.selector)
			}
		}
	}
}
