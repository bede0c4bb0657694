package conventions

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// bannedWords is a phrase that comments and documents do not use, with what to write in its place.
type bannedWords struct {
	phrase *regexp.Regexp
	better string
}

// readBannedWords reads testdata/words.txt.
func readBannedWords(t *testing.T) (banned []bannedWords) {
	t.Helper()
	text, err := os.ReadFile(list("words.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		phrase, better, found := strings.Cut(line, " => ")
		if !found {
			t.Fatalf("testdata/words.txt: %q has no replacement", line)
		}
		banned = append(banned, bannedWords{regexp.MustCompile(phrase), better})
	}
	return banned
}

// prose is a text for people in a file, with the number of its first line. Line breaks in it do not matter.
type prose struct {
	line int
	text string
}

// findBanned returns a line for each banned phrase of the texts of a file.
func findBanned(path string, texts []prose, banned []bannedWords) (found []string) {
	for _, p := range texts {
		flat := strings.ToLower(strings.ReplaceAll(p.text, "\n", " "))
		for _, b := range banned {
			for _, at := range b.phrase.FindAllStringIndex(flat, -1) {
				line := p.line + strings.Count(p.text[:at[0]], "\n")
				found = append(found, fmt.Sprintf("%s:%d: %q: write %s", path, line, flat[at[0]:at[1]], b.better))
			}
		}
	}
	return found
}

// commentsOf returns the comments of a Go file.
func commentsOf(path string, source []byte) ([]prose, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var texts []prose
	for _, group := range file.Comments {
		lines := make([]string, len(group.List))
		for i, c := range group.List {
			lines[i] = strings.TrimPrefix(strings.TrimPrefix(c.Text, "//"), " ")
		}
		texts = append(texts, prose{files.Position(group.Pos()).Line, strings.Join(lines, "\n")})
	}
	return texts, nil
}

// lineComments returns the comments of a file in another language, which run from a mark to the end of the line.
func lineComments(source []byte, mark string) (texts []prose) {
	n := 0
	for line := range strings.Lines(string(source)) {
		n++
		if _, comment, found := strings.Cut(strings.TrimRight(line, "\n"), mark); found {
			if last := len(texts) - 1; last >= 0 && texts[last].line+strings.Count(texts[last].text, "\n")+1 == n {
				texts[last].text += "\n" + strings.TrimSpace(comment)
			} else {
				texts = append(texts, prose{n, strings.TrimSpace(comment)})
			}
		}
	}
	return texts
}

// proseOf returns the text for people in a file: all of a document, and the comments of other files.
func proseOf(path string, source []byte) ([]prose, error) {
	switch filepath.Ext(path) {
	case ".md":
		return []prose{{1, string(source)}}, nil
	case ".go":
		return commentsOf(path, source)
	case ".proto":
		return lineComments(source, "//"), nil
	}
	return lineComments(source, "# "), nil
}

// TestWords holds comments and documents to plain words: testdata/words.txt lists those that are not.
func TestWords(t *testing.T) {
	banned := readBannedWords(t)
	eachFile(t, func(path string, source []byte) {
		if strings.HasSuffix(path, ".pb.go") {
			return // its comments are those of the .proto
		}
		texts, err := proseOf(path, source)
		if err != nil {
			t.Error(err)
		}
		for _, f := range findBanned(path, texts, banned) {
			t.Error(f)
		}
	}, ".go", ".md", ".proto", ".py", ".sh", ".yaml", ".yml")
}

// TestBannedWordsAreFound: a phrase is found where a line ends within it, and in every kind of comment.
func TestBannedWordsAreFound(t *testing.T) {
	banned := []bannedWords{{regexp.MustCompile(`\btells whether\b`), "reports whether"}}
	comments, err := commentsOf("a.go", []byte("package a\n\n// f is there, and tells\n// whether it is.\nfunc f() {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name  string
		texts []prose
		want  string
	}{
		{"Go", comments, `a:3: "tells whether": write reports whether`},
		{"others", lineComments([]byte("x = 1\n# It\n# tells\n# whether.\n"), "# "), `a:3: "tells whether": write reports whether`},
		{"nothing", lineComments([]byte("# It tells all. # whether\n"), "# "), ""},
	} {
		if got := strings.Join(findBanned("a", row.texts, banned), "\n"); got != row.want {
			t.Errorf("%s: found %q, want %q", row.name, got, row.want)
		}
	}
}
