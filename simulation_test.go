package troupe

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/network"
	"github.com/troupe-run/troupe/internal/network/simnet"
)

// simulation is a cluster on an in-memory network, in the time of a synctest bubble.
type simulation struct {
	net     *simnet.Net
	tasks   []*Server
	cluster ClusterSpec
	specs   func(task int) SparseClusterSpec // each task's own; nil means cluster
	options func(task int) []Option          // nil means none
	places  [][]Option                       // the options that say which task each is
	process map[*Server]*simnet.Process
	killed  map[*Server]bool
}

// simulated starts tasks of the job w, each on a host of its own. It must be called in a synctest bubble.
func simulated(t *testing.T, tasks int, opts ...Option) *simulation {
	t.Helper()
	return simulatedEach(t, tasks, func(int) []Option { return opts })
}

// simulatedEach is simulated with options for each task.
func simulatedEach(t *testing.T, tasks int, options func(task int) []Option) *simulation {
	t.Helper()
	s := &simulation{cluster: ClusterSpec{"w": nil}, options: options}
	for i := range tasks {
		s.cluster["w"] = append(s.cluster["w"], fmt.Sprintf("10.0.0.%d:2222", i+1))
	}
	s.startAll(t)
	return s
}

// startAll starts the tasks of a cluster, in the order of its jobs' names. Each has a host of its own: 10.0.0.1 and so on.
func (s *simulation) startAll(t *testing.T) []*Server {
	t.Helper()
	t.Cleanup(func() { pass(time.Minute) }) // gossip's probes outlive the tasks by their timeouts
	if s.net == nil {
		s.net = simnet.New(1)
	}
	s.process, s.killed = map[*Server]*simnet.Process{}, map[*Server]bool{}
	for _, job := range slices.Sorted(maps.Keys(s.cluster)) {
		for i := range s.cluster[job] {
			s.places = append(s.places, []Option{WithJob(job), WithTask(i)})
		}
	}
	for i := range s.places {
		s.tasks = append(s.tasks, s.bind(t, i))
	}
	for _, task := range s.tasks {
		if err := task.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return s.tasks
}

// host returns the host on which a task runs.
func (s *simulation) host(task int) *simnet.Host { return s.net.Host(fmt.Sprintf("10.0.0.%d", task+1)) }

// bind makes a task that does not serve yet.
func (s *simulation) bind(t *testing.T, task int) *Server {
	t.Helper()
	process := s.host(task).Process()
	options := append(slices.Clone(s.places[task]), WithStart(false), silent, onNetwork(process))
	if s.options != nil {
		options = append(options, s.options(task)...)
	}
	server, err := s.server(t, task, options)
	if err != nil {
		t.Fatal(err)
	}
	s.process[server] = process
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil && !s.killed[server] {
			t.Errorf("%s did not stop in order: %v", server.Task(), err)
		}
	})
	return server
}

// onNetwork puts a server on a network other than the machine's.
func onNetwork(n network.Network) Option {
	return option("onNetwork", func(o *options) { o.network = n })
}

func (s *simulation) server(t *testing.T, task int, options []Option) (*Server, error) {
	if s.specs != nil {
		return NewServer(t.Context(), s.specs(task), options...)
	}
	return NewServer(t.Context(), s.cluster, options...)
}

// kill ends a task. To the others it looks as if its process had ended.
func (s *simulation) kill(task int) {
	s.killed[s.tasks[task]] = true
	s.process[s.tasks[task]].Kill()
}

// restart restarts a task that was killed or has stopped.
func (s *simulation) restart(t *testing.T, task int) {
	t.Helper()
	s.tasks[task] = s.bind(t, task)
	if err := s.tasks[task].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// pass lets simulated time pass.
func pass(d time.Duration) { <-time.After(d) }
