//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// operated is a cluster of processes with a parameter server and two workers, to inspect with the command.
type operated struct {
	t       *testing.T
	tasks   []*process
	targets []string
	spec    string
}

func operate(t *testing.T) *operated {
	t.Helper()
	a := spectest.Addresses(t, 3)
	o := &operated{t: t, spec: fmt.Sprintf("ps=%s;worker=%s,%s", a[0], a[1], a[2])}
	for i, task := range [][2]string{{"ps", "0"}, {"worker", "0"}, {"worker", "1"}} {
		p := startFor(t, 2*time.Minute, nil, "serve", "--cluster", o.spec, "--job", task[0], "--task", task[1])
		o.tasks, o.targets = append(o.tasks, p), append(o.targets, "grpc://"+a[i])
		p.target()
	}
	return o
}

// troupe runs the command in this process, and returns its exit code and what it printed.
func (o *operated) troupe(args ...string) (code int, out string) {
	o.t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(o.t.Context(), args, os.Stdin, &stdout, &stderr)
	return code, stdout.String() + stderr.String()
}

// shows waits until the command shows something.
func (o *operated) shows(pattern string, args ...string) string {
	o.t.Helper()
	want := regexp.MustCompile(pattern)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		_, out := o.troupe(args...)
		if want.MatchString(out) {
			return out
		}
		if time.Now().After(end) {
			o.t.Fatalf("%s does not show %q within %v:\n%s", strings.Join(args, " "), pattern, patience, out)
		}
	}
}

// running is a client's running step.
type running struct {
	session *troupe.Session
	ended   chan error
}

// runs opens a session on a task and runs a step of a graph there.
func (o *operated) runs(target string, build func(*op.Scope) *op.Operation) *running {
	o.t.Helper()
	c, err := troupe.Dial(o.t.Context(), target)
	if err != nil {
		o.t.Fatal(err)
	}
	s := op.NewScope()
	step := build(s)
	def, err := s.GraphDef()
	if err != nil {
		o.t.Fatal(err)
	}
	session, err := c.NewSession(o.t.Context(), def, nil)
	if err != nil {
		o.t.Fatal(err)
	}
	r := &running{session, make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, err := session.Run(ctx, nil, nil, []string{step.Name()})
		r.ended <- err
	}()
	o.t.Cleanup(func() {
		cancel()
		<-over
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = session.Close(ctx) // the server may be gone
		_ = c.Close(ctx)
	})
	return r
}

// error waits for the end of the step and returns its error.
func (r *running) error(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(patience):
		t.Fatal("the step did not end")
		return nil
	}
}

// queueOn returns a queue of two floats on the parameter server.
func queueOn(s *op.Scope, name string) *op.Queue {
	return op.NewFIFOQueue(s.WithDevice("/job:ps/task:0").WithName(name), []tensor.DType{tensor.Float32}, attr.Capacity(2), attr.SharedName(name))
}

// overfill enqueues three elements, the last of which has no room.
func overfill(s *op.Scope) *op.Operation {
	q := queueOn(s, "full")
	first := q.Enqueue(s, op.Const(s, float32(1)))
	second := q.Enqueue(s.WithControlDependencies(first), op.Const(s, float32(2)))
	return q.Enqueue(s.WithControlDependencies(second).WithName("third"), op.Const(s, float32(3)))
}

// drain takes an element that is never enqueued, and adds to it on a worker.
func drain(s *op.Scope) *op.Operation {
	x := queueOn(s, "empty").Dequeue(s.WithDevice("/job:ps/task:0"))[0]
	return op.AddV2(s.WithDevice("/job:worker/task:1").WithName("sum"), x, x).Op
}

// give enqueues the element that drain takes.
func give(s *op.Scope) *op.Operation {
	return queueOn(s, "empty").Enqueue(s.WithName("given"), op.Const(s, float32(1)))
}

// opens opens and closes a session.
func (o *operated) opens(target string) error {
	o.t.Helper()
	c, err := troupe.Dial(o.t.Context(), target)
	if err != nil {
		return err
	}
	session, err := c.NewSession(o.t.Context(), &graphpb.GraphDef{}, nil)
	if err == nil {
		_ = session.Close(o.t.Context()) // the server may have stopped meanwhile
	}
	_ = c.Close(o.t.Context())
	return err
}

// A drained task finishes its steps, accepts no new ones, and its process exits.
func TestDrain(t *testing.T) {
	o := operate(t)
	ps := o.targets[0]
	if code, out := o.troupe("wait", "--ready", ps, "--timeout", "20s"); code != exit.CodeOK {
		t.Fatalf("wait ended with %d: %s", code, out)
	}
	running := o.runs(o.targets[2], drain)
	o.shows(`/job:worker/task:1 .* blocked`, "steps", ps)
	type answer struct {
		code int
		out  string
	}
	drained := make(chan answer, 1)
	go func() {
		code, out := o.troupe("drain", ps, "worker:1", "--within", "1m", "--yes")
		drained <- answer{code, out}
	}()
	for line := ""; !strings.Contains(line, "msg=stopping drain=1m0s"); line = o.tasks[2].line(o.tasks[2].stderr) {
	}
	tick := time.NewTicker(20 * time.Millisecond) // it begins to stop after its answer
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		err := o.opens(o.targets[2])
		if status.CodeOf(err) == status.Unavailable {
			break
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("a new session ended with %v", err)
		}
	}
	select {
	case err := <-running.ended:
		t.Fatalf("the running step ended before its element came: %v", err)
	case a := <-drained:
		t.Fatalf("drain ended with %d before the task had: %s", a.code, a.out)
	default:
	}
	if err := o.runs(o.targets[1], give).error(t); err != nil {
		t.Fatal(err)
	}
	if err := running.error(t); err != nil {
		t.Errorf("the running step ended with %v", err)
	}
	select {
	case a := <-drained:
		if a.code != exit.CodeOK || a.out != "/job:worker/replica:0/task:1 has ended\n" {
			t.Errorf("drain ended with %d: %s", a.code, a.out)
		}
	case <-time.After(patience):
		t.Fatal("drain did not end")
	}
	if code, log := o.tasks[2].ends(); code != exit.CodeOK {
		t.Errorf("the drained task ended with %d: %s", code, log)
	}

	if code, out := o.troupe("drain", ps, "worker:1", "--yes"); code == exit.CodeOK || !strings.Contains(out, "/job:worker/replica:0/task:1") {
		t.Errorf("draining a task that is gone: %d: %s", code, out)
	}
	if code, out := o.troupe("drain", ps, "worker:7", "--yes"); code != exit.CodeFailed || !strings.Contains(out, "the cluster has no task /job:worker/replica:0/task:7") {
		t.Errorf("draining a task that there is not: %d: %s", code, out)
	}
	// The task that is queried.
	if code, out := o.troupe("drain", ps, "/job:ps/task:0", "--yes"); code != exit.CodeOK || out != "/job:ps/replica:0/task:0 has ended\n" {
		t.Errorf("drain ended with %d: %s", code, out)
	}
	if code, log := o.tasks[0].ends(); code != exit.CodeOK || !strings.Contains(log, `the task drains, as an operator asks" by="the client at 127.0.0.1:`) || !strings.Contains(log, "msg=stopping drain=5s") {
		t.Errorf("the drained task ended with %d: %s", code, log)
	}

	up := start(t, nil, "up", "--tasks", "w=1")
	if code, out := o.troupe("drain", regexp.MustCompile(`grpc://\S+`).FindString(up.line(up.stdout)), "w:0", "--yes"); code != exit.CodeFailed || !strings.Contains(out, "does not end when it is asked to") {
		t.Errorf("draining a task of up: %d: %s", code, out)
	}
}

// count counts on a worker until the step is cancelled.
func count(s *op.Scope) *op.Operation {
	s = s.WithDevice("/job:worker/task:1")
	return op.While(s.WithName("counting"), []op.Output{op.Const(s, int32(0))},
		func(s *op.Scope, v []op.Output) op.Output { return op.Less(s, v[0], op.Const(s, int32(1000))) },
		func(s *op.Scope, v []op.Output) []op.Output {
			return []op.Output{op.FloorMod(s, op.AddV2(s, v[0], op.Const(s, int32(1))), op.Const(s, int32(1000)))}
		})[0].Op
}

// timelineOfStep records one of several steps, through a task that is not its master, while two other steps run.
func (o *operated) timelineOfStep() {
	o.t.Helper()
	at, line := o.targets[1], regexp.MustCompile(`(?m)^(\d+) +[0-9a-f]{8} `)
	_, before := o.troupe("steps", at)
	counting := o.runs(at, count)
	step := ""
	for _, m := range line.FindAllStringSubmatch(o.shows(`(?m)(^\d+ +[0-9a-f]{8} [\s\S]*){3}`, "steps", at), -1) {
		if !strings.Contains(before, m[1]) {
			step = m[1]
		}
	}
	file := filepath.Join(o.t.TempDir(), "trace.json")
	code, out := o.troupe("timeline", o.targets[2], "--step", step, "--seconds", "0.5", "--max-events", "2000", "-o", file)
	if code != exit.CodeOK || !regexp.MustCompile(`(?m)^/job:worker/replica:0/task:1: 2000 events, \d+ more were dropped$`).MatchString(out) {
		o.t.Errorf("timeline ended with %d: %s", code, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		o.t.Fatal(err)
	}
	var trace struct {
		TraceEvents []struct {
			Phase string         `json:"ph"`
			Args  map[string]any `json:"args"`
		} `json:"traceEvents"`
	}
	if err := json.Unmarshal(text, &trace); err != nil {
		o.t.Fatal(err)
	}
	ops := map[any]int{}
	for _, e := range trace.TraceEvents {
		if e.Phase != "X" {
			continue
		}
		if e.Args["step"] != step {
			o.t.Fatalf("the timeline of the step %s has %v", step, e)
		}
		ops[e.Args["op"]]++
	}
	if ops["FloorMod"] < 2 {
		o.t.Errorf("the timeline of a loop has the ops %v", ops)
	}
	if code, out := o.troupe("timeline", at, "--step", "1", "--seconds", "0.1", "-o", file); code != exit.CodeOK || strings.Count(out, ": 0 events") != 3 {
		o.t.Errorf("the timeline of a step that is not there ended with %d: %s", code, out)
	}
	if code, out := o.troupe("timeline", at, "--step", step, "--steps", "1"); code != exit.CodeUsage {
		o.t.Errorf("the timeline of a step and of others ended with %d: %s", code, out)
	}
	if code, out := o.troupe("cancel", at, step); code != exit.CodeOK {
		o.t.Errorf("cancel ended with %d: %s", code, out)
	}
	if err := counting.error(o.t); status.CodeOf(err) != status.Cancelled {
		o.t.Errorf("a cancelled loop ended with %v", err)
	}
}

// TestOperate inspects a cluster with a full queue, a blocked step and two sessions in every way, freezes a task and kills another one.
func TestOperate(t *testing.T) {
	o := operate(t)
	at := o.targets[1]
	full := o.runs(at, overfill)
	empty := o.runs(o.targets[2], drain)

	if code, out := o.troupe("wait", "--ready", at, "--timeout", "20s"); code != exit.CodeOK || out != "" {
		t.Fatalf("wait ended with %d: %s", code, out)
	}
	if code, out := o.troupe("status", at); code != exit.CodeOK {
		t.Errorf("status ended with %d: %s", code, out)
	}
	steps := o.shows(`(?s)blocked.*blocked`, "steps", at)
	for _, want := range []string{
		`(?m)^\d+ +[0-9a-f]{8} +/job:worker/task:0 +\d+s +blocked +/job:ps/task:0 `,
		`(?m)^    \{\{node third\}\} \(QueueEnqueueV2\) on /job:ps/task:0 has waited for \S+ to enqueue into the FIFOQueue 'full' on /job:ps/task:0, which is full`,
		`'empty' on /job:ps/task:0, which is empty \(capacity 2\); no running step enqueues into it`,
	} {
		if !regexp.MustCompile(want).MatchString(steps) {
			t.Errorf("steps lack %q:\n%s", want, steps)
		}
	}
	for command, patterns := range map[string][]string{
		"sessions":   {`(?m)^[0-9a-f]{8} +/job:worker/task:0 +\S+ ago +1 +0 +0 +the client at 127`, `(?m)^[0-9a-f]{8} +/job:worker/task:1 `},
		"queues":     {`(?m)^full +/job:ps/task:0 +ps +FIFO +######## 2/2 +2 +0 +1 enqueue for \d+m?s`, `(?m)^empty .* \.{8} 0/2 .* 1 dequeue \(1 lacking\)`},
		"containers": {`(?m)^/job:ps/task:0 +CPU:0 +ps +Queue +full `},
		"links":      {`(?m)^/job:worker/task:0 +/job:ps/task:0 +up `},
		"events":     {`(?m)/job:worker/task:0 +session opened +[0-9a-f]{8} `, `(?m)/job:worker/task:1 +session opened `, `(?m)/job:ps/task:0 +server started +/job:ps/task:0 `},
	} {
		code, out := o.troupe(command, at)
		for _, want := range patterns {
			if code != exit.CodeOK || !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("%s ended with %d and lacks %q:\n%s", command, code, want, out)
			}
		}
		if code, out := o.troupe(command, at, "--task", "/job:worker/task:7"); code != exit.CodeUsage || !strings.Contains(out, "has no task /job:worker/replica:0/task:7") {
			t.Errorf("%s of a task that is not there ended with %d: %s", command, code, out)
		}
	}
	if _, out := o.troupe("sessions", at, "--task", "/job:worker/task:1"); strings.Contains(out, "/job:worker/task:0") || !strings.Contains(out, "/job:worker/task:1") {
		t.Errorf("the sessions of one task: %s", out)
	}
	code, screen := o.troupe("top", at, "--once", "--interval", "300ms")
	for _, want := range []string{`3 tasks: 3 up; 2 sessions; 2 running steps`, `(?m)^/job:ps/task:0 +up +\d+% +[\d.]+ MiB +0 +0 `, `(?m)^\d+ .* blocked .*\n    .*'full'`, `(?m)^full .* ######## 2/2`, `(?m)^/job:worker/task:0 +/job:ps/task:0 +up `} {
		if code != exit.CodeOK || !regexp.MustCompile(want).MatchString(screen) {
			t.Errorf("top ended with %d and lacks %q:\n%s", code, want, screen)
		}
	}
	if code, out := o.troupe("top", at); code != exit.CodeUsage || !strings.Contains(out, "give --once") {
		t.Errorf("top without a terminal ended with %d: %s", code, out)
	}
	_, text := o.troupe("steps", at, "--json")
	var seen struct {
		client.ClusterView
		Reasons []view.Reason `json:"reasons"`
	}
	if err := json.Unmarshal([]byte(text), &seen); err != nil || len(seen.Reasons) != 2 || !seen.Reasons[0].Blocked || len(seen.Tasks) != 3 {
		t.Errorf("%v: %s", err, text)
	}

	o.timelineOfStep()

	// A step is cancelled through a task that is not its master.
	cancelled := o.runs(at, overfill)
	id := regexp.MustCompile(`(?m)^(\d+) +([0-9a-f]{8}) .*\n.*'full'`).FindAllStringSubmatch(o.shows(`(?s)'full'.*'full'`, "steps", o.targets[2]), -1)
	last := id[len(id)-1]
	code, out := o.troupe("cancel", o.targets[2], last[1])
	if code != exit.CodeOK || out != fmt.Sprintf("cancelled step %s of session %s on /job:worker/replica:0/task:0\n", last[1], last[2]) {
		t.Errorf("cancel ended with %d: %s", code, out)
	}
	if err := cancelled.error(t); status.CodeOf(err) != status.Cancelled || !strings.Contains(err.Error(), "cancelled by an operator: the client at 127.0.0.1:") {
		t.Errorf("a cancelled step ended with %v", err)
	}
	o.shows(`(?m)/job:worker/task:0 +step cancelled +`+last[1]+` +`+last[2]+`: by the client at 127`, "events", at)
	if code, out := o.troupe("cancel", at, last[1]); code != exit.CodeFailed || !strings.Contains(out, "runs on no task: it has ended") {
		t.Errorf("cancelling a step that has ended: %d: %s", code, out)
	}

	// A frozen task is silent within the deadline, and then down.
	signal := func(p *process, s syscall.Signal) {
		if err := p.cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	signal(o.tasks[0], syscall.SIGSTOP)
	// The signal takes a moment to arrive. An answer with a table's head came within the time limit.
	o.shows(`^/job:ps/task:0 is (silent|down)`, "queues", at, "--timeout", "1s")
	o.shows(`(?m)^/job:ps/task:0 is down for \S+: `, "sessions", at)
	for _, r := range []*running{full, empty} {
		if err := r.error(t); err == nil || !strings.Contains(err.Error(), "/job:ps/replica:0/task:0") {
			t.Errorf("a step that needs the frozen task ended with %v", err)
		}
	}
	o.shows(`(?m)/job:worker/task:0 +task down +/job:ps/task:0 `, "events", at)
	signal(o.tasks[0], syscall.SIGCONT)
	o.shows(`/job:ps/replica:0/task:0 +\S+ +up `, "status", at)

	signal(o.tasks[2], syscall.SIGKILL)
	o.shows(`(?m)^/job:worker/task:1 is down for \S+: `, "links", at)
	for _, args := range [][]string{{"status", at}, {"status", at, "--json"}, {"wait", "--ready", at, "--timeout", "300ms"}, {"wait", "--ready", at, "--tasks", "worker", "--timeout", "300ms"}} {
		if code, out := o.troupe(args...); code != exit.CodeFailed || !strings.Contains(out, "/job:worker/replica:0/task:1") {
			t.Errorf("%v of a cluster without a task ended with %d: %s", args, code, out)
		}
	}
	for _, file := range []string{filepath.Join(t.TempDir(), "trace.json"), "-"} {
		if code, out := o.troupe("timeline", at, "--seconds", "0.1", "-o", file); code != exit.CodeOK || !strings.Contains(out, "/job:worker/replica:0/task:1: 0 events: it was not reached: it is down: ") {
			t.Errorf("the timeline of a cluster without a task ended with %d: %s", code, out)
		}
	}
	if code, out := o.troupe("wait", "--ready", at, "--tasks", "ps,/job:worker/task:0"); code != exit.CodeOK {
		t.Errorf("wait for those that are up ended with %d: %s", code, out)
	}
	if code, out := o.troupe("wait", "--ready", at, "--tasks", "chief"); code != exit.CodeUsage || !strings.Contains(out, "the cluster has no chief") {
		t.Errorf("wait for a job that is not there ended with %d: %s", code, out)
	}
	if code, out := o.troupe("sessions", o.targets[2], "--timeout", "2s"); code != exit.CodeUnreachable {
		t.Errorf("a killed task: exit code %d: %s", code, out)
	}
}
