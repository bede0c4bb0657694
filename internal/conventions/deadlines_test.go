package conventions

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// deadlineKinds are the reasons for which tests and their tools wait for a time: the head of testdata/deadlines.txt
// explains them.
var deadlineKinds = []string{"limit", "simulated", "poll", "subject", "load"}

// isTest reports whether a file belongs to tests, or to tools that run beside them.
func isTest(path string) bool { return !isServed(path) && !strings.HasSuffix(path, ".pb.go") }

// pythonWait matches a line of Python that waits for a time, or ends something after one.
var pythonWait = regexp.MustCompile(`\bsleep\(|\b(timeout|timeout_in_ms|operation_timeout_in_ms|deadline)=|\.(wait|result)\([\w.]+\)|\.join\([\d.]+\)|\.settimeout\(|\bTimer\(|` +
	`\b(monotonic|perf_counter|time)\(\) *[<>+]|[<>] *time\.`)

var pythonFunction = regexp.MustCompile(`^( *)(?:async )?(?:def|class) (\w+)`)

// scanPython finds the waits of programs in Python, by file and function, as scan does.
func scanPython(t *testing.T, roots ...string) map[string]int {
	t.Helper()
	return scanLines(t, roots, ".py", "", " # ", pythonFunction, pythonWait) // texts are programs that tests run
}

// scanLines counts what matches wait in files with an ending, by file and function: the functions whose first lines match function, of which the groups are the
// indentation and the name, and whose other lines are indented more. What stands in texts of several lines, between two marks, does not count if there is a mark.
func scanLines(t *testing.T, roots []string, ending, mark, comment string, function, wait *regexp.Regexp) map[string]int {
	t.Helper()
	found := map[string]int{}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ending {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			type scope struct {
				indent int
				name   string
			}
			var within []scope
			quoted := false // in a text of several lines
			for line := range strings.Lines(string(text)) {
				code, _, _ := strings.Cut(strings.TrimRight(line, "\n"), comment)
				if inner := strings.TrimLeft(code, " "); strings.TrimSpace(inner) != "" && !strings.ContainsRune(")}]", rune(inner[0])) {
					for len(within) > 0 && within[len(within)-1].indent >= len(code)-len(inner) {
						within = within[:len(within)-1]
					}
				}
				if m := function.FindStringSubmatch(code); m != nil {
					within = append(within, scope{len(m[1]), m[2]})
				}
				begins := quoted
				if mark != "" && strings.Count(code, mark)%2 == 1 {
					quoted = !quoted
				}
				if begins {
					continue
				}
				if n := len(wait.FindAllString(code, -1)); n > 0 {
					var names []string
					for _, s := range within {
						names = append(names, s.name)
					}
					found[place(path, strings.Join(names, "."))] += n
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// TestDeadlinesAreListed checks that testdata/deadlines.txt has every place where a test, or a tool of tests, waits for a time or ends
// something after one, and why it does not wait for an event instead.
func TestDeadlinesAreListed(t *testing.T) {
	found := scan(t, isTest, timers())
	maps.Copy(found, scanPython(t, ".ci", "deploy", "docs", "e2e", "examples", "python/tests", "testdata"))
	if len(found) < 200 {
		t.Fatalf("only %d places with deadlines were found: the test does not see them", len(found))
	}
	for at, p := range checkPlaces(t, list("deadlines.txt"), found) {
		if !slices.Contains(deadlineKinds, p.kind) {
			t.Errorf("%s is of no known kind: %s (the head of the list has the kinds)", at, p.kind)
		}
	}
}
