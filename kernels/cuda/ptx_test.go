package cuda

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func modules(t *testing.T) []*module {
	t.Helper()
	all, err := readModules(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no PTX")
	}
	return all
}

var includes = regexp.MustCompile(`(?m)^#include "(.*)"$`)

// headersOf returns the headers that a source includes with quotes, directly or indirectly, in order of name.
func headersOf(t *testing.T, file string) []string {
	t.Helper()
	var all []string
	for queue := []string{file}; len(queue) > 0; queue = queue[1:] {
		text, err := os.ReadFile(queue[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range includes.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(all, m[1]) {
				all, queue = append(all, m[1]), append(queue, m[1])
			}
		}
	}
	slices.Sort(all)
	return all
}

// TestUpToDate checks that each source has PTX that was made from it by the current build.sh.
func TestUpToDate(t *testing.T) {
	sources, err := filepath.Glob("*.cu")
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]string{}
	for _, m := range modules(t) {
		made[m.name], _, _ = strings.Cut(m.text, "\n")
	}
	for _, source := range sources {
		sum := sha256.New()
		for _, part := range slices.Concat([]string{"build.sh", source}, headersOf(t, source)) {
			text, err := os.ReadFile(part)
			if err != nil {
				t.Fatal(err)
			}
			sum.Write(text)
		}
		name := strings.TrimSuffix(source, ".cu")
		if want := "// SHA-256 " + hex.EncodeToString(sum.Sum(nil)); made[name] != want {
			t.Errorf("ptx/%s.ptx is not what build.sh makes of %s: it says %q, not %q. Run kernels/cuda/build.sh %s", name, source, made[name], want, source)
		}
		delete(made, name)
	}
	for name := range made {
		t.Errorf("ptx/%s.ptx has no source", name)
	}
}

var (
	signature = regexp.MustCompile(`(?s)\.visible \.entry (\w+)\((.*?)\)`)
	parameter = regexp.MustCompile(`^\.param (?:\.[usbf]64|\.align 8 \.b8) \w+(?:\[(\d+)\])?$`)
)

// TestParametersAreEightBytes checks that every kernel reads a packed list of 8-byte words.
func TestParametersAreEightBytes(t *testing.T) {
	for _, m := range modules(t) {
		found := signature.FindAllStringSubmatch(m.text, -1)
		if len(found) == 0 || len(found) != len(entries(m.text)) || len(found) != strings.Count(m.text, ".entry ") {
			t.Errorf("ptx/%s.ptx: %d signatures for %d kernels", m.name, len(found), strings.Count(m.text, ".entry "))
		}
		for _, f := range found {
			for p := range strings.SplitSeq(f[2], ",") {
				p = strings.TrimSpace(p)
				size := parameter.FindStringSubmatch(p)
				if p != "" && (size == nil || size[1] != "" && !isMultipleOf8(size[1])) {
					t.Errorf("%s of ptx/%s.ptx has a parameter that is not of 8-byte words: %s", f[1], m.name, p)
				}
			}
		}
	}
}

func isMultipleOf8(decimal string) bool {
	n, err := strconv.Atoi(decimal)
	return err == nil && n%8 == 0
}

func TestNamesAreUnique(t *testing.T) {
	of := map[string]string{}
	for _, m := range modules(t) {
		for _, f := range entries(m.text) {
			if other, twice := of[f]; twice {
				t.Errorf("%s and %s both have a kernel %s", other, m.name, f)
			}
			of[f] = m.name
		}
	}
}

// BenchmarkModule measures finding a process's first kernel.
func BenchmarkModule(b *testing.B) {
	for b.Loop() {
		all, err := readModules(os.DirFS("."))
		if err != nil {
			b.Fatal(err)
		}
		for _, m := range all {
			entries(m.text)
		}
	}
}

// TestModule checks that, with the tag, the index leads from each kernel to its text, and that it is empty without the tag.
func TestModule(t *testing.T) {
	if compiled == nil {
		if _, _, ok := Module("add_f32"); ok || len(Functions()) != 0 {
			t.Error("a kernel without the tag cuda")
		}
		return
	}
	var want []string
	for _, m := range modules(t) {
		for _, f := range entries(m.text) {
			want = append(want, f)
			name, ptx, ok := Module(f)
			if !ok || ptx != m.text || !strings.HasPrefix(name, m.name+"-") {
				t.Errorf("Module(%s) is %s, %v", f, name, ok)
			}
		}
	}
	slices.Sort(want)
	if !slices.Equal(Functions(), want) {
		t.Errorf("Functions() is %v, not %v", Functions(), want)
	}
	if _, _, ok := Module("no_such_kernel"); ok {
		t.Error("a module for a kernel that is not there")
	}
}
