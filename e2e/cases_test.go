//go:build unix

package e2e

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// caseTime bounds a case. A step that hangs in the server ends earlier, by the session's own bound.
const caseTime = 45 * time.Second

var caseFunction = regexp.MustCompile(`(?m)^def (test_\w+)\(`)

// TestCases runs every function of cases/. The functions of a file share a cluster and run in parallel with those of other files: a case
// waits for its client most of the time.
func TestCases(t *testing.T) {
	needPython(t)
	files, err := filepath.Glob("cases/*.py")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range files {
		file := filepath.Base(path)
		t.Run(strings.TrimSuffix(file, ".py"), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, "ps=1,worker=2")
			for _, function := range functionsOf(t, path) {
				if k := c.ended(); k != nil {
					t.Fatalf("%s ended: %v", k.name(), k.proc.err)
				}
				t.Run(strings.TrimPrefix(function, "test_"), func(t *testing.T) {
					name := strings.TrimSuffix(file, ".py") + "_" + function
					drivers.borrow(t).must(t, request{Case: path, Function: function, Name: name, Targets: c.targets()}, caseTime)
				})
			}
		})
	}
}
