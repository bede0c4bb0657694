package troupe_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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

// Links of the documents within the repository lead to files, and to headings of documents.
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
				for part := range strings.SplitSeq(plain(code), "\n…\n") {
					if !strings.Contains(plain(string(source)), "\n"+strings.Trim(part, "\n")+"\n") {
						t.Errorf("%s: %s does not have\n%s", path, file, part)
					}
				}
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

// plain is code without what indents its lines.
func plain(code string) string {
	lines := strings.Split(code, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSpace(l)
	}
	return "\n" + strings.Join(lines, "\n") + "\n"
}

// eachDocument calls a function with all documents.
func eachDocument(t *testing.T, do func(path string, text []byte)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata":
			return filepath.SkipDir
		case filepath.Ext(path) != ".md":
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

// hasHeading tells whether a document has a heading with the anchor, as GitHub makes them.
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
