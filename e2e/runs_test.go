//go:build unix

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

	mu      sync.Mutex
	runs    int           // so far
	sent    int64         // by the clients of the current stage
	printed int64         // lines, by its commands
	at      moment        // when it is killed
	killed  chan struct{} // closed when it was
	kill    func()
}

// moment is when a stage is killed: when its clients have sent so many bytes, when its commands have printed so many lines, or after a time. The
// zero value is never.
type moment struct {
	sent, lines int64
	after       time.Duration
}

func (m moment) String() string {
	switch {
	case m.sent > 0:
		return fmt.Sprintf("%d bytes", m.sent)
	case m.lines > 0:
		return fmt.Sprintf("%d lines", m.lines)
	}
	return m.after.String()
}

// earlier returns an earlier moment.
func (m moment) earlier() moment {
	return moment{sent: (m.sent + 1) / 2, lines: (m.lines + 1) / 2, after: m.after / 2}
}

// never is the moment of a stage that runs to its end.
var never moment

func newGround(t testing.TB, c *cluster) *ground {
	g := &ground{c: c, proxies: map[string]*proxy{}, dir: t.TempDir()}
	if c != nil {
		for _, k := range c.tasks {
			g.proxies[k.key()] = g.proxyTo(t, k.addr)
		}
	}
	return g
}

// proxyTo returns a proxy that counts what is sent to an address.
func (g *ground) proxyTo(t testing.TB, addr string) *proxy {
	t.Helper()
	p := newProxy(t, addr)
	p.sends = g.sends
	return p
}

// sends counts what clients send. At the moment it has the clients killed before the server receives more from them.
func (g *ground) sends(n int) {
	g.mu.Lock()
	g.sent += int64(n)
	over := g.at.sent > 0 && g.sent >= g.at.sent
	kill, killed := g.kill, g.killed
	g.mu.Unlock()
	if over {
		kill()
		<-killed
	}
}

// Write counts the lines that commands print. At the moment it has the commands killed.
func (g *ground) Write(text []byte) (int, error) {
	g.mu.Lock()
	g.printed += int64(bytes.Count(text, []byte("\n")))
	over := g.at.lines > 0 && g.printed >= g.at.lines
	kill := g.kill
	g.mu.Unlock()
	if over {
		kill()
	}
	return len(text), nil
}

// nextRun returns the name of another run.
func (g *ground) nextRun() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.runs++
	return fmt.Sprintf("run%d", g.runs)
}

// targets returns the targets of the tasks, for cases.
func (g *ground) targets() map[string]string {
	m := map[string]string{}
	for key, p := range g.proxies {
		m[key] = p.target()
	}
	return m
}

// fill substitutes targets, addresses, folders and names in a text: {ps:0}, {address ps:0}, {dir}, {new}, an empty folder for each part, and
// {run}, the run's name.
func (g *ground) fill(text, run string) (string, error) {
	pairs := []string{"{dir}", g.dir, "{run}", run}
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
func (g *ground) fillAll(texts []string, run string) ([]string, error) {
	filled := make([]string, len(texts))
	for i, text := range texts {
		var err error
		if filled[i], err = g.fill(text, run); err != nil {
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

// start starts a part of a run.
func (g *ground) start(p part, run string) (*runningPart, error) {
	if p.request != nil {
		return g.fork(p, run)
	}
	args, err := g.fillAll(p.command, run)
	if err != nil {
		return nil, err
	}
	env, err := g.fillAll(p.env, run)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = slices.Concat(os.Environ(), []string{"TF_CPP_MIN_LOG_LEVEL=2", "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1", "TMPDIR=" + scratch}, env)
	var out bytes.Buffer
	cmd.Stdout = io.MultiWriter(&out, g)
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
func (g *ground) fork(p part, run string) (*runningPart, error) {
	d, err := forks.take()
	if err != nil {
		return nil, err
	}
	q := *p.request
	if q.Args, err = g.fillAll(p.request.Args, run); err != nil {
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
	lines   int64 // printed by commands
	took    time.Duration
}

// middle returns the moment at which half of what the stage does is done, as far as that can be seen from outside: by what the clients send to
// a cluster, by what they print if they have their own, or by the time that they take if they print less than two lines.
func (r stageRun) middle() moment {
	switch {
	case r.sent > 1:
		return moment{sent: r.sent / 2}
	case r.lines > 1:
		return moment{lines: r.lines / 2}
	}
	return moment{after: r.took / 2}
}

// errTooLate is the error of a stage that ended before the moment at which it was to be killed.
var errTooLate = errors.New("the stage ended before it was killed")

// perform runs a stage of a run. Its clients are killed at a moment.
func (g *ground) perform(s stage, run string, at moment) (r stageRun, err error) {
	var once sync.Once
	begun, killing, killed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	kill := func() { once.Do(func() { close(killing) }) }
	g.mu.Lock()
	g.sent, g.printed, g.at, g.kill, g.killed = 0, 0, at, kill, killed
	g.mu.Unlock()
	if at.after > 0 {
		timer := time.AfterFunc(at.after, kill)
		defer timer.Stop()
	}
	since := time.Now()
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
		c, e := g.start(p, run)
		if e != nil {
			err = e
			kill()
			break
		}
		clients = append(clients, c)
	}
	close(begun)
	if err == nil && at == never && slices.ContainsFunc(s, func(p part) bool { return p.waits }) {
		err = g.untilWaits()
		kill()
	}
	ended := 0
	for i, c := range clients {
		output, e := c.end()
		if e == nil {
			ended++
		}
		switch p := s[i]; {
		case was.Load() && (at != never || p.waits):
		case p.prints != "" && e == nil && output != p.prints:
			err = errors.Join(err, fmt.Errorf("part %d has printed %q, not %q", i, output, p.prints))
		case p.fails != "" && (e == nil || !strings.Contains(e.Error(), p.fails)):
			err = errors.Join(err, fmt.Errorf("part %d has not failed with %q, but ended: %w", i, p.fails, cmp.Or(e, errors.New("without an error"))))
		case p.fails == "" && e != nil:
			err = errors.Join(err, fmt.Errorf("part %d: %w", i, e))
		}
		r.outputs = append(r.outputs, output)
	}
	r.took = time.Since(since)
	g.mu.Lock()
	r.sent, r.lines = g.sent, g.printed
	g.at = never
	g.mu.Unlock()
	if at != never && err == nil && (!was.Load() || ended == len(s)) {
		err = fmt.Errorf("%w at %v", errTooLate, at)
	}
	return r, err
}

// aWait matches what troupe why says of a step that waits.
var aWait = regexp.MustCompile(`has waited for [\d.]`)

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
		if aWait.Match(out) {
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
	return g.stagesOf(g.nextRun(), stages)
}

// stagesOf runs stages of a run and returns what they print.
func (g *ground) stagesOf(run string, stages []stage) (out []stageRun, err error) {
	for i, s := range stages {
		r, err := g.perform(s, run, never)
		if err != nil {
			return out, fmt.Errorf("stage %d: %w", i, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// runKilled runs the stages up to the one at index at, which is killed in the middle. If it ends before, as when it does less than usual, it runs
// again and is killed earlier.
func (g *ground) runKilled(stages []stage, at int, usual []stageRun) (err error) {
	const tries = 4
	m := usual[at].middle()
	for range tries {
		run := g.nextRun()
		if _, err := g.stagesOf(run, stages[:at]); err != nil {
			return err
		}
		if _, err = g.perform(stages[at], run, m); !errors.Is(err, errTooLate) {
			return err
		}
		m = m.earlier()
	}
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

// reset empties the default containers of the cluster, and those of the cases.
func (g *ground) reset(t testing.TB, wares []ware) {
	t.Helper()
	if g.c == nil {
		return
	}
	var containers []string
	for _, w := range wares {
		if w.container != "" {
			containers = append(containers, w.container)
			for i := range besides {
				containers = append(containers, w.containerOf(i))
			}
		}
	}
	args := slices.Concat([]string{"reset", "--yes"}, g.c.shows, []string{g.c.tasks[0].addr}, containers)
	if out, err := exec.Command(binary(t), args...).CombinedOutput(); err != nil {
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

// has reports whether the cluster has a task that can be restarted. Programs with a cluster of their own begin a new one each time.
func (p group) has(task string) bool {
	job, _, _ := strings.Cut(task, ":")
	return slices.ContainsFunc(strings.Split(p.jobs, ","), func(j string) bool { return strings.HasPrefix(j, job+"=") })
}

// repetition is a way to run a program once more.
type repetition struct {
	name  string
	task  string // restarted before
	again func(g *ground, w ware, stages []stage, usual []stageRun) error
}

// allRepetitions are the ways to repeat a program.
var allRepetitions = []repetition{
	{"again", "", again},
	{"the-ps-restarted", "ps:0", again},
	{"the-worker-restarted", "worker:0", again},
	{"killed", "", func(g *ground, w ware, stages []stage, usual []stageRun) error {
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
	{"beside-itself", "", func(g *ground, w ware, stages []stage, usual []stageRun) error {
		errs := make([]error, besides)
		var both sync.WaitGroup
		for i := range errs {
			both.Go(func() { errs[i] = again(g, w, w.apart(stages, i), usual) })
		}
		both.Wait()
		return errors.Join(errs...)
	}},
}

// besides is how many runs of a program there are at once.
const besides = 2

// apart returns the stages of one of the runs at once of a case, which has its resources in a container of its own: what cases of one container do
// to each other depends on which is faster. Other programs share the default container, and runs.txt says what they do to each other.
func (w ware) apart(stages []stage, i int) []stage {
	if w.container == "" {
		return stages
	}
	var out []stage
	for _, s := range stages {
		s = slices.Clone(s)
		for k, p := range s {
			q := *p.request
			q.Name = w.containerOf(i)
			s[k].request = &q
		}
		out = append(out, s)
	}
	return out
}

// containerOf returns the container of one of the runs at once of a case.
func (w ware) containerOf(i int) string { return fmt.Sprintf("%s_%d", w.container, i) }

func again(g *ground, w ware, stages []stage, usual []stageRun) error {
	out, err := g.run(stages)
	if err != nil {
		return err
	}
	return w.alike(usual, out)
}

// tally counts the cells of the matrix. Groups count concurrently.
type tally struct {
	mu       sync.Mutex
	programs map[string]int // by kind
	alike    map[string]int // by repetition
	differ   map[string]int // those that differ for a reason
	none     map[string]int // those without a task that could be restarted
}

func newTally() *tally {
	return &tally{programs: map[string]int{}, alike: map[string]int{}, differ: map[string]int{}, none: map[string]int{}}
}

func (m *tally) count(cells map[string]int, repetition string) {
	m.mu.Lock()
	cells[repetition]++
	m.mu.Unlock()
}

func (m *tally) report(t testing.TB) {
	for _, kind := range slices.Sorted(maps.Keys(m.programs)) {
		t.Logf("%-22s %3d programs", kind, m.programs[kind])
	}
	for _, r := range allRepetitions {
		if n := m.alike[r.name] + m.differ[r.name]; n+m.none[r.name] > 0 {
			t.Logf("%-22s %3d runs: %3d alike, %3d differ, with a reason; %3d programs have no such task", r.name, n, m.alike[r.name], m.differ[r.name], m.none[r.name])
		}
	}
}

// TestRuns runs the examples, the programs of the documents, and the programs and cases of this folder once, and then once more in each of
// several ways on the same cluster. All runs must succeed alike, except for those with a reason in testdata/runs.txt. By default, a few run,
// of each kind and in each way; in check, all run a second time, and each in one other way; in full, all in all ways (internal/extent).
func TestRuns(t *testing.T) {
	t.Parallel()
	needPython(t)
	expected := readExpected(t)
	m := newTally()
	t.Cleanup(func() { // after all groups
		expected.unused(t)
		m.report(t)
	})
	for _, group := range wareGroups(t) {
		ways := group.ways()
		if len(ways) == 0 {
			continue
		}
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			var c *cluster
			if group.jobs != "" {
				c = group.start(t)
			}
			g := newGround(t, c)
			if group.secured {
				worker := c.task("worker", 0)
				g.proxies = map[string]*proxy{worker.key(): g.proxyTo(t, strings.TrimPrefix(launchProxy(t, worker.addr, c.shows), "grpc://"))}
			}
			group.run(t, g, ways, expected, m)
			if c != nil && c.ended() != nil {
				t.Errorf("%s has ended", c.ended().name())
			}
		})
	}
}

// group is a set of programs that share a cluster without affecting each other.
type group struct {
	name    string
	kind    string // of the programs
	number  int    // of the group
	jobs    string // of the cluster; "" if the programs have their own
	flags   []string
	server  func(testing.TB) string // the program that the tasks run, if it is not troupe serve
	secured bool                    // the cluster demands certificates, which troupe proxy has
	wares   []ware
}

// start starts the group's cluster.
func (p group) start(t testing.TB) *cluster {
	t.Helper()
	if p.secured {
		return secured(t, t.TempDir())
	}
	c := declare(t, p.jobs, p.flags...)
	if p.server != nil {
		c.binary, c.bare = p.server(t), true
	}
	c.startAll(t)
	return c
}

// ways returns the repetitions of the group's programs in this extent of the tests.
func (p group) ways() []repetition {
	switch {
	case extent.Full():
		return allRepetitions
	case extent.Check():
		return p.waysInCheck()
	}
	return slices.DeleteFunc(slices.Clone(allRepetitions), func(r repetition) bool { return !slices.Contains(shortWays[p.name], r.name) })
}

// waysInCheck are running again, and one of the other ways, in turn.
func (p group) waysInCheck() []repetition {
	var others []repetition
	for _, r := range allRepetitions[1:] {
		if p.applies(r) {
			others = append(others, r)
		}
	}
	return []repetition{allRepetitions[0], others[p.number%len(others)]}
}

// applies reports whether the group's programs can be repeated in a way.
func (p group) applies(r repetition) bool { return r.task == "" || p.has(r.task) }

func (p group) run(t *testing.T, g *ground, ways []repetition, expected *expectations, m *tally) {
	usual, stages := map[string][]stageRun{}, map[string][]stage{}
	for _, w := range p.wares {
		stages[w.name] = w.stages(t, g)
	}
	m.mu.Lock()
	m.programs[p.kind] += len(p.wares)
	for _, r := range ways {
		if !p.applies(r) {
			m.none[r.name] += len(p.wares)
		}
	}
	m.mu.Unlock()
	for _, r := range ways {
		if !p.applies(r) {
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
				if err == nil {
					m.count(m.alike, r.name)
				} else {
					m.count(m.differ, r.name)
				}
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
	for _, w := range p.wares {
		expected.ran.Store(w.name, true)
	}
}

// expectation is a line of testdata/runs.txt about a program that does not run alike.
type expectation struct {
	repetitions []string
	how         string // a text in the difference, or "may" if it may also run alike
	resets      bool   // after a reset it runs alike
	reason      string
	used        sync.Map // the repetitions that there were
}

func (e *expectation) check(err error) error {
	switch {
	case err == nil && e.how != "may":
		return fmt.Errorf("it ran alike, and testdata/runs.txt says %q: %s", e.how, e.reason)
	case err != nil && e.how != "may" && !slices.ContainsFunc(strings.Split(e.how, " or "), func(text string) bool { return strings.Contains(err.Error(), text) }):
		return fmt.Errorf("it does not differ with %q, as testdata/runs.txt says, but: %w", e.how, err)
	}
	return nil
}

// expectations are the lines of testdata/runs.txt by program.
type expectations struct {
	of_ map[string][]*expectation
	ran sync.Map // the programs that have run in all ways
}

func (x *expectations) of(name, repetition string) (*expectation, bool) {
	for _, e := range x.of_[name] {
		if slices.Contains(e.repetitions, repetition) {
			e.used.Store(repetition, true)
			return e, true
		}
	}
	return nil, false
}

// unused fails the test for lines about a repetition that its program, which has run, does not have. TestRunsListed finds those that match no
// program.
func (x *expectations) unused(t testing.TB) {
	if t.Failed() || !extent.Full() {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(x.of_)) {
		if _, ran := x.ran.Load(name); !ran {
			continue // -run has left it out
		}
		for _, e := range x.of_[name] {
			for _, r := range e.repetitions {
				if _, was := e.used.Load(r); !was {
					t.Errorf("testdata/runs.txt has %s, %s, which nothing is", name, r)
				}
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
	x := &expectations{of_: map[string][]*expectation{}}
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
