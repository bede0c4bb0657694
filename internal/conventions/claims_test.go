package conventions

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestClaimsOfSecurityAreTested checks that testdata/claims.txt names existing tests for each action that the table in SECURITY.md says a
// caller cannot do.
func TestClaimsOfSecurityAreTested(t *testing.T) {
	page, err := os.ReadFile("SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile(list("claims.txt"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{} // by caller and action
	for line := range strings.Lines(string(list)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, " | ")
		if len(cells) != 3 {
			t.Fatalf("%q has not three parts", line)
		}
		tests[cells[0]+" | "+cells[1]] = cells[2]
	}
	_, table, _ := strings.Cut(string(page), "| who | what they cannot do | what it takes |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(strings.TrimSpace(table), "\n")
	if len(rows) < 6 {
		t.Fatalf("SECURITY.md's table has only %d rows", len(rows))
	}
	for _, row := range rows[1:] {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if len(cells) != 3 {
			t.Fatalf("%q has not three cells", row)
		}
		for claim := range strings.SplitSeq(cells[1], "; ") {
			key := cells[0] + " | " + claim
			if tests[key] == "" {
				t.Errorf("testdata/claims.txt has no test of: %s", key)
			}
			for name := range strings.SplitSeq(tests[key], ", ") {
				if !hasTest(t, name) {
					t.Errorf("%s: there is no test %s", key, name)
				}
			}
			delete(tests, key)
		}
	}
	for key := range tests {
		t.Errorf("SECURITY.md does not say any more: %s", key)
	}
}

// hasTest reports whether the test FOLDER.TEST exists, or TEST in this folder.
func hasTest(t *testing.T, name string) bool {
	t.Helper()
	folder, test, ok := strings.Cut(name, ".")
	if !ok {
		folder, test = ".", name
	}
	return isTestOf(t, folder, test)
}

// The lines of code of the examples in docs/comparison.md are counted.
func TestLinesOfExamples(t *testing.T) {
	text, err := os.ReadFile("docs/comparison.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| \[\w+\]\(\.\./(examples/\w+/main\.go)\).*\| (\d+) \|$`).FindAllStringSubmatch(string(text), -1)
	if len(rows) < 4 {
		t.Errorf("only %d examples have their lines in docs/comparison.md", len(rows))
	}
	for _, row := range rows {
		program, err := os.ReadFile(row[1])
		if err != nil {
			t.Error(err)
			continue
		}
		lines := 0
		for line := range strings.Lines(string(program)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				lines++
			}
		}
		if row[2] != strconv.Itoa(lines) {
			t.Errorf("%s has %d lines, not %s", row[1], lines, row[2])
		}
	}
}
