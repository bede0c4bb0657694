//go:build unix

package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRunsListed checks that TestRuns has each example, each program of the documents and each program of this folder, or that a list says why
// not, and that its extents have what they promise: by default each kind of program and each repetition, in check all programs.
func TestRunsListed(t *testing.T) {
	groups := wareGroups(t)
	names := map[string]bool{}
	kinds := map[string]bool{}
	short, inCheck := map[string]bool{}, map[string]int{}
	for _, p := range groups {
		names[p.name], kinds[p.kind] = true, true
		for _, r := range allRepetitions {
			if slices.Contains(shortWays[p.name], r.name) {
				if !p.applies(r) {
					t.Errorf("%s is not repeated in the way %s, and shortWays says so", p.name, r.name)
				}
				short[p.kind], short[r.name] = true, true
			}
		}
		ways := p.waysInCheck()
		if len(ways) != 2 || ways[0].name != "again" {
			t.Errorf("in check, %s runs in the ways %v", p.name, ways)
		}
		for _, r := range ways {
			inCheck[r.name]++
		}
	}
	for _, kind := range wareKinds {
		if !kinds[kind] || !short[kind] {
			t.Errorf("programs of the kind %s: there are some: %v, by default: %v", kind, kinds[kind], short[kind])
		}
	}
	for _, r := range allRepetitions {
		if !short[r.name] {
			t.Errorf("by default, no program is repeated in the way %s", r.name)
		}
		if inCheck[r.name] < 5 {
			t.Errorf("in check, %d groups are repeated in the way %s", inCheck[r.name], r.name)
		}
	}
	for name := range shortWays {
		if !names[name] {
			t.Errorf("shortWays has %s, which TestRuns does not", name)
		}
	}
	for name, why := range elsewhere {
		if _, err := os.Stat(filepath.Join("..", name)); err != nil {
			if _, err := os.Stat(name); err != nil || why == "" {
				t.Errorf("elsewhere has %s, which is no file: %v, or gives no reason", name, err)
			}
		}
		if names[name] {
			t.Errorf("TestRuns has %s, and so has elsewhere", name)
		}
	}
	expected := readExpected(t)
	for _, path := range glob(t, "cases/*.py") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		starts := append(definition.FindAllIndex(text, -1), []int{len(text)})
		for i, start := range starts[:len(starts)-1] {
			m := caseFunction.FindSubmatch(text[start[0]:start[1]])
			if m == nil || !bytes.Contains(text[start[0]:starts[i+1][0]], []byte("Session.reset(")) {
				continue
			}
			name := strings.TrimSuffix(path, ".py") + "/" + strings.TrimPrefix(string(m[1]), "test_")
			if _, differs := expected.of(name, "beside-itself"); !differs {
				t.Errorf("%s resets a master, which closes the sessions of the run beside it, and testdata/runs.txt does not say so", name)
			}
		}
	}
	for name := range expected.of_ {
		if !slices.ContainsFunc(groups, func(p group) bool { return slices.ContainsFunc(p.wares, func(w ware) bool { return w.name == name }) }) {
			t.Errorf("testdata/runs.txt has %s, which TestRuns does not", name)
		}
	}
}

// definition matches the beginning of a function of a case's file.
var definition = regexp.MustCompile(`(?m)^def \w+\(`)

var fence = regexp.MustCompile("(?m)^ *```([a-z]+)$")

// TestFencesListed checks that the documents' blocks are in Python, and thus programs of TestRuns, or in a language for which a list says
// where they are tried.
func TestFencesListed(t *testing.T) {
	found := map[string]bool{}
	for _, pattern := range []string{"../*.md", "../python/*.md", "../docs/*.md"} {
		for _, path := range glob(t, pattern) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range fence.FindAllSubmatch(text, -1) {
				language := string(m[1])
				found[language] = true
				if language != "python" && fencesElsewhere[language] == "" {
					t.Errorf("%s has a block of %s, which TestRuns does not run", path, language)
				}
			}
		}
	}
	for language := range fencesElsewhere {
		if !found[language] {
			t.Errorf("no document has a block of %s", language)
		}
	}
}
