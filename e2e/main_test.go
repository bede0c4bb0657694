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
)

// scratch is a folder for this run of the tests: the binary, logs.
var scratch string

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		fmt.Fprintln(os.Stderr, playRole(role))
		os.Exit(1)
	}
	var err error
	if scratch, err = os.MkdirTemp("", "troupe-e2e-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	drivers.end()
	if err := endShared(); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL: the shared cluster:", err)
		code = 1
	}
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

// built is the troupe binary, built once from this tree, under the race detector when the tests are.
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
	if raceDetector {
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

// repetitions is how often a test of a fault repeats it.
func repetitions() int {
	if full() {
		return 10
	}
	return 2
}

// full says that everything was asked for, however long it takes.
func full() bool { return os.Getenv("TROUPE_E2E_FULL") == "1" }

// slack widens the bounds of times that the race detector stretches.
func slack(d time.Duration) time.Duration { return time.Duration(slackFactor * float64(d)) }

// eventually asks until the condition gives nil, and fails with its last error when the time is over.
func eventually(t testing.TB, limit time.Duration, what string, condition func() error) {
	t.Helper()
	end := time.NewTimer(slack(limit))
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
			t.Fatalf("%s: not within %v: %v", what, slack(limit), err)
		case <-again.C:
		}
	}
}
