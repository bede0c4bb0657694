package troupe

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
)

// tally is a session with a counter that asks for a device, or for none.
type tally struct {
	t       *testing.T
	session *Session
	start   *op.Operation
	count   op.Output
}

func tallyOn(t *testing.T, s *Server, device, name string, config *corepb.ConfigProto) *tally {
	t.Helper()
	g := op.NewScope().WithDevice(device)
	v := op.VariableV2(g, shape.Of(), tensor.Int64, attr.SharedName(name))
	c := &tally{t: t, start: op.Assign(g, v, op.Const(g, int64(0))).Op, count: op.AssignAdd(g, v, op.Const(g, int64(1)))}
	def, err := g.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if c.session, err = s.NewSession(ctx, def, config); err != nil {
		t.Fatalf("a session on %s: %v", s.Task(), err)
	}
	return c
}

func (c *tally) begin() *tally {
	c.t.Helper()
	if _, err := c.session.Eval(deadline(c.t), nil, c.start); err != nil {
		c.t.Fatal(err)
	}
	return c
}

// is counts, and expects a value; 0 means the error of a counter that has not been initialized.
func (c *tally) is(want int64) {
	c.t.Helper()
	got, err := Fetch[int64](deadline(c.t), c.session, nil, c.count)
	if want == 0 && status.CodeOf(err) == status.FailedPrecondition {
		return
	}
	if err != nil || got != want {
		c.t.Errorf("the counter is %d, %v; want %d", got, err, want)
	}
}

// sharedOn lists the resources of a task that the cluster shares.
func sharedOn(t *testing.T, s *Server) (names []string) {
	t.Helper()
	for _, r := range s.server.Task().See(&view.Query{Sections: []string{"resources"}}).Resources {
		if r.Shared {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return names
}

// unpinned returns a session's config that sets the owner of resources that ask for no device.
func unpinned(whose string) *corepb.ConfigProto {
	return &corepb.ConfigProto{GraphOptions: &corepb.GraphOptions{RewriteOptions: &corepb.RewriterConfig{CustomOptimizers: []*corepb.RewriterConfig_CustomGraphOptimizer{
		{Name: "troupe", ParameterMap: map[string]*attrpb.AttrValue{"unpinned": {Value: &attrpb.AttrValue_S{S: []byte(whose)}}}}}}}}
}

// A resource without a device belongs to the cluster and one with a partial device to its master, unless the server's or the session's
// options say otherwise.
func TestWhoseResourcesAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := simulated(t, 2).tasks
		tallyOn(t, all[0], "", "x", nil).begin().is(1)
		tallyOn(t, all[1], "", "x", nil).is(2)
		for name, device := range map[string]string{"own": "/cpu:0", "mine": "/device:CPU:0"} {
			a, b := tallyOn(t, all[0], device, name, nil).begin(), tallyOn(t, all[1], device, name, nil)
			a.is(1)
			b.is(0)
			b.begin().is(1)
			a.is(2)
		}
		a, b := tallyOn(t, all[0], "", "y", unpinned("task")).begin(), tallyOn(t, all[1], "", "y", unpinned("task")).begin()
		a.is(1)
		b.is(1)
		tallyOn(t, all[1], "", "y", unpinned("cluster")).is(2) // nobody has claimed it, and its home is where it is looked for first
		if got := sharedOn(t, all[0]); !slices.Equal(got, []string{"x"}) {
			t.Errorf("task 0 shares %q", got)
		}
		if got := sharedOn(t, all[1]); !slices.Equal(got, []string{"y"}) {
			t.Errorf("task 1 shares %q", got)
		}
		for text, config := range map[string]*corepb.ConfigProto{`unpinned is task or cluster, not "all"`: unpinned("all"),
			`an option "pinned" of Troupe's, which has only "unpinned"`: {GraphOptions: &corepb.GraphOptions{RewriteOptions: &corepb.RewriterConfig{
				CustomOptimizers: []*corepb.RewriterConfig_CustomGraphOptimizer{{Name: "troupe", ParameterMap: map[string]*attrpb.AttrValue{"pinned": {}}}}}}}} {
			if _, err := all[0].NewSession(t.Context(), nil, config); status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), text) {
				t.Errorf("%v; want %s", err, text)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		all := simulated(t, 2, WithOwnResources(true)).tasks
		a, b := tallyOn(t, all[0], "", "x", nil).begin(), tallyOn(t, all[1], "", "x", nil).begin()
		a.is(1)
		b.is(1)
		tallyOn(t, all[1], "", "z", unpinned("cluster")).begin().is(1)
		tallyOn(t, all[0], "", "z", unpinned("cluster")).is(2)
	})
}

// A resource's home is on a task that stays, such as a parameter server, if there is one, whichever task uses the
// resource first.
func TestHomesAreOnParameterServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := &simulation{cluster: ClusterSpec{"ps": {"10.0.0.1:2222", "10.0.0.2:2222"}, "worker": {"10.0.0.3:2222", "10.0.0.4:2222"}}}
		all := sim.startAll(t)
		w0, w1 := all[2], all[3]
		for i := range 12 {
			name := fmt.Sprintf("x%02d", i)
			tallyOn(t, w0, "", name, nil).begin().is(1)
			tallyOn(t, w1, "", name, nil).is(2)
		}
		p0, p1 := sharedOn(t, all[0]), sharedOn(t, all[1])
		if len(p0) < 2 || len(p1) < 2 || len(p0)+len(p1) != 12 {
			t.Errorf("the parameter servers share %q and %q", p0, p1)
		}
		stop(t, w0) // as planned: no task needs it
		pass(time.Minute)
		for i := range 12 {
			tallyOn(t, w1, "", fmt.Sprintf("x%02d", i), nil).is(3)
		}
	})
}

// Workers that declare other parts of the parameter servers share the resources that both may use, and learn where the others live.
func TestHomesOfSparseSpecs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole := ClusterSpec{"ps": {"10.0.0.1:2222", "10.0.0.2:2222"}, "worker": {"10.0.0.3:2222", "10.0.0.4:2222"}}
		sim := &simulation{cluster: whole}
		sim.specs = func(task int) SparseClusterSpec {
			s := SparseClusterSpec{"ps": {0: whole["ps"][0], 1: whole["ps"][1]}, "worker": {}}
			for i, address := range whole["worker"] {
				if task < 2 || task-2 == i {
					s["worker"][i] = address
				}
			}
			if task == 3 {
				delete(s["ps"], 1)
			}
			return s
		}
		all := sim.startAll(t)
		w0, w1 := all[2], all[3]
		refused := 0
		for i := range 12 {
			name := fmt.Sprintf("x%02d", i)
			tallyOn(t, w1, "", name, nil).begin().is(1)
			tallyOn(t, w0, "", name, nil).is(2)

			name = fmt.Sprintf("y%02d", i)
			tallyOn(t, w0, "", name, nil).begin().is(1)
			if slices.Contains(sharedOn(t, all[0]), name) {
				tallyOn(t, w1, "", name, nil).is(2)
				continue
			}
			refused++
			g := op.NewScope()
			op.VariableV2(g, shape.Of(), tensor.Int64, attr.SharedName(name))
			def, err := g.GraphDef()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w1.NewSession(deadline(t), def, nil); status.CodeOf(err) != status.InvalidArgument ||
				!strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "lives on /job:ps/replica:0/task:1/") {
				t.Errorf("a worker uses %s, which lives on a task that it does not declare: %v", name, err)
			}
		}
		if refused == 0 || refused == 12 {
			t.Errorf("%d of 12 names live on ps 1", refused)
		}
	})
}

// A task that leaves in order hands over the resources that the others share. Resources that are lost with a task get a
// new home.
func TestHomesOfTasksThatEnd(t *testing.T) {
	for _, inOrder := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			sim := simulated(t, 3)
			const names = 6
			value := map[string]int64{}
			for i := range names {
				name := fmt.Sprint("x", i)
				tallyOn(t, sim.tasks[i%3], "", name, nil).begin().is(1)
				tallyOn(t, sim.tasks[(i+1)%3], "", name, nil).is(2)
				value[name] = 2
			}
			for gone := range 2 {
				before := sharedOn(t, sim.tasks[gone])
				if len(before) == 0 {
					t.Fatalf("task %d shares nothing", gone)
				}
				if inOrder {
					stop(t, sim.tasks[gone])
				} else {
					sim.kill(gone)
				}
				pass(20 * time.Second) // gossip reaches all tasks
				for i := range names {
					name := fmt.Sprint("x", i)
					lost := !inOrder && slices.Contains(before, name)
					for j, s := range sim.tasks[gone+1:] {
						c := tallyOn(t, s, "", name, nil)
						if lost && j == 0 {
							c.is(0)
							c.begin()
							value[name] = 0
						}
						value[name]++
						c.is(value[name])
					}
				}
			}
		})
	}
}

// A master logs, once for each resource, that its sessions share it with those of another master. The master that made it does not.
func TestSharingIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs [2]logLines
		all := simulatedEach(t, 2, func(task int) []Option { return []Option{WithLogger(slog.New(slog.NewTextHandler(&logs[task], nil)))} }).tasks
		tallyOn(t, all[0], "", "x", nil).begin().is(1)
		tallyOn(t, all[0], "/cpu:0", "own", nil).begin().is(1)
		for range 2 {
			tallyOn(t, all[1], "", "x", nil).begin().is(1)
			tallyOn(t, all[1], "/cpu:0", "own", nil).begin().is(1)
			tallyOn(t, all[0], "", "x", nil).begin().is(1)
		}
		for task, want := range []int{0, 1} {
			if got := logs[task].count("is shared with sessions of another master", "name=x", "kind=Variable", "master="+all[0].Task()); got != want {
				t.Errorf("task %d logs %d times that x is shared, want %d", task, got, want)
			}
			if got := logs[task].count("is shared with sessions of another master"); got != want {
				t.Errorf("task %d logs %d times that something is shared, want %d", task, got, want)
			}
		}
	})
}

// logLines is a log that tests count lines of.
type logLines struct {
	mu   sync.Mutex
	text []string
}

func (l *logLines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, string(line))
	return len(line), nil
}

// count returns how many lines have all of the words.
func (l *logLines) count(words ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.text {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			n++
		}
	}
	return n
}

// Open sessions follow the resources of a task that leaves in order: whether they have used them before or not, and while it leaves. If it does not
// leave in order, they fail.
func TestOpenSessionsFollow(t *testing.T) {
	for _, inOrder := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			sim := simulated(t, 4)
			tallyOn(t, sim.tasks[0], "", "x", nil).begin().is(1)
			used, unused := tallyOn(t, sim.tasks[1], "", "x", nil), tallyOn(t, sim.tasks[2], "", "x", nil)
			other := tallyOn(t, sim.tasks[3], "", "y", nil).begin()
			used.is(2)
			if !inOrder {
				sim.kill(0)
				pass(20 * time.Second)
				for _, c := range []*tally{used, unused} {
					if _, err := Fetch[int64](deadline(t), c.session, nil, c.count); status.CodeOf(err) != status.Unavailable {
						t.Errorf("a session goes on with a resource that is lost: %v", err)
					}
				}
				other.is(1)
				return
			}
			left := make(chan struct{})
			go func() {
				defer close(left)
				stop(t, sim.tasks[0])
			}()
			n := int64(2)
			for over := false; !over && !t.Failed(); {
				select {
				case <-left:
					over = true
				default:
				}
				n++
				used.is(n)
				pass(time.Millisecond) // or no time would pass
			}
			n++
			unused.is(n)
			other.is(1)
			pass(20 * time.Second)
			home := 1 + slices.IndexFunc(sim.tasks[1:], func(s *Server) bool { return slices.Contains(sharedOn(t, s), "x") })
			stop(t, sim.tasks[home]) // the next home leaves, too
			n++
			if home == 1 {
				unused.is(n)
			} else {
				used.is(n)
			}
		})
	}
}

// What cannot be handed over is logged by its name, and an open session that uses it fails, but goes on with everything else.
func TestWhatIsLostWithATask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logLines
		sim := simulatedEach(t, 3, func(task int) []Option {
			if task > 0 {
				return nil
			}
			return []Option{WithLogger(slog.New(slog.NewTextHandler(&log, nil)))}
		})
		reader := func(s *Server) (*Session, op.Output) {
			g := op.NewScope()
			read := op.ReaderNumRecordsProducedV2(g, op.TextLineReaderV2(g, attr.SharedName("r")))
			def, err := g.GraphDef()
			if err != nil {
				t.Fatal(err)
			}
			session, err := s.NewSession(deadline(t), def, nil)
			if err != nil {
				t.Fatal(err)
			}
			return session, read
		}
		tallyOn(t, sim.tasks[0], "", "x", nil).begin().is(1)
		count := tallyOn(t, sim.tasks[1], "", "x", nil)
		for _, s := range sim.tasks[:2] {
			session, read := reader(s)
			if n, err := Fetch[int64](deadline(t), session, nil, read); err != nil || n != 0 {
				t.Fatalf("%d, %v", n, err)
			}
		}
		session, read := reader(sim.tasks[1])
		stop(t, sim.tasks[0])
		if _, err := Fetch[int64](deadline(t), session, nil, read); status.CodeOf(err) != status.Unavailable {
			t.Errorf("a session goes on with a reader that is lost: %v", err)
		}
		count.is(2)
		if n := log.count("is lost with this task"); n != 1 || log.count("is lost with this task", "kind=Reader", "name=r", "reason=") != 1 {
			t.Errorf("task 0 has logged %d resources that are lost", n)
		}
	})
}

// A directory's decisions outlive its process: the other tasks know them.
func TestHomesOutliveTheirDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := simulated(t, 4)
		const names = 16
		for i := range names {
			tallyOn(t, sim.tasks[3], "", fmt.Sprint("x", i), nil).begin().is(1) // all live on task 3
		}
		want := int64(1)
		for gone := range 3 {
			sim.kill(gone)
			pass(20 * time.Second)
			sim.restart(t, gone) // it knows nothing
			pass(20 * time.Second)
			want++
			for i := range names {
				tallyOn(t, sim.tasks[(gone+i)%3], "", fmt.Sprint("x", i), nil).is(want)
			}
		}
		if got := sharedOn(t, sim.tasks[3]); len(got) != names {
			t.Errorf("task 3 shares %q", got)
		}
	})
}
