package conventions

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// makers are the functions that find or make a resource in a container.
var makers = []string{"NewSource", "newMeeting", "LookupOrCreate"}

// isMaker reports whether a node calls one of them.
func isMaker(n ast.Node) bool {
	c, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	f := c.Fun
	if i, generic := f.(*ast.IndexExpr); generic {
		f = i.X
	}
	switch f := f.(type) {
	case *ast.SelectorExpr:
		return slices.Contains(makers, f.Sel.Name)
	case *ast.Ident:
		return slices.Contains(makers, f.Name)
	}
	return false
}

// TestResourcesAreListed checks that testdata/resources.txt has every place that makes a resource, and what the resource keeps of a run for
// the next one. A resource that a run can end for later steps names the endings of TestSecondRunHearsOfTheFirst
// that test the errors of those steps.
func TestResourcesAreListed(t *testing.T) {
	found := scan(t, func(path string) bool {
		return !strings.HasSuffix(path, "_test.go") && (strings.HasPrefix(path, "kernels/") || strings.HasPrefix(path, "devices/") || strings.HasPrefix(path, "actors/"))
	}, isMaker)
	if len(found) < 15 {
		t.Fatalf("only %d places were found: the test does not see them", len(found))
	}
	tested, endings := map[string]bool{}, namesIn(t, "ends_test.go", "endings")
	for at, p := range checkPlaces(t, list("resources.txt"), found) {
		names, ends := strings.CutPrefix(p.kind, "end:")
		if !ends {
			if !slices.Contains([]string{"step", "value", "turn"}, p.kind) {
				t.Errorf("%s is of no known kind: %s", at, p.kind)
			}
			continue
		}
		for name := range strings.SplitSeq(names, ",") {
			tested[name] = true
			if !slices.Contains(endings, name) {
				t.Errorf("%s is tested by an ending %q, which there is not", at, name)
			}
		}
	}
	for _, name := range endings {
		if !tested[name] {
			t.Errorf("the ending %q is of no listed place", name)
		}
	}
}
