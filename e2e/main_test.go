//go:build unix

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/extent"
)

// scratch is a folder for this run of the tests, with the binary and logs.
var scratch string

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		fmt.Fprintln(os.Stderr, playRole(role))
		os.Exit(1)
	}
	if was, err := runHost(); was {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	var err error
	if scratch, err = os.MkdirTemp("", "troupe-e2e-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	drivers.end()
	forks.end()
	if err := endShared(); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL: the shared cluster:", err)
		code = 1
	}
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

// built returns the troupe binary, which is built once from this tree, with the race detector if the tests use it.
var built = sync.OnceValues(func() (string, error) {
	if given := os.Getenv("TROUPE_E2E_BINARY"); given != "" {
		return filepath.Abs(given)
	}
	path := filepath.Join(scratch, "troupe")
	return path, build(path)
})

// build builds the program of this tree, with further flags.
func build(path string, flags ...string) error {
	args, cgo := append([]string{"build", "-o", path}, flags...), "CGO_ENABLED=0"
	if extent.RaceDetector {
		args, cgo = append(args, "-race"), "CGO_ENABLED=1"
	}
	cmd := exec.Command("go", append(args, "../cmd/troupe")...)
	cmd.Env = append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ../cmd/troupe: %w\n%s", err, out)
	}
	return nil
}

func binary(t testing.TB) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// repetitions returns how many times a test repeats a fault.
func repetitions() int {
	switch {
	case extent.Full():
		return 10
	case extent.Check():
		return 2
	}
	return 1
}

// eventually polls until the condition returns nil, and fails with its last error after limit.
func eventually(t testing.TB, limit time.Duration, what string, condition func() error) {
	t.Helper()
	end := time.NewTimer(extent.Slack(limit))
	defer end.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-end.C:
			t.Fatalf("%s: not within %v: %v", what, extent.Slack(limit), err)
		case <-again.C:
		}
	}
}
