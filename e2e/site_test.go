//go:build unix

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestSite checks that the documentation site builds without warnings: no page is omitted, and no link is broken.
func TestSite(t *testing.T) {
	t.Parallel()
	python := needPython(t)
	if err := exec.CommandContext(t.Context(), python, "-c", "import material").Run(); err != nil && os.Getenv("CI") != "true" {
		t.Skip("the Python of the tests has no mkdocs-material")
	}
	public := filepath.Join(t.TempDir(), "public")
	build := exec.CommandContext(t.Context(), python, "-m", "mkdocs", "build", "--config-file", "../.ci/site/mkdocs.yml", "--site-dir", public)
	build.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "NO_MKDOCS_2_WARNING=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, page := range []string{"index.html", "tutorial/index.html", "architecture/index.html"} {
		if _, err := os.Stat(filepath.Join(public, page)); err != nil {
			t.Error(err)
		}
	}
}
