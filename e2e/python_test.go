//go:build unix

package e2e

import (
	"bufio"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/extent"
)

//go:embed requirements.txt
var requirements string

// interpreter returns a Python with TensorFlow: TROUPE_PYTHON, or that of a virtual environment that is made on first use and kept in the
// user's cache directory, under the hash of its requirements.
var interpreter = sync.OnceValues(func() (string, error) {
	if given := os.Getenv("TROUPE_PYTHON"); given != "" {
		return given, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(requirements))
	dir := filepath.Join(cache, "troupe", "python-"+hex.EncodeToString(sum[:6]))
	python := filepath.Join(dir, "bin", "python")
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	// Tests of several packages may need it at once: one makes it, the others wait.
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("locking %s: %w", lock.Name(), err)
	}
	complete := filepath.Join(dir, "complete")
	if _, err := os.Stat(complete); err == nil {
		return python, nil
	}
	if err := makeEnvironment(dir, python); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return python, os.WriteFile(complete, []byte(requirements), 0o644)
})

func makeEnvironment(dir, python string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	fmt.Fprintf(os.Stderr, "e2e: making a Python environment with TensorFlow in %s (once)\n", dir)
	for _, args := range [][]string{
		{"python3", "-m", "venv", "--clear", dir},
		{python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt"},
	} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.WaitDelay = 5 * time.Second
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// legacyKeras returns a folder with Keras 2 (tf_keras) of TensorFlow's version. It is not among the requirements, since it depends on the
// distribution tensorflow, and pip does not accept tensorflow-cpu in its place.
func legacyKeras(t testing.TB) string {
	t.Helper()
	version := regexp.MustCompile(`(?m)^tensorflow-cpu==(.*)$`).FindStringSubmatch(requirements)
	if version == nil {
		t.Fatal("requirements.txt has no tensorflow-cpu")
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	pip := exec.CommandContext(ctx, needPython(t), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target", dir, "tf_keras=="+version[1])
	pip.WaitDelay = 5 * time.Second
	if out, err := pip.CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI needs tf_keras: %v\n%s", err, out)
		}
		t.Skipf("no tf_keras can be installed: %v\n%s", err, out)
	}
	return dir
}

// packageEnv returns the environment of Python programs that use the package troupe, with this tree's binary. Modules in folders take
// precedence.
func packageEnv(t testing.TB, folders ...string) []string {
	t.Helper()
	modules, err := filepath.Abs("../python")
	if err != nil {
		t.Fatal(err)
	}
	path := append(folders, modules, os.Getenv("PYTHONPATH"))
	return []string{"PYTHONPATH=" + strings.Join(path, string(filepath.ListSeparator)), "PYTHONDONTWRITEBYTECODE=1", "TROUPE_BINARY=" + binary(t), "TF_CPP_MIN_LOG_LEVEL=3"}
}

// documentEnv returns the environment of a document's programs.
func documentEnv(t testing.TB, document string) []string {
	t.Helper()
	switch {
	case filepath.Base(document) == "moving.md", filepath.Base(document) == "eager.md":
		return packageEnv(t, legacyKeras(t))
	case strings.HasSuffix(document, "docs/actors.md"), strings.HasSuffix(document, "docs/python.md"):
		return append(packageEnv(t), "ACTORS="+clusterWithActors(t))
	}
	return packageEnv(t)
}

// needPython returns the interpreter. Without one, the test is skipped; in CI it fails.
func needPython(t testing.TB) string {
	t.Helper()
	python, err := interpreter()
	if err == nil {
		return python
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI needs Python with TensorFlow: %v", err)
	}
	t.Skipf("no Python with TensorFlow, so TensorFlow's own client is not tried (TROUPE_PYTHON names one): %v", err)
	return ""
}

// driver is a Python process that runs driver.py.
type driver struct {
	proc  *process
	stdin io.WriteCloser
	lines *bufio.Scanner
	act   func(what, task string) error // performs the actions that cases ask for
}

// answer is driver.py's answer to one request.
type answer struct {
	OK      bool            `json:"ok"`
	Error   string          `json:"error"`
	Message string          `json:"message"`
	Op      string          `json:"op"`
	Trace   string          `json:"trace"`
	Output  string          `json:"output"`
	Seconds float64         `json:"seconds"`
	Result  json.RawMessage `json:"result"`

	Do   string `json:"do"` // the action that a case asks for, on Task
	Task string `json:"task"`
}

// err returns the error that the Python side raised, or nil.
func (a *answer) err() error {
	if a.OK {
		return nil
	}
	return fmt.Errorf("%s: %s\n%s%s", a.Error, a.Message, a.Output, a.Trace)
}

// request is a request to driver.py.
type request struct {
	Case     string            `json:"case,omitempty"`
	Function string            `json:"function,omitempty"`
	Name     string            `json:"name,omitempty"`
	Targets  map[string]string `json:"targets,omitempty"`
	Slack    float64           `json:"slack,omitempty"` // extent.SlackFactor when it is sent
	Program  string            `json:"program,omitempty"`
	Args     []string          `json:"args,omitempty"`
}

// driverPool keeps running drivers and lends each to one test at a time.
type driverPool struct {
	mu   sync.Mutex
	idle []*driver
	all  []*driver
}

var drivers driverPool

// borrow returns a driver, which goes back to the pool when the test ends if it is still usable.
func (p *driverPool) borrow(t testing.TB) *driver {
	t.Helper()
	python := needPython(t)
	p.mu.Lock()
	var d *driver
	if n := len(p.idle); n > 0 {
		d, p.idle = p.idle[n-1], p.idle[:n-1]
	}
	p.mu.Unlock()
	if d == nil {
		var err error
		if d, err = newDriver(python); err != nil {
			t.Fatal(err)
		}
		p.mu.Lock()
		p.all = append(p.all, d)
		p.mu.Unlock()
	}
	d.act = func(what, task string) error { return fmt.Errorf("this test does not %s %s", what, task) }
	t.Cleanup(func() {
		if d.proc.running() {
			p.mu.Lock()
			p.idle = append(p.idle, d)
			p.mu.Unlock()
		}
	})
	return d
}

func (p *driverPool) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.all {
		d.proc.kill()
	}
}

func newDriver(python string, args ...string) (*driver, error) {
	cmd := exec.Command(python, append([]string{"-u", "driver.py"}, args...)...)
	cmd.Env = append(os.Environ(), "TF_CPP_MIN_LOG_LEVEL=2", "TF_ENABLE_ONEDNN_OPTS=0", "CUDA_VISIBLE_DEVICES=-1",
		"GRPC_VERBOSITY=ERROR", "PYTHONDONTWRITEBYTECODE=1", "TMPDIR="+scratch)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	cmd.Stdout = w
	d := &driver{stdin: stdin, lines: bufio.NewScanner(r)}
	d.lines.Buffer(nil, 64<<20)
	if d.proc, err = launch("driver.py", cmd); err != nil {
		return nil, err
	}
	go func() { // the pipe ends with the process
		<-d.proc.done
		_ = w.Close()
	}()
	if _, err := d.next(extent.Slack(90 * time.Second)); err != nil { // the first import from a cold disk is slow
		d.proc.kill()
		return nil, fmt.Errorf("%s driver.py: %w\n%s", python, err, d.proc.log.tail())
	}
	return d, nil
}

// next waits for an answer. A driver that does not answer in time is killed, after it has logged where it hangs.
func (d *driver) next(limit time.Duration) (*answer, error) {
	type read struct {
		a   *answer
		err error
	}
	got := make(chan read, 1)
	go func() {
		if !d.lines.Scan() {
			<-d.proc.done
			got <- read{nil, fmt.Errorf("the Python process ended: %w, %w", d.proc.err, d.lines.Err())}
			return
		}
		a := &answer{}
		err := json.Unmarshal(d.lines.Bytes(), a)
		got <- read{a, err}
	}()
	over := time.NewTimer(limit)
	defer over.Stop()
	select {
	case r := <-got:
		return r.a, r.err
	case <-over.C:
		d.proc.signal(syscall.SIGUSR1)             // logs where it hangs
		_, _ = d.proc.wait(500 * time.Millisecond) // it is killed next in any case
		d.proc.kill()
		<-got
		return nil, fmt.Errorf("no answer within %v; the client hung at\n%s", limit, d.proc.log.tail())
	}
}

// do runs a request to its end.
func (d *driver) do(q request, limit time.Duration) (*answer, error) {
	q.Slack = extent.SlackFactor()
	line, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	if _, err := d.stdin.Write(append(line, '\n')); err != nil {
		return nil, fmt.Errorf("the Python process is gone: %w\n%s", err, d.proc.log.tail())
	}
	for {
		a, err := d.next(extent.Slack(limit))
		if err != nil || a.Do == "" {
			return a, err
		}
		reply := []byte("{\"ok\": true}\n")
		if err := d.act(a.Do, a.Task); err != nil {
			if reply, err = json.Marshal(map[string]any{"ok": false, "error": err.Error()}); err != nil {
				return nil, err
			}
			reply = append(reply, '\n')
		}
		if _, err := d.stdin.Write(reply); err != nil {
			return nil, err
		}
	}
}

// must is do for a request that must succeed.
func (d *driver) must(t testing.TB, q request, limit time.Duration) *answer {
	t.Helper()
	a, err := d.do(q, limit)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.err(); err != nil {
		t.Fatal(err)
	}
	if testing.Verbose() && a.Output != "" {
		t.Log(strings.TrimSpace(a.Output))
	}
	return a
}
