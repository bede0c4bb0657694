//go:build unix

package e2e

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// caseTime bounds a case; what hangs in the server ends before, by the session's own bound.
const caseTime = 45 * time.Second

var caseFunction = regexp.MustCompile(`(?m)^def (test_\w+)\(`)

// TestCases runs every function of cases/ against the shared cluster.
func TestCases(t *testing.T) {
	needPython(t)
	files, err := filepath.Glob("cases/*.py")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range files {
		file := filepath.Base(path)
		t.Run(strings.TrimSuffix(file, ".py"), func(t *testing.T) {
			for _, function := range functionsOf(t, path) {
				t.Run(strings.TrimPrefix(function, "test_"), func(t *testing.T) {
					c := sharedCluster(t)
					name := strings.TrimSuffix(file, ".py") + "_" + function
					drivers.borrow(t).must(t, request{Case: path, Function: function, Name: name, Targets: c.targets(), Slack: slackFactor}, caseTime)
				})
			}
		})
	}
}
