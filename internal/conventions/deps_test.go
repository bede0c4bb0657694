package conventions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/troupe-run/troupe"

// layers are the folders from the lowest to the highest. A package may import packages of its own folder and of lower
// layers. Folders of one layer do not import each other.
var layers = [][]string{
	{"live", "subnormal"},
	{"graph", "network", "extent", "blocks", "bytesize", "recent", "quiet"},
	{"harness"},
	{"view", "rights", "turns"},
	{"contain"},
	{"durable"},
	{"processors"},
	{"roles"},
	{"containers", "queues"},
	{"kernels"},
	{"devices"},
	{"actors"},
	{"remote"},
	{"node"},
	{""}, // the root package
	{"troupetest"},
	{"command"},
	{"serve"},
	{"cmd", "examples"},
	{"conventions"},
	{"e2e"},
}

// libraries, as the from of a ban, are what can be embedded, apart from package serve and what it shares with the command.
const libraries = "libraries"

// data is the folder of the packages of tf.data, of which each may import only some of the others.
const data = module + "/kernels/data/internal"

// bans are imports that are refused in addition to the layers, each with its reason.
var bans = []struct {
	from, to   string // a package or folder of the module, and a prefix of import paths
	transitive bool   // imported packages must not import it either
	except     []string
	reason     string
}{
	{"graph", "google.golang.org/grpc", true, []string{"google.golang.org/grpc/codes", "google.golang.org/grpc/status", "google.golang.org/grpc/internal", "google.golang.org/grpc/connectivity", "google.golang.org/grpc/grpclog"},
		"passes over graphs are pure: they speak to nobody; gRPC's errors, which ours can become, open no connection"},
	{"graph", "github.com/asynkron", true, nil, "passes over graphs are pure: they are called, they are no actors"},
	{"graph/status", module, false, nil, "every package has errors: theirs imports none of them"},
	{"graph/tensor", module, false, []string{module + "/graph/status", module + "/live"}, "tensors know nothing of graphs"},
	{"kernels/internal/simd", module, false, []string{module + "/kernels/internal/simd"}, "slice kernels know Go's slices alone"},
	{"kernels/internal", module + "/kernels/all", true, nil, "shared helpers are below the families"},
	{"kernels/data/internal/dataset", data, false, nil, "what datasets are made of knows none of them"},
	{"kernels/data/internal/source", data, false, []string{data + "/dataset"}, "sources have no input"},
	{"kernels/data/internal/selection", data, false, []string{data + "/dataset", data + "/source"}, "selections know sources, for their seeds"},
	{"kernels/data/internal/mapping", data, false, []string{data + "/dataset", data + "/source", data + "/selection"}, "maps know the datasets that they make of elements"},
	{"kernels/data/internal/batching", data, false, []string{data + "/dataset", data + "/source", data + "/mapping"}, "batches know maps, with which they are fused"},
	{"kernels/data/internal/storage", data, false, []string{data + "/dataset", data + "/source"}, "what keeps elements knows how they are read again"},
	{"kernels/data/internal/passthrough", data, false, []string{data + "/dataset", data + "/selection"}, "sharding among workers knows shards"},
	{"kernels/data/internal/iterator", data, false, []string{data + "/dataset", data + "/passthrough"}, "iterators know no kind of dataset but options"},
	{"kernels", "google.golang.org/grpc", false, nil, "only remote knows the wire"},
	{"containers", "google.golang.org/grpc", false, nil, "only remote knows the wire"},
	{"queues", "google.golang.org/grpc", false, nil, "only remote knows the wire"},
	{"roles", "google.golang.org/grpc", false, nil, "only remote knows the wire"},
	{"devices", "google.golang.org/grpc", false, nil, "only remote knows the wire"},
	{"actors", "google.golang.org/grpc", false, nil, "only remote knows the wire"},
	{"actors", "go.opentelemetry.io", false, nil, "actors tell of spans through an interface of their own"},
	{libraries, "go.opentelemetry.io/otel/exporters/otlp", true, nil, "who embeds a server brings the exporter of its traces along; package serve has one for the operator"},
	{"remote/client", module + "/actors", true, nil, "a client does not carry a server along"},
	{"remote/client", module + "/kernels", true, nil, "a client does not carry a server along"},
	{"remote/internal/link", module + "/kernels", true, nil, "links carry tensors and messages, whatever they are for"},
	{"node", module + "/kernels", true, nil, "a node does not carry a server along"},
	{"node", module + "/devices", true, nil, "a node does not carry a server along"},
	{"remote/member", module + "/devices", true, nil, "members of a cluster need not run graphs"},
	{"remote/member", module + "/kernels", true, nil, "members of a cluster need not run graphs"},
	{"remote/internal/membership", module + "/kernels", true, nil, "tasks know each other, whatever they do"},
	{"actors/cast", module + "/kernels", true, nil, "programs' actors run no graphs"},
	{"remote/internal/actorservice", module + "/kernels", true, nil, "programs' actors run no graphs"},
	{"queues/pipeline", "github.com/asynkron", true, nil, "who produces or consumes does not carry a server along"},
	{"", "github.com/asynkron/protoactor-go/remote", true, nil, "links speak protoactor's remote protocol themselves, at the one port, and check who says what"},
	{libraries, "google.golang.org/grpc/internal/transport", true, nil, "ports and clients speak HTTP/2 themselves; gRPC's own servers and clients link templates, for whose calls by name all exported methods of all types are kept"},
	{libraries, "github.com/spf13", true, nil, "who embeds a server does not get a command line with it, unless the program imports package serve"},
	{"", "github.com/asynkron/protoactor-go/cluster", true, nil, "memberlist and links of our own say who is there"},
	{"", "C", true, []string{"net", "os/user", "runtime/cgo"}, "Troupe is one static binary, built without C"},
	{"", "weak", false, []string{module + "/live"}, "a list of what is in use has to be pruned seldom: package live does it in linear time"},
	// Package troupetest is itself for tests: its functions take the testing.TB of a program's tests, and only test files import it.
	{"", "testing", true, []string{module + "/troupetest"}, "programs do not carry tests along"},
	{"cmd", module + "/troupetest", true, nil, "it is for tests, and carries package testing along"},
	{"examples", module + "/troupetest", true, nil, "it is for tests, and carries package testing along"},
}

type listed struct {
	ImportPath, Dir, Name, Export      string
	Imports, Deps                      []string
	GoFiles, TestGoFiles, XTestGoFiles []string
	hidden                             bool // from other modules
}

// listPackages returns what go list prints about packages.
func listPackages(args ...string) (all []listed, err error) {
	cmd := exec.Command("go", append([]string{"list", "-json"}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.String())
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

// goList is listPackages with the paths that layers and bans apply to: see plain.
func goList(t *testing.T, args ...string) []listed {
	t.Helper()
	all, err := listPackages(args...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		p := &all[i]
		p.hidden = slices.Contains(strings.Split(p.ImportPath, "/"), "internal")
		p.ImportPath = plain(p.ImportPath)
		for i := range p.Imports {
			p.Imports[i] = plain(p.Imports[i])
		}
		for i := range p.Deps {
			p.Deps[i] = plain(p.Deps[i])
		}
	}
	return all
}

// plain returns the path of a package without the folder internal that hides it from other modules: the layers and bans
// apply to such packages too.
func plain(path string) string {
	if rest, ok := strings.CutPrefix(path, module+"/internal/"); ok {
		return module + "/" + rest
	}
	return path
}

// folderOf returns the first folder of a package of the module; ok is false for packages of other modules.
func folderOf(path string) (folder string, ok bool) {
	rest, ok := strings.CutPrefix(path, module)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	folder, _, _ = strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	return folder, true
}

func layerOf(folder string) int {
	return slices.IndexFunc(layers, func(l []string) bool { return slices.Contains(l, folder) })
}

func TestArrowsBetweenFolders(t *testing.T) {
	for _, p := range goList(t, "./...") {
		from, _ := folderOf(p.ImportPath)
		layer := layerOf(from)
		if layer < 0 {
			t.Errorf("%s: the folder %s has no layer", p.ImportPath, from)
			continue
		}
		for _, i := range p.Imports {
			to, ours := folderOf(i)
			if ours && to != from && layerOf(to) >= layer {
				t.Errorf("%s imports %s, which is not below it", p.ImportPath, i)
			}
		}
	}
}

func TestBannedImports(t *testing.T) {
	all := goList(t, "-deps", "./...")
	byPath := map[string]listed{}
	for _, p := range all {
		byPath[p.ImportPath] = p
	}
	for _, ban := range bans {
		for _, p := range all {
			if _, ours := folderOf(p.ImportPath); !ours || !bannedFrom(p.ImportPath, ban.from) {
				continue
			}
			imports := p.Imports
			if ban.transitive {
				imports = p.Deps
			}
			for _, i := range imports {
				if !within(i, ban.to) || slices.ContainsFunc(ban.except, func(e string) bool { return within(i, e) }) {
					continue
				}
				if via := importers(byPath, append(p.Deps, p.ImportPath), i); !allIn(via, ban.except) {
					t.Errorf("%s imports %s (through %s): %s", p.ImportPath, i, strings.Join(via, ", "), ban.reason)
				}
			}
		}
	}
}

// TestFamiliesOfKernels checks that no family of kernels imports another one: code that several of them need has a
// package under kernels/internal. The families are the packages that package all imports. Only they may register ops.
func TestFamiliesOfKernels(t *testing.T) {
	var families []string
	packages := goList(t, "./kernels/...")
	for _, p := range packages {
		if p.ImportPath == module+"/kernels/all" {
			families = slices.DeleteFunc(p.Imports, func(i string) bool {
				return i == module+"/kernels" || within(i, module+"/kernels/internal") || !within(i, module+"/kernels")
			})
		}
	}
	if len(families) < 20 {
		t.Fatalf("package all imports only %d families", len(families))
	}
	for _, p := range packages {
		if p.ImportPath == module+"/kernels/all" {
			continue
		}
		for _, i := range p.Imports {
			if slices.Contains(families, i) || i == module+"/kernels/all" {
				t.Errorf("%s imports the family %s: what both need belongs in a package under kernels/internal", p.ImportPath, i)
			}
		}
	}
}

// bannedFrom reports whether a ban applies to a package. A ban from the root applies to what can be embedded:
// everything except the command, the end-to-end tests and the helpers of the repository's own tests.
func bannedFrom(path, from string) bool {
	folder, _ := folderOf(path)
	switch from {
	case "":
	case libraries:
		if folder == "serve" || folder == "command" {
			return false
		}
	default:
		return within(path, module+"/"+from)
	}
	return folder != "cmd" && folder != "e2e" && folder != "examples" && (folder == "troupetest" || !strings.HasSuffix(path, "test"))
}

func within(path, prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }

// importers returns the packages that import path directly.
func importers(byPath map[string]listed, paths []string, path string) []string {
	var via []string
	for _, p := range paths {
		if slices.Contains(byPath[p].Imports, path) {
			via = append(via, p)
		}
	}
	return via
}

func allIn(paths, prefixes []string) bool {
	for _, p := range paths {
		if !slices.ContainsFunc(prefixes, func(e string) bool { return within(p, e) }) {
			return false
		}
	}
	return true
}

// TestPackageComments checks that each package has exactly one package comment.
func TestPackageComments(t *testing.T) {
	for _, p := range goList(t, "./...") {
		files := p.GoFiles
		if len(files) == 0 {
			files = slices.Concat(p.TestGoFiles, p.XTestGoFiles)
		}
		var with []string
		for _, name := range files {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if f.Doc == nil {
				continue
			}
			with = append(with, name)
			if text := f.Doc.Text(); p.Name != "main" && !strings.HasPrefix(text, "Package "+strings.TrimSuffix(p.Name, "_test")) {
				t.Errorf("%s: its comment does not begin with its name: %.60s", p.ImportPath, text)
			}
		}
		if len(with) != 1 {
			t.Errorf("%s has %d package comments: %s", p.ImportPath, len(with), strings.Join(with, ", "))
		}
	}
}
