//go:build unix

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/extent"
)

// ware is a program as its user runs it. The stages of a run follow one another. The parts of a stage, which are clients in separate
// processes, run concurrently. A run finds what other runs have left on the cluster and in its folder.
type ware struct {
	name   string
	stages func(t testing.TB, g *ground) []stage
	// container is where a case has its resources; "" is the default container.
	container string
	// same returns the part of the output that all runs have in common; nil stands for all of it.
	same func(string) string
}

type stage []part

// part is a client: one of the Python programs and cases, or a command.
type part struct {
	request *request
	command []string
	env     []string
	waits   bool   // it does not end by itself: it succeeds when one of its steps waits
	fails   string // the text of the error that it ends with
	prints  string // what it prints; "" if that is not specified
}

// ground is a cluster that programs run on, behind proxies that count what clients send.
type ground struct {
	c       *cluster // nil for programs that have their own
	proxies map[string]*proxy
	dir     string

	mu     sync.Mutex
	sent   int64         // by the clients of the current stage
	limit  int64         // at which the stage is killed; 0 for never
	killed chan struct{} // closed when it was
	kill   func()
}

func newGround(t testing.TB, c *cluster) *ground {
	g := &ground{c: c, proxies: map[string]*proxy{}, dir: t.TempDir()}
	if c != nil {
		for _, k := range c.tasks {
			p := newProxy(t, k.addr)
			p.sends = g.sends
			g.proxies[k.key()] = p
		}
	}
	return g
}

// sends counts what clients send. At the limit it has the clients killed before the server receives more from them.
func (g *ground) sends(n int) {
	g.mu.Lock()
	g.sent += int64(n)
	over := g.limit > 0 && g.sent >= g.limit
	kill, killed := g.kill, g.killed
	g.mu.Unlock()
	if over {
		kill()
		<-killed
	}
}

// targets returns the targets of the tasks, for cases.
func (g *ground) targets() map[string]string {
	m := map[string]string{}
	for key, p := range g.proxies {
		m[key] = p.target()
	}
	return m
}

// fill substitutes targets, addresses and folders in a text: {ps:0}, {address ps:0}, {dir}, and {new}, an empty folder for each part.
func (g *ground) fill(text string) (string, error) {
	pairs := []string{"{dir}", g.dir}
	if strings.Contains(text, "{new}") {
		empty, err := os.MkdirTemp(g.dir, "run")
		if err != nil {
			return "", err
		}
		pairs = append(pairs, "{new}", empty)
	}
	for key, p := range g.proxies {
		pairs = append(pairs, "{"+key+"}", p.target(), "{address "+key+"}", strings.TrimPrefix(p.target(), "grpc://"))
	}
	return strings.NewReplacer(pairs...).Replace(text), nil
}

// fillAll is fill for several texts.
func (g *ground) fillAll(texts []string) ([]string, error) {
	filled := make([]string, len(texts))
	for i, text := range texts {
		var err error
		if filled[i], err = g.fill(text); err != nil {
			return nil, err
		}
	}
	return filled, nil
}

// runningPart is a running part. kill ends it without warning, and may be called at any time; end waits until it has ended.
type runningPart struct {
	kill func()
	end  func() (output string, err error)
}

// clientTime bounds a part of a run.
const clientTime = 3 * time.Minute

// forks are Python processes that have imported TensorFlow and run each request in a fork.
var forks driverPool

func (p *driverPool) take() (*driver, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 {
		d := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return d, nil
	}
	python, err := interpreter()
	if err != nil {
		return nil, err
	}
	d, err := newDriver(python, "--fork")
	if err == nil {
		p.all = append(p.all, d)
	}
	return d, err
}

func (p *driverPool) give(d *driver) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.proc.running() {
		p.idle = append(p.idle, d)
	}
}

// start starts a part.
func (g *ground) start(p part) (*runningPart, error) {
	if p.request != nil {
		return g.fork(p)
	}
	args, err := g.fillAll(p.command)
	if err != nil {
		return nil, err
	}
	env, err := g.fillAll(p.env)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = slices.Concat(os.Environ(), []string{"TF_CPP_MIN_LOG_LEVEL=2", "PYTHONDONTWRITEBYTECODE=1"}, env)
	var out bytes.Buffer
	cmd.Stdout = &out
	proc, err := launch(filepath.Base(args[0]), cmd)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(extent.Slack(clientTime))
	return &runningPart{kill: proc.kill, end: func() (string, error) {
		code, err := proc.wait(time.Until(deadline))
		if err != nil {
			proc.kill()
		} else if code != 0 {
			err = errors.New(proc.log.tail())
		}
		return out.String(), err
	}}, nil
}

// fork starts a part in a fork of a Python process.
func (g *ground) fork(p part) (*runningPart, error) {
	d, err := forks.take()
	if err != nil {
		return nil, err
	}
	q := *p.request
	if q.Args, err = g.fillAll(p.request.Args); err != nil {
		return nil, err
	}
	if q.Case != "" {
		q.Targets = g.targets()
	}
	started := make(chan int, 1)
	d.act = func(what, task string) error {
		if what != "started" {
			return fmt.Errorf("a program of these tests does not %s %s", what, task)
		}
		pid, err := strconv.Atoi(task)
		started <- pid
		return err
	}
	type ended struct {
		a   *answer
		err error
	}
	end := make(chan ended, 1)
	go func() {
		a, err := d.do(q, clientTime+time.Minute)
		forks.give(d)
		close(started)
		end <- ended{a, err}
	}()
	pid := <-started // 0 if it has not started
	signal := func(s syscall.Signal) {
		if pid != 0 {
			_ = syscall.Kill(pid, s)
		}
	}
	deadline := time.Now().Add(extent.Slack(clientTime))
	return &runningPart{kill: func() { signal(syscall.SIGKILL) }, end: func() (string, error) {
		over := time.NewTimer(time.Until(deadline))
		defer over.Stop()
		select {
		case e := <-end:
			if e.err != nil {
				return "", e.err
			}
			return e.a.Output, e.a.err()
		case <-over.C:
			signal(syscall.SIGABRT) // it logs where it hangs, and ends
			<-end
			return "", fmt.Errorf("it has not ended within %v\n%s", extent.Slack(clientTime), d.proc.log.tail())
		}
	}}, nil
}

// stageRun is the result of a stage.
type stageRun struct {
	outputs []string
	sent    int64
}

// perform runs a stage. Its clients are killed when they have sent limit bytes, or at once if limit is 0. With a negative limit they run to
// their end.
func (g *ground) perform(s stage, limit int64) (r stageRun, err error) {
	var once sync.Once
	begun, killing, killed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	kill := func() { once.Do(func() { close(killing) }) }
	g.mu.Lock()
	g.sent, g.limit, g.kill, g.killed = 0, max(limit, 0), kill, killed
	g.mu.Unlock()
	var clients []*runningPart
	done := make(chan struct{})
	var killer sync.WaitGroup
	var was atomic.Bool
	killer.Go(func() {
		select {
		case <-killing:
		case <-done:
			return
		}
		<-begun
		was.Store(true)
		for _, c := range clients {
			c.kill()
		}
		close(killed) // not g.killed: a program that runs beside itself performs two stages at once
	})
	defer killer.Wait()
	defer close(done)
	for _, p := range s {
		c, e := g.start(p)
		if e != nil {
			err = e
			kill()
			break
		}
		clients = append(clients, c)
	}
	close(begun)
	if limit == 0 {
		kill()
	}
	if err == nil && limit < 0 && slices.ContainsFunc(s, func(p part) bool { return p.waits }) {
		err = g.untilWaits()
		kill()
	}
	for i, c := range clients {
		output, e := c.end()
		switch p := s[i]; {
		case was.Load() && (limit >= 0 || p.waits):
		case p.prints != "" && e == nil && output != p.prints:
			err = errors.Join(err, fmt.Errorf("part %d has printed %q, not %q", i, output, p.prints))
		case p.fails != "" && (e == nil || !strings.Contains(e.Error(), p.fails)):
			err = errors.Join(err, fmt.Errorf("part %d has not failed with %q, but ended: %w", i, p.fails, cmp.Or(e, errors.New("without an error"))))
		case p.fails == "" && e != nil:
			err = errors.Join(err, fmt.Errorf("part %d: %w", i, e))
		}
		r.outputs = append(r.outputs, output)
	}
	g.mu.Lock()
	r.sent = g.sent
	g.limit = 0
	g.mu.Unlock()
	if limit >= 0 && err == nil && !was.Load() {
		err = fmt.Errorf("the stage ended, after %d bytes, before it was killed, after %d", r.sent, limit)
	}
	return r, err
}

// untilWaits returns when a step of the cluster waits.
func (g *ground) untilWaits() error {
	path, err := built()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), extent.Slack(clientTime))
	defer cancel()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		out, err := exec.CommandContext(ctx, path, "why", g.c.tasks[0].addr).CombinedOutput()
		if err != nil {
			return fmt.Errorf("why: %w\n%s", err, out)
		}
		if strings.Contains(string(out), " has waited for ") {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no step waits, within %v: %s", extent.Slack(clientTime), out)
		case <-again.C:
		}
	}
}

// run runs the stages and returns what they print.
func (g *ground) run(stages []stage) (out []stageRun, err error) {
	for i, s := range stages {
		r, err := g.perform(s, -1)
		if err != nil {
			return out, fmt.Errorf("stage %d: %w", i, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// runKilled runs the stages up to the one at index at, which is killed in the middle.
func (g *ground) runKilled(stages []stage, at int, usual []stageRun) error {
	if _, err := g.run(stages[:at]); err != nil {
		return err
	}
	_, err := g.perform(stages[at], usual[at].sent/2)
	return err
}

// alike returns an error that describes how two runs differ.
func (w ware) alike(first, second []stageRun) error {
	same := w.same
	if same == nil {
		same = func(s string) string { return s }
	}
	for i := range first {
		for k, a := range first[i].outputs {
			if b := second[i].outputs[k]; same(a) != same(b) {
				return fmt.Errorf("stage %d, part %d printed %q, in the first run %q", i, k, same(b), same(a))
			}
		}
	}
	return nil
}

// reset empties the default containers of the cluster, and those of the cases, which bear their names.
func (g *ground) reset(t testing.TB, wares []ware) {
	t.Helper()
	if g.c == nil {
		return
	}
	var containers []string
	for _, w := range wares {
		if w.container != "" {
			containers = append(containers, w.container)
		}
	}
	if out, err := exec.Command(binary(t), append([]string{"reset", "--yes", g.c.tasks[0].addr}, containers...)...).CombinedOutput(); err != nil {
		t.Fatalf("reset: %v\n%s", err, out)
	}
}

// restart ends a task without warning and starts it again.
func (g *ground) restart(t testing.TB, key string) {
	t.Helper()
	if g.c == nil {
		return
	}
	for _, k := range g.c.tasks {
		if k.key() == key {
			k.proc.kill()
			g.c.start(t, k)
		}
	}
	g.c.ready(t)
}

// repetition is a way to run a program once more.
type repetition struct {
	name  string
	short bool   // also in continuous integration
	task  string // restarted before
	again func(g *ground, w ware, stages []stage, usual []stageRun) error
}

// allRepetitions are the ways to repeat a program.
var allRepetitions = []repetition{
	{"again", true, "", again},
	{"the-ps-restarted", false, "ps:0", again},
	{"the-worker-restarted", false, "worker:0", again},
	{"killed", false, "", func(g *ground, w ware, stages []stage, usual []stageRun) error {
		for i := range stages {
			if err := g.runKilled(stages, i, usual); err != nil {
				return fmt.Errorf("killed in stage %d: %w", i, err)
			}
			if err := again(g, w, stages, usual); err != nil {
				return fmt.Errorf("after it was killed in stage %d: %w", i, err)
			}
		}
		return nil
	}},
	{"beside-itself", false, "", func(g *ground, w ware, stages []stage, usual []stageRun) error {
		errs := make([]error, 2)
		var both sync.WaitGroup
		for i := range errs {
			both.Go(func() { errs[i] = again(g, w, stages, usual) })
		}
		both.Wait()
		return errors.Join(errs...)
	}},
}

func again(g *ground, w ware, stages []stage, usual []stageRun) error {
	out, err := g.run(stages)
	if err != nil {
		return err
	}
	return w.alike(usual, out)
}

// tally counts the cells of the matrix. Groups count concurrently.
type tally struct {
	mu            sync.Mutex
	programs      int
	alike, differ map[string]int
}

func (m *tally) count(cells map[string]int, repetition string) {
	m.mu.Lock()
	cells[repetition]++
	m.mu.Unlock()
}

func (m *tally) report(t testing.TB) {
	t.Logf("%d programs", m.programs)
	for _, r := range allRepetitions {
		if n := m.alike[r.name] + m.differ[r.name]; n > 0 {
			t.Logf("%-22s %3d runs, %3d alike, %3d differ, with a reason", r.name, n, m.alike[r.name], m.differ[r.name])
		}
	}
}

// TestRuns runs each example, each program of the documents, and each program and case of this folder once, and then once more in each of
// several ways on the same cluster. All runs must succeed alike, except for those with a reason in testdata/runs.txt. By default, nothing
// runs; in check, everything runs a second time; in full, in all ways (internal/extent).
func TestRuns(t *testing.T) {
	t.Parallel()
	if !extent.Check() {
		t.Skip("it runs all programs twice, which takes minutes: TROUPE_TESTS=check")
	}
	needPython(t)
	expected := readExpected(t)
	m := &tally{alike: map[string]int{}, differ: map[string]int{}}
	t.Cleanup(func() { // after all groups
		expected.unused(t)
		m.report(t)
	})
	for _, group := range wareGroups(t) {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			var c *cluster
			if group.jobs != "" {
				c = newCluster(t, group.jobs, group.flags...)
			}
			g := newGround(t, c)
			group.run(t, g, expected, m)
			if c != nil && c.ended() != nil {
				t.Errorf("%s has ended", c.ended().name())
			}
		})
	}
}

// group is a set of programs that share a cluster without affecting each other.
type group struct {
	name  string
	jobs  string // of the cluster; "" if the programs have their own
	flags []string
	wares []ware
}

func (p group) run(t *testing.T, g *ground, expected *expectations, m *tally) {
	usual, stages := map[string][]stageRun{}, map[string][]stage{}
	for _, w := range p.wares {
		stages[w.name] = w.stages(t, g)
	}
	m.mu.Lock()
	m.programs += len(p.wares)
	m.mu.Unlock()
	for _, r := range allRepetitions {
		if !r.short && !extent.Full() {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			g.reset(t, p.wares)
			for _, w := range p.wares {
				out, err := g.run(stages[w.name])
				if err == nil && usual[w.name] != nil {
					err = w.alike(usual[w.name], out)
				}
				if err != nil && usual[w.name] != nil {
					// What does not run alike again, even after a reset, does not do so here either.
					if e, differs := expected.of(w.name, "again"); differs && !e.resets {
						if err = e.check(err); err == nil {
							continue
						}
					}
				}
				if err != nil {
					t.Fatalf("%s, the first run: %v", w.name, err)
				}
				usual[w.name] = out
			}
			if r.task != "" {
				g.restart(t, r.task)
			}
			for _, w := range p.wares {
				err := r.again(g, w, stages[w.name], usual[w.name])
				e, differs := expected.of(w.name, r.name)
				if !differs {
					if err != nil {
						t.Errorf("%s: %v", w.name, err)
					} else {
						m.count(m.alike, r.name)
						t.Logf("%s: alike", w.name)
					}
					continue
				}
				m.count(m.differ, r.name)
				t.Logf("%s: it may differ, and did with: %.200v", w.name, err)
				if err := e.check(err); err != nil {
					t.Errorf("%s: %v", w.name, err)
				}
				if !e.resets {
					continue
				}
				g.reset(t, p.wares)
				if err := again(g, w, stages[w.name], usual[w.name]); err != nil {
					t.Errorf("%s, after a reset: %v", w.name, err)
				}
			}
		})
	}
}

// expectation is a line of testdata/runs.txt about a program that does not run alike.
type expectation struct {
	repetitions []string
	how         string // a text in the difference, or "may" if it may also run alike
	resets      bool   // after a reset it runs alike
	reason      string
	used        atomic.Bool
}

func (e *expectation) check(err error) error {
	switch {
	case err == nil && e.how != "may":
		return fmt.Errorf("it ran alike, and testdata/runs.txt says %q: %s", e.how, e.reason)
	case err != nil && e.how != "may" && !strings.Contains(err.Error(), e.how):
		return fmt.Errorf("it does not differ with %q, as testdata/runs.txt says, but: %w", e.how, err)
	}
	return nil
}

// expectations are the lines of testdata/runs.txt by program.
type expectations struct{ of_ map[string][]*expectation }

func (x *expectations) of(name, repetition string) (*expectation, bool) {
	for _, e := range x.of_[name] {
		if slices.Contains(e.repetitions, repetition) {
			e.used.Store(true)
			return e, true
		}
	}
	return nil, false
}

// unused fails the test for lines that match no program.
func (x *expectations) unused(t testing.TB) {
	if t.Failed() || !extent.Full() {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(x.of_)) {
		for _, e := range x.of_[name] {
			if !e.used.Load() {
				t.Errorf("testdata/runs.txt has %s, %v, which nothing is", name, e.repetitions)
			}
		}
	}
}

func readExpected(t testing.TB) *expectations {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "runs.txt"))
	if err != nil {
		t.Fatal(err)
	}
	x := &expectations{map[string][]*expectation{}}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		cells := strings.Split(line, " | ")
		if len(cells) != 4 {
			t.Fatalf("testdata/runs.txt: %q does not have four cells", line)
		}
		repetitions := strings.Split(strings.TrimSpace(cells[1]), ",")
		how, resets := strings.CutSuffix(strings.TrimSpace(cells[2]), ", reset")
		for name := range strings.SplitSeq(strings.TrimSpace(cells[0]), ",") {
			x.of_[name] = append(x.of_[name], &expectation{repetitions: repetitions, how: how, resets: resets, reason: strings.TrimSpace(cells[3])})
		}
	}
	return x
}
