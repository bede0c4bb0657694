//go:build unix

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/extent"
)

// TestClientVersions checks that old clients work: the oldest that the tests' Python can install, and one in between.
func TestClientVersions(t *testing.T) {
	t.Parallel() // it waits more than it computes
	if !extent.Check() {
		t.Skip("it installs other versions of TensorFlow")
	}
	python := needPython(t)
	told, err := exec.CommandContext(t.Context(), python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").Output()
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string][]string{"3.9": {"2.6.0"}, "3.10": {"2.8.4"}, "3.11": {"2.12.0"}, "3.12": {"2.16.2"}, "3.13": {"2.20.0"}}[strings.TrimSpace(string(told))]
	if versions == nil {
		t.Skipf("it is not known which versions of TensorFlow Python %s can have", told)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), extent.Slack(8*time.Minute))
	defer cancel()
	args := append([]string{"clients/versions.py", "--troupe", binary(t), "--cache", filepath.Join(cache, "troupe", "clients")}, versions...)
	out, err := exec.CommandContext(ctx, python, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
