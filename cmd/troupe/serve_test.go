package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// patience bounds every wait for a process in these tests.
const patience = 20 * time.Second

// process is the command in a process of its own: this test's binary under another name.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr *bufio.Reader
}

func start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	return startFor(t, patience, env, args...)
}

// startFor is start for a process that may take longer.
func startFor(t *testing.T, most time.Duration, env []string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self)
	cmd.Args = append([]string{"troupe"}, args...)
	cmd.Env = append(os.Environ(), env...)
	p := &process{t: t, cmd: cmd}
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout, p.stderr = bufio.NewReader(out), bufio.NewReader(errs)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	return p
}

func (p *process) line(r *bufio.Reader) string {
	p.t.Helper()
	line, err := r.ReadString('\n')
	if err != nil {
		rest, _ := io.ReadAll(p.stderr)
		p.t.Fatalf("the process wrote %q and ended: %v; %s", line, err, rest)
	}
	return strings.TrimSuffix(line, "\n")
}

var target = regexp.MustCompile(`target=(grpc://\S+)`)

// target reads the log up to the line that has the server's address.
func (p *process) target() string {
	p.t.Helper()
	for {
		if m := target.FindStringSubmatch(p.line(p.stderr)); m != nil {
			return m[1]
		}
	}
}

// ends waits for the end of the process and returns its exit code and the rest of its log.
func (p *process) ends() (code int, log string) {
	p.t.Helper()
	out, _ := io.ReadAll(p.stdout)
	errs, _ := io.ReadAll(p.stderr)
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode(), string(out) + string(errs)
}

// localDef returns a file with the ServerDef of a cluster of one task.
func localDef(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "def")
	text := `cluster { job { name: "localhost" tasks { key: 0 value: "localhost:0" } } } job_name: "localhost" protocol: "grpc"`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEmbeddedServer(t *testing.T) {
	p := start(t, nil, "serve", "--server_def="+localDef(t))
	announced, ok := strings.CutPrefix(p.line(p.stdout), "TARGET ")
	if !ok || !regexp.MustCompile(`^grpc://localhost:[1-9]\d*$`).MatchString(announced) {
		t.Fatalf("announced %q", announced)
	}
	if _, err := io.WriteString(p.stdin, "start\n"); err != nil {
		t.Fatal(err)
	}
	if got := p.line(p.stdout); got != "STARTED" {
		t.Errorf("start was answered with %q", got)
	}
	c, err := client.Dial(t.Context(), announced)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	devices, err := c.Devices(t.Context())
	if err != nil || len(devices) != 1 || devices[0].Name != "/job:localhost/replica:0/task:0/device:CPU:0" {
		t.Errorf("%v, %v", devices, err)
	}
	p.stdin.Close()
	if code, log := p.ends(); code != exit.CodeOK {
		t.Errorf("exit code %d at the end of standard input: %s", code, log)
	}
}

// A program that embeds a server receives the address of its pages, and stops it with its own time limit for running
// steps.
func TestEmbeddedServerStops(t *testing.T) {
	def := localDef(t)
	for command, logged := range map[string]string{"stop": "drain=1m0s", "stop 20ms": "drain=20ms", "stop 0s": "drain=0s"} {
		p := start(t, nil, "serve", "--server_def="+def, "--http=127.0.0.1:0", "--drain=1m")
		if at := p.line(p.stdout); !regexp.MustCompile(`^HTTP http://127\.0\.0\.1:[1-9]\d*/$`).MatchString(at) {
			t.Errorf("announced %q", at)
		}
		if at := p.line(p.stdout); !strings.HasPrefix(at, "TARGET ") {
			t.Errorf("announced %q", at)
		}
		for line, want := range map[string]string{"stop soon": `ERROR 3 stop takes a duration, such as 5s, not "soon"`, "stop -1s": `ERROR 3 stop takes a duration, such as 5s, not "-1s"`, "halt": `ERROR 3 the commands are start, stop and stop DURATION, not "halt"`} {
			if _, err := io.WriteString(p.stdin, line+"\n"); err != nil {
				t.Fatal(err)
			}
			if got := p.line(p.stdout); got != want {
				t.Errorf("%s was answered with %q", line, got)
			}
		}
		if _, err := io.WriteString(p.stdin, command+"\n"+command+"\n"); err != nil {
			t.Fatal(err)
		}
		if code, log := p.ends(); code != exit.CodeOK || !strings.Contains(log, "msg=stopping "+logged) {
			t.Errorf("%s: exit code %d: %s", command, code, log)
		}
	}
}

func TestStopsOnSignal(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := start(t, nil, "serve", "--local=localhost:0", "--drain=2s")
		p.stdin.Close() // has no effect in this form
		where := p.target()
		if err := p.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if code, log := p.ends(); code != exit.CodeOK || !strings.Contains(log, "stopping") {
			t.Errorf("%v: exit code %d: %s", sig, code, log)
		}
		l, err := net.Listen("tcp", strings.TrimPrefix(where, "grpc://"))
		if err != nil {
			t.Errorf("the port is not free: %v", err)
		} else {
			l.Close()
		}
	}
}

func TestTakenPortIsNamedWithItsRemedy(t *testing.T) {
	p := start(t, nil, "serve", "--local=localhost:0")
	address := strings.TrimPrefix(p.target(), "grpc://")
	_, port, _ := net.SplitHostPort(address)
	second := start(t, nil, "serve", "--local="+address)
	code, log := second.ends()
	want := "Could not start gRPC server at " + address + ": port " + port + " is taken. It is held by"
	if code != exit.CodeRefused || !strings.Contains(log, want) || !strings.Contains(log, "another port in the cluster spec") {
		t.Errorf("exit code %d: %s", code, log)
	}
}

func TestClusterFromTheEnvironment(t *testing.T) {
	p := start(t, []string{`TF_CONFIG={"cluster":{"worker":{"3":"localhost:0"}},"task":{"type":"worker","index":3}}`}, "serve")
	c, err := client.Dial(t.Context(), p.target())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	s, err := c.Status(t.Context())
	if err != nil || len(s.Tasks) != 1 || s.Tasks[0].Task != "/job:worker/replica:0/task:3" || s.Tasks[0].State != "up" {
		t.Errorf("%v, %v", s, err)
	}
}

// The processes of a Slurm step form one cluster. A wait for it may begin before the first of them.
func TestClusterFromSlurm(t *testing.T) {
	_, port, err := net.SplitHostPort(spectest.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	step := []string{"SLURM_STEP_NODELIST=127.0.0.[1-2,4]", "SLURM_STEP_TASKS_PER_NODE=1(x3)", "SLURM_STEP_NUM_TASKS=3"}
	hosts := []string{"127.0.0.1", "127.0.0.2", "127.0.0.4"}
	var at string
	wait := start(t, nil, "wait", "--ready", net.JoinHostPort(hosts[2], port)+","+net.JoinHostPort(hosts[0], port))
	for rank, host := range hosts {
		p := start(t, append(step, "SLURM_PROCID="+strconv.Itoa(rank)), "serve", "--cluster=slurm", "--slurm-jobs=worker=2,ps=1", "--slurm-port="+port)
		at = p.target()
		if want := "grpc://" + net.JoinHostPort(host, port); at != want {
			t.Errorf("rank %d serves at %s, not %s", rank, at, want)
		}
	}
	if code, out := wait.ends(); code != exit.CodeOK {
		t.Fatalf("exit code %d: %s", code, out)
	}
	code, out := start(t, nil, "status", at).ends()
	for i, task := range []string{"ps/replica:0/task:0", "worker/replica:0/task:0", "worker/replica:0/task:1"} {
		if up := fmt.Sprintf(`(?m)^/job:%s +%s:%s +up `, task, regexp.QuoteMeta(hosts[i]), port); code != exit.CodeOK || !regexp.MustCompile(up).MatchString(out) {
			t.Errorf("exit code %d, %s: %s", code, up, out)
		}
	}
}

// At its start, a server logs its address and a line for each other task that comes up. When a task ends, it logs one line that the task
// leaves and one that it is down. Nothing of it is a warning, and lines have no empty attributes.
func TestServersLogLittle(t *testing.T) {
	a := spectest.Addresses(t, 2)
	cluster := fmt.Sprintf("ps=%s;worker=%s", a[0], a[1])
	var tasks []*process
	for _, job := range []string{"ps", "worker"} {
		tasks = append(tasks, start(t, nil, "serve", "--cluster", cluster, "--job", job))
	}
	var lines []string
	until := func(message string) {
		t.Helper()
		for {
			lines = append(lines, tasks[0].line(tasks[0].stderr))
			if strings.Contains(lines[len(lines)-1], message) {
				return
			}
		}
	}
	until("task up")
	if err := tasks[1].cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	until("task down")
	_, rest := tasks[1].ends()
	if err := tasks[0].cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, end := tasks[0].ends()
	lines = append(lines, strings.Split(strings.TrimSpace(end), "\n")...)
	message := regexp.MustCompile(`msg=("[^"]*"|\S+)`)
	var said []string
	for _, l := range lines {
		said = append(said, strings.Trim(message.FindStringSubmatch(l)[1], `"`))
	}
	slices.Sort(said[:2]) // the other task may be up before
	if want := []string{"serving", "task up", "task leaving", "task down", "stopping"}; !slices.Equal(said, want) {
		t.Errorf("logged %q; want %q:\n%s", said, want, strings.Join(lines, "\n"))
	}
	for _, l := range lines {
		if !strings.Contains(l, "level=INFO") {
			t.Errorf("an orderly end is more than information: %s", l)
		}
	}
	if empty := regexp.MustCompile(`\w+=""`).FindString(strings.Join(lines, "\n") + rest); empty != "" {
		t.Errorf("a line has %s:\n%s\n%s", empty, strings.Join(lines, "\n"), rest)
	}
}

// The loss of a task that has not announced its end is a warning.
func TestLossIsAWarning(t *testing.T) {
	a := spectest.Addresses(t, 2)
	cluster := fmt.Sprintf("ps=%s;worker=%s", a[0], a[1])
	var tasks []*process
	for _, job := range []string{"ps", "worker"} {
		tasks = append(tasks, start(t, nil, "serve", "--cluster", cluster, "--job", job))
	}
	until := func(message string) string {
		t.Helper()
		for {
			if line := tasks[0].line(tasks[0].stderr); strings.Contains(line, message) {
				return line
			}
		}
	}
	until("task up")
	if err := tasks[1].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if line := until("task down"); !strings.Contains(line, "level=WARN") {
		t.Errorf("the loss of a task is logged as %s", line)
	}
}

func TestUpPrintsTargets(t *testing.T) {
	p := start(t, nil, "up", "--tasks", "ps=1,worker=2")
	ps, worker, worker1, cluster, export := p.line(p.stdout), p.line(p.stdout), p.line(p.stdout), p.line(p.stdout), p.line(p.stdout)
	if !strings.HasPrefix(ps, "/job:ps/replica:0/task:0") || !strings.HasPrefix(worker, "/job:worker/replica:0/task:0") ||
		!strings.HasPrefix(cluster, "--cluster 'ps=127.0.0.1:") {
		t.Errorf("printed\n%s\n%s\n%s", ps, worker, cluster)
	}
	if want := fmt.Sprintf("export PS=%s WORKER0=%s WORKER1=%s", strings.Fields(ps)[1], strings.Fields(worker)[1], strings.Fields(worker1)[1]); export != want {
		t.Errorf("printed %q; want %q", export, want)
	}
	query := start(t, nil, "devices", strings.Fields(worker)[1])
	code, out := query.ends()
	local, remote := strings.Index(out, "/job:worker/replica:0/task:0/device:CPU:0"), strings.Index(out, "/job:ps/replica:0/task:0/device:CPU:0")
	if code != exit.CodeOK || local < 0 || remote < local {
		t.Errorf("exit code %d, the own devices first: %s", code, out)
	}
	query = start(t, nil, "reset", "--yes", strings.Fields(ps)[1], "a", "b")
	if code, out := query.ends(); code != exit.CodeOK || !strings.Contains(out, "emptied the containers a, b; ") || !strings.Contains(out, "there was nothing in a, b\n") {
		t.Errorf("exit code %d: %s", code, out)
	}
	query = start(t, nil, "status", strings.Fields(ps)[1])
	if code, out := query.ends(); code != exit.CodeOK || !regexp.MustCompile(`/job:ps/replica:0/task:0 +127\S+ +up `).MatchString(out) {
		t.Errorf("exit code %d: %s", code, out)
	}
	query = start(t, nil, "actors", strings.Fields(ps)[1])
	if code, out := query.ends(); code != exit.CodeOK || !regexp.MustCompile(`(?s)KIND +ACTOR +STATE.*\ndevice +device/job:ps/replica:0/task:0/device:CPU:0 +idle [^\n]*0 running, 0 done, 0 failed; 0 programs; 0 B of [^\n]* in use\n.*\nworker +worker +idle `).MatchString(out) {
		t.Errorf("exit code %d: %s", code, out)
	}
	query = start(t, nil, "actors", strings.Fields(ps)[1], "--json")
	code, out = query.ends()
	var list struct {
		Task   string
		Actors []struct {
			Name, Kind, State string
			Device            *struct {
				Incarnation  uint64
				PartsRunning *int64 `json:"parts_running"`
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &list); code != exit.CodeOK || err != nil || list.Task != "/job:ps/replica:0/task:0" || len(list.Actors) < 4 {
		t.Errorf("exit code %d, %v: %s", code, err, out)
	}
	for _, a := range list.Actors {
		if executor := a.Kind == "device"; executor != (a.Device != nil) || executor && (a.Device.Incarnation == 0 || a.Device.PartsRunning == nil) {
			t.Errorf("%s: %+v", a.Name, a.Device)
		}
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, log := p.ends(); code != exit.CodeOK {
		t.Errorf("exit code %d: %s", code, log)
	}
}

// With --ui, the dashboard is served, and the demo continues to train until it is interrupted.
func TestDashboardOfUpAndDemo(t *testing.T) {
	for _, args := range [][]string{{"up", "--tasks", "w=1", "--ui"}, {"demo", "--ui"}} {
		p := start(t, nil, args...)
		address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/`)
		at := ""
		for at == "" {
			at = address.FindString(p.line(p.stdout))
		}
		answer, err := http.Get(at)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(body), "<title>Troupe</title>") {
			t.Errorf("%v: %s: %.200s (%v)", args, answer.Status, body, err)
		}
		if err := answer.Body.Close(); err != nil {
			t.Error(err)
		}
		if args[0] == "demo" {
			for line := ""; !strings.Contains(line, "until it is interrupted"); {
				line = p.line(p.stdout)
			}
		}
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code, out := p.ends(); code != exit.CodeOK {
			t.Errorf("%v: exit code %d: %s", args, code, out)
		}
	}
}
