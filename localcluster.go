package troupe

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/quiet"
	"github.com/troupe-run/troupe/remote/member"
	"github.com/troupe-run/troupe/remote/spec"
)

// LocalCluster is a cluster whose tasks all run in this process, each as a Server with a port of its own. It is for
// tests and for trying things out: the tasks share the process's cores. All methods may be called concurrently.
type LocalCluster struct {
	spec    *spec.Spec
	servers []*Server
	watched *watched // nil without an HTTP endpoint
}

// maxTasks bounds the tasks of one process: each has a port, goroutines and memory of its own.
const maxTasks = 256

// tries is how often free ports are looked for: another process may take a port after it is found and before it is
// bound.
const tries = 5

// NewLocalCluster starts a cluster with the given number of tasks for each job:
//
//	cluster, err := troupe.NewLocalCluster(ctx, map[string]int{"ps": 1, "worker": 2})
//
// The options apply to all tasks. WithLocalPorts sets where the tasks listen; without it they get free ports of 127.0.0.1. Without
// WithLogger, only warnings and errors go to the default logger: a program that tries something out is not interested in each task's start
// and end. ctx bounds the start, not the cluster's life. After an error no task remains.
func NewLocalCluster(ctx context.Context, jobs map[string]int, opts ...Option) (*LocalCluster, error) {
	const each = "NewLocalCluster gives each task its own"
	o, err := collect("NewLocalCluster", opts, map[string]string{
		"WithJob": each, "WithTask": each, "WithBind": each + " address; see WithLocalPorts", "WithStart": "its tasks are started together",
	})
	if err != nil {
		return nil, err
	}
	o.start = false
	o.logWarnings()
	for try := 1; ; try++ {
		c, err := startLocal(ctx, jobs, o)
		// UNKNOWN is the code of a port that cannot be bound.
		if err == nil || o.firstPort != 0 || try == tries || status.CodeOf(err) != status.Unknown {
			return c, err
		}
	}
}

// logWarnings makes a server that a program tries something out with log only warnings and errors, unless the program gives it a logger.
func (o *options) logWarnings() {
	if !o.ownLog {
		o.log = quiet.Warnings(o.log)
	}
}

func startLocal(ctx context.Context, jobs map[string]int, o *options) (*LocalCluster, error) {
	declared, err := o.declareLocal(jobs)
	if err != nil {
		return nil, err
	}
	c := &LocalCluster{spec: declared}
	shared, err := o.watch(declared.Tasks()...)
	if err != nil {
		return nil, err
	}
	c.watched, o.http.shared = shared, shared
	o.together = &member.Together{}
	// All ports are bound before the first task serves: every task finds the others, and no outgoing connection takes
	// the port of a later task.
	for _, t := range declared.Tasks() {
		s, err := start(ctx, declared.Proto(), o.withTask(t.Job, t.Index))
		if err != nil {
			return nil, c.abandon(ctx, err)
		}
		c.servers = append(c.servers, s)
	}
	if err := c.each(func(s *Server) error { return s.Start(ctx) }); err != nil {
		return nil, c.abandon(ctx, err)
	}
	return c, nil
}

// abandon stops a cluster that failed to start and returns the error to report.
func (c *LocalCluster) abandon(ctx context.Context, err error) error {
	err = c.watched.abandon(err)
	if e := c.Stop(context.WithoutCancel(ctx)); e != nil {
		return status.Errorf(status.CodeOf(err), "%w (and its cluster failed to stop: %v)", err, e)
	}
	return err
}

// Stop stops all tasks, as Server.Stop does, and returns the first error in the order of the tasks.
func (c *LocalCluster) Stop(ctx context.Context) error {
	return c.each(func(s *Server) error { return s.Stop(ctx) })
}

// each calls do for all servers concurrently and returns the first error in their order.
func (c *LocalCluster) each(do func(*Server) error) error {
	errs := make([]error, len(c.servers))
	var wg sync.WaitGroup
	for i, s := range c.servers {
		wg.Go(func() { errs[i] = do(s) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Servers returns the tasks' servers, by job name, then task.
func (c *LocalCluster) Servers() []*Server { return slices.Clone(c.servers) }

// Server returns the server of a task, or nil if there is no such task.
func (c *LocalCluster) Server(job string, task int) *Server {
	name := spec.TaskName(job, task)
	for _, s := range c.servers {
		if s.Task() == name {
			return s
		}
	}
	return nil
}

// String returns the cluster in the form of the flag --cluster: ps=127.0.0.1:2222;worker=127.0.0.1:2223.
func (c *LocalCluster) String() string { return c.spec.String() }

// declareLocal returns the cluster's spec, with an address for each task.
func (o *options) declareLocal(jobs map[string]int) (*spec.Spec, error) {
	count := 0
	for job, n := range jobs {
		if count += n; n < 1 || n > maxTasks || count > maxTasks {
			return nil, status.InvalidArgumentf("Job %s has %d tasks; a job has at least one task, and a process at most %d", job, n, maxTasks)
		}
	}
	var ports []int
	if o.firstPort == 0 {
		var err error
		if ports, err = freePorts(o.localHost, count); err != nil {
			return nil, status.InvalidArgumentf("No free ports are available at %s: %v", o.localHost, err)
		}
	} else {
		for i := range count {
			ports = append(ports, o.firstPort+i)
		}
	}
	declared := map[string]map[int]string{}
	for _, job := range slices.Sorted(maps.Keys(jobs)) {
		declared[job] = map[int]string{}
		for i := range jobs[job] {
			declared[job][i] = net.JoinHostPort(o.localHost, strconv.Itoa(ports[0]))
			ports = ports[1:]
		}
	}
	return spec.New(declared)
}

// freePorts returns n free ports of a host. They are held until all are found, so they differ.
func freePorts(host string, n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
