package conventions

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMutexesSayWhy checks that each lock of the actors' packages says what it guards, and why that is no message to an actor.
func TestMutexesSayWhy(t *testing.T) {
	lock := regexp.MustCompile(`\bsync\.(RW)?Mutex\b`)
	reason := regexp.MustCompile(`// guards [^:]+(: |, which end with it)`)
	found := 0
	for _, pattern := range []string{"actors/*.go", "actors/*/*.go", "actors/*/*/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(text), "\n") {
				if !lock.MatchString(line) {
					continue
				}
				if found++; !reason.MatchString(line) {
					t.Errorf("%s:%d: %s: add // guards WHAT: WHY it is no message", file, i+1, strings.TrimSpace(line))
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d locks were found: the test does not see them", found)
	}
}
