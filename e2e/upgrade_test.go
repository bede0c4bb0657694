//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/extent"
)

// previousVariable names a binary of the previous version, to upgrade from. Without it, the old binary is built from the same sources with
// another version.
const previousVariable = "TROUPE_E2E_PREVIOUS"

// variant builds a binary that reports the given version.
func variant(t *testing.T, version string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "troupe-"+version)
	if err := build(path, "-ldflags", "-X github.com/troupe-run/troupe/remote/member.version="+version); err != nil {
		t.Fatal(err)
	}
	return path
}

// asJSON runs a command of a binary, and reads what it prints.
func asJSON(binary string, into any, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), extent.Slack(20*time.Second))
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, append(args, "--json")...).Output()
	if err != nil {
		return fmt.Errorf("%s %v: %w", binary, args, err)
	}
	return json.Unmarshal(out, into)
}

// versions returns the version of each task, from a binary's status command for one task.
func (c *cluster) versions(binary string, of *task) (map[string]string, error) {
	var s struct {
		Tasks []struct{ Task, Version string }
	}
	if err := asJSON(binary, &s, "status", of.target()); err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, k := range s.Tasks {
		all[k.Task] = k.Version
	}
	return all, nil
}

// TestRollingUpgrade trains while each task is replaced in turn by one of another version; faults/upgrade.py says what clients may notice.
// Meanwhile, each task reports every task's version.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	needPython(t)
	next := variant(t, "v0.90.1")
	previous := os.Getenv(previousVariable)
	if previous == "" {
		previous = variant(t, "v0.90.0")
	} else if !filepath.IsAbs(previous) {
		t.Fatalf("%s is %q, not an absolute path", previousVariable, previous)
	}
	c := declare(t, "ps=1,worker=2")
	c.binary = previous
	c.startAll(t)
	want, err := c.versions(next, c.tasks[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range c.tasks {
		if v := want[k.name()]; v == "" || v == "v0.90.1" {
			t.Fatalf("%s has version %q at the start", k.name(), v)
		}
	}
	d := drivers.borrow(t)
	d.act = func(what, key string) error {
		if what != "replace" {
			return c.act(what, key)
		}
		if err := c.act("terminate", key); err != nil {
			return err
		}
		c.binary = next // for tasks that are started from now on
		if err := c.act("start", key); err != nil {
			return err
		}
		for _, k := range c.tasks {
			if k.key() == key {
				want[k.name()] = "v0.90.1"
			}
		}
		for _, k := range c.tasks {
			got, err := c.versions(next, k)
			if err != nil {
				return err
			}
			for name, version := range want {
				if got[name] != version {
					return fmt.Errorf("%s says that %s has version %q, not %q", k.name(), name, got[name], version)
				}
			}
		}
		return nil
	}
	for _, function := range functionsOf(t, "faults/upgrade.py") {
		d.must(t, request{Case: "faults/upgrade.py", Function: function, Name: function, Targets: c.targets()}, caseTime)
	}
}
