package conventions

import (
	"cmp"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/remote/access"
)

var (
	codeBlock = regexp.MustCompile("(?ms)^```.*?^```|`[^`\n]*`")
	aLink     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	notAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// Links of the documents within the repository lead to existing files and headings.
func TestLinksOfDocuments(t *testing.T) {
	links := 0
	eachDocument(t, func(path string, text []byte) {
		for _, m := range aLink.FindAllSubmatch(codeBlock.ReplaceAll(text, nil), -1) {
			target := string(m[1])
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			links++
			file, anchor, _ := strings.Cut(target, "#")
			to := path
			if file != "" {
				to = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %s leads nowhere", path, target)
			} else if anchor != "" && !hasHeading(t, to, anchor) {
				t.Errorf("%s: %s: there is no such heading", path, target)
			}
		}
	})
	if links == 0 {
		t.Error("the documents have no links")
	}
}

// namedFile is a file that a document names as code: a path, or its end.
var namedFile = regexp.MustCompile("`([\\w./-]+\\.(?:go|proto|py|cu|txt))`")

// The files that the documents about the code name exist.
func TestFilesNamedInDocuments(t *testing.T) {
	var files []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, "/"+filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"ARCHITECTURE.md", "CONTRIBUTING.md", "docs/internals.md"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		names := namedFile.FindAllStringSubmatch(string(text), -1)
		if len(names) == 0 {
			t.Errorf("%s names no files", path)
		}
		for _, m := range names {
			exists := func(file string) bool { return strings.HasSuffix(file, "/"+m[1]) }
			if !slices.ContainsFunc(files, exists) {
				t.Errorf("%s: there is no file %s", path, m[1])
			}
		}
	}
}

var aBlock = regexp.MustCompile("(?ms)^(<!-- ([^\n]*) -->\n)?```(\\w+)\n(.*?)^```$")

// Each piece of code in the documents is tested: Python programs run (e2e), Go is in a file that is compiled, and policies are read.
func TestFragmentsOfDocuments(t *testing.T) {
	blocks := map[string]int{}
	eachDocument(t, func(path string, text []byte) {
		for _, m := range aBlock.FindAllSubmatch(text, -1) {
			mark, language, code := string(m[2]), string(m[3]), string(m[4])
			file, same := strings.CutPrefix(mark, "as in ")
			switch {
			case language == "text": // what a program prints
			case language == "python" && strings.HasPrefix(mark, "program: "), language == "go" && path == "README.md" && mark == "program: train":
			case language == "yaml" && mark == "a policy":
				if _, err := access.ParsePolicy(path, m[4]); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			case language == "go" && same:
				source, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				for part := range strings.SplitSeq(unindented(code), "\n…\n") {
					if !strings.Contains(unindented(string(source)), "\n"+strings.Trim(part, "\n")+"\n") {
						t.Errorf("%s: %s does not have\n%s", path, file, part)
					}
				}
			case language == "mermaid":
				checkSequence(t, path, code)
			default:
				t.Errorf("%s: nothing tests this %s, with the mark %q:\n%s", path, language, mark, code)
			}
			blocks[language]++
		}
	})
	for _, language := range []string{"python", "go", "yaml", "text"} {
		if blocks[language] == 0 {
			t.Errorf("there is no %s in the documents: %v", language, blocks)
		}
	}
}

var (
	participant   = regexp.MustCompile(`^    participant (\w+) as .+$`)
	messageOfFlow = regexp.MustCompile(`^    (\w+)--?>>(\w+): (.+)$`)
	camelCase     = regexp.MustCompile(`\b(?:[A-Z][a-z]+){2,}\b`)
	protoMessage  = regexp.MustCompile(`(?m)^message (\w+)`)
)

// checkSequence checks a sequence diagram: its participants are declared, and its named messages are those of the roles' protocols.
func checkSequence(t *testing.T, path, code string) {
	t.Helper()
	known := map[string]bool{"RunStep": true} // TensorFlow's
	for _, pattern := range []string{"actors/wire/*.proto", "devices/internal/wire/*.proto"} {
		files, err := filepath.Glob(filepath.FromSlash(pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files, %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range protoMessage.FindAllSubmatch(text, -1) {
				known[string(m[1])] = true
			}
		}
	}
	lines := strings.Split(strings.TrimSuffix(code, "\n"), "\n")
	if lines[0] != "sequenceDiagram" {
		t.Errorf("%s: a diagram begins with %q", path, lines[0])
	}
	declared := map[string]bool{}
	for _, line := range lines[1:] {
		if m := participant.FindStringSubmatch(line); m != nil {
			declared[m[1]] = true
			continue
		}
		m := messageOfFlow.FindStringSubmatch(line)
		if m == nil || !declared[m[1]] || !declared[m[2]] {
			t.Errorf("%s: a diagram has %q, which is no message between participants", path, line)
			continue
		}
		for _, name := range camelCase.FindAllString(m[3], -1) {
			if !known[name] {
				t.Errorf("%s: a diagram has %q, which is no message of a protocol", path, name)
			}
		}
	}
}

// The code in the comments of the packages that programs import is in a file that is compiled, statement by statement; … stands for a check
// of an error, as in documents.
func TestCodeOfPackageComments(t *testing.T) {
	source, err := os.ReadFile("fragments_test.go")
	if err != nil {
		t.Fatal(err)
	}
	compiled := unindented(string(source))
	blocks := 0
	for _, path := range promised {
		folder := filepath.FromSlash(cmp.Or(path, "."))
		names, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s has no files: %v", folder, err)
		}
		for _, name := range names {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				t.Fatal(err)
			}
			var c comment.Parser
			for _, b := range c.Parse(f.Doc.Text()).Content {
				code, ok := b.(*comment.Code)
				if !ok || strings.HasPrefix(code.Text, "tf.") { // Python
					continue
				}
				blocks++
				for part := range strings.SplitSeq(unindented(code.Text), "\n…\n") {
					if !strings.Contains(compiled, "\n"+strings.Trim(part, "\n")+"\n") {
						t.Errorf("%s: fragments_test.go does not have\n%s", name, part)
					}
				}
			}
		}
	}
	if blocks < 10 {
		t.Errorf("package comments have %d pieces of code", blocks)
	}
}

// unindented returns code without the indentation of its lines.
func unindented(code string) string {
	lines := strings.Split(code, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSpace(l)
	}
	return "\n" + strings.Join(lines, "\n") + "\n"
}

// eachDocument calls a function with all documents.
func eachDocument(t *testing.T, do func(path string, text []byte)) {
	t.Helper()
	eachFile(t, do, ".md")
}

// eachFile calls a function with all files of the repository with one of the extensions, except for test data and for copies that builds make.
func eachFile(t *testing.T, do func(path string, text []byte), extensions ...string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && path != ".ci" && d.Name()[0] == '.', d.Name() == "testdata", path == filepath.Join("python", "build"):
			return filepath.SkipDir
		case d.IsDir() || !slices.Contains(extensions, filepath.Ext(path)):
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			do(path, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// hasHeading reports whether a document has a heading with the anchor, as GitHub makes them.
func hasHeading(t *testing.T, path, anchor string) bool {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range heading.FindAllSubmatch(text, -1) {
		if strings.ReplaceAll(notAnchor.ReplaceAllString(strings.ToLower(string(m[1])), ""), " ", "-") == anchor {
			return true
		}
	}
	return false
}
