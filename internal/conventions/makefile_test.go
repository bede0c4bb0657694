package conventions

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMakeTestsAllPackages checks that make test runs the tests of each package that has some, and that make test-race runs those of each package
// that starts goroutines outside of the kernels and the end-to-end tests.
func TestMakeTestsAllPackages(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", "./...")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 50 {
		t.Fatalf("only %d packages have tests", len(packages))
	}
	text := strings.ReplaceAll(string(makefile), "\\\n", "")
	// These run under the race detector with make test-cuda, or start no goroutines of their own.
	unraced := []string{"./kernels/...", "./devices/...", "./graph/...", "./e2e/...", "./examples/..."}
	for target, c := range map[string]struct {
		line  string
		other []string
	}{
		"test":      {`(?m)^test:\n(?:\t@.*\n)*\t(.*)$`, nil},
		"test-race": {`(?m)^RACED = (.*)$`, unraced},
	} {
		found := regexp.MustCompile(c.line).FindStringSubmatch(text)
		if found == nil {
			t.Errorf("the Makefile has no packages of %s", target)
			continue
		}
		patterns := append(strings.Fields(found[1]), c.other...)
		for _, p := range packages {
			if !slices.ContainsFunc(patterns, func(pattern string) bool { return covers(pattern, p) }) {
				t.Errorf("make %s does not run the tests of %s", target, p)
			}
		}
	}
}

// covers reports whether a pattern of the go command, such as ./graph/..., means a package of the module.
func covers(pattern, name string) bool {
	const module = "github.com/troupe-run/troupe"
	rest, ok := strings.CutPrefix(pattern, ".")
	if !ok {
		return false
	}
	folder, all := strings.CutSuffix(module+rest, "/...")
	return name == folder || all && strings.HasPrefix(name, folder+"/")
}
