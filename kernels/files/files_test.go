package files

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
)

func check(t *testing.T, err error, code status.Code, text string) {
	t.Helper()
	if status.CodeOf(err) != code || err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("got %v: %v, want %v: %s", status.CodeOf(err), err, code, text)
	}
}

func TestReadAndWrite(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a", "b", "f")
	for _, content := range []string{"some bytes\x00", "less", ""} {
		check(t, Write(All, name, content), status.OK, "")
		got, err := Read(All, "file://"+name)
		check(t, err, status.OK, "")
		if got != content {
			t.Errorf("read %q, wrote %q", got, content)
		}
	}
	_, err := Read(All, filepath.Join(dir, "none"))
	check(t, err, status.NotFound, "none; No such file or directory")
	_, err = Read(All, dir)
	check(t, err, status.FailedPrecondition, dir+"; Is a directory")
	_, err = Read(All, filepath.Join(name, "x"))
	check(t, err, status.FailedPrecondition, "; Not a directory")
	_, err = Read(All, "")
	check(t, err, status.NotFound, "; No such file or directory")
	_, err = Read(All, "gs://bucket/f")
	check(t, err, status.Unimplemented, "File system scheme 'gs' not implemented (file: 'gs://bucket/f')")
	check(t, Write(All, dir, "x"), status.FailedPrecondition, "; Is a directory")
	check(t, Write(All, filepath.Join(name, "x", "y"), "x"), status.FailedPrecondition, "is not a directory")
}

func TestReadTakesFilesOfUnknownSize(t *testing.T) {
	if got, err := Read(All, "/proc/self/comm"); err == nil && !strings.HasSuffix(got, "\n") {
		t.Errorf("got %q", got)
	}
}

func TestFnmatch(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"*", "abc", true}, {"*", "a/c", false}, {"a*c", "abbc", true}, {"a*c", "ab/c", false}, {"*/*", "a/b", true},
		{"a*b*c", "aXbXbYc", true}, {"a*b*c", "aXbXbY", false}, {"**", "x", true}, {"", "", true}, {"", "x", false}, {"x*", "x", true},
		{"?", "é", true}, {"?", "/", false}, {"[a-c]", "b", true}, {"[a-c]", "d", false}, {"[!a-c]", "d", true}, {"[^a-c]", "b", false},
		{"[]a]", "]", true}, {"[a", "[a", true}, {"[a-]", "-", true}, {"[[:digit:]]", "5", true}, {"[[:digit:]x]", "x", true}, {"[[:alpha:]]", "5", false},
		{`\*`, "*", true}, {`\*`, "x", false}, {`[\]]`, "]", true}, {"[/]", "/", false}, {`\`, `\`, false},
		{"a/*.txt", "a/b.txt", true}, {"a/*.txt", "a/.txt", true}, {"*b", "abab", true},
	} {
		if got := fnmatch(c.pattern, c.path); got != c.want {
			t.Errorf("fnmatch(%q, %q) is %v", c.pattern, c.path, got)
		}
	}
}

func TestFnmatchTakesNoLongerThanItMust(t *testing.T) {
	if fnmatch(strings.Repeat("*a", 200)+"b", strings.Repeat("a", 4000)) {
		t.Error("a pattern that ends with b matches what has none")
	}
}

func TestMatch(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a1", "a2", "b1", "d/x", "d/y", "e/x", "e/f/x", "w*"} {
		if err := Write(All, filepath.Join(dir, name), ""); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for _, c := range []struct {
		pattern string
		want    []string
	}{
		{dir + "/a?", []string{dir + "/a1", dir + "/a2"}},
		{dir + "/[ab]1", []string{dir + "/a1", dir + "/b1"}},
		{dir + "/*/x", []string{dir + "/d/x", dir + "/e/x"}},
		{dir + "/*/*/x", []string{dir + "/e/f/x"}},
		{dir + "/d/", []string{dir + "/d/"}},
		{dir + "/d*/", []string{dir + "/d"}},
		{dir + "/none*", nil},
		{dir + "/none/*", nil},
		{dir + "/a1/*", nil},
		{dir + `/w\*`, []string{dir + "/w*"}},
		{"a*", []string{"./a1", "./a2"}},
		{"./a*", []string{"./a1", "./a2"}},
		{"d/*", []string{"d/x", "d/y"}},
		{"*/x", []string{"./d/x", "./e/x"}},
		{"a1", []string{"a1"}},
		{"none", nil},
		{"", nil},
	} {
		got, err := Match(All, c.pattern)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, %v, want %q", c.pattern, got, err, c.want)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "locked"), 0); err != nil {
		t.Fatal(err)
	}
	if got, err := Match(All, dir+"/locked/*"); got != nil || err != nil {
		t.Errorf("in a folder that may not be read: %q, %v", got, err)
	}
}
