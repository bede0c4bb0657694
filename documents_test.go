package troupe_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
		if err != nil {
			return err
		}
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
		return nil
	})
	if err != nil || links == 0 {
		t.Errorf("%d links, %v", links, err)
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
