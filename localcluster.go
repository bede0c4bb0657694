package troupe

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/spec"
)

// LocalCluster is a cluster whose tasks all run in this process, as servers of their own on ports of one address: for
// trying things out and for tests. What one of them computes slows the others.
type LocalCluster struct {
	spec    *spec.Spec
	servers []*Server
}

// maxTasks bounds the tasks of one process: each has a port, goroutines and memory of its own.
const maxTasks = 256

// tries is how often free ports are looked for: between being found and being bound a port may be
// taken by somebody else.
const tries = 5

// NewLocalCluster starts a cluster that has so many tasks of each job:
//
//	cluster, err := NewLocalCluster(map[string]int{"ps": 1, "worker": 2})
//
// The options are for all tasks. WithLocalPorts says where they are; else they have free ports of 127.0.0.1. On an
// error no task is left.
func NewLocalCluster(jobs map[string]int, opts ...Option) (*LocalCluster, error) {
	o := defaults()
	for _, opt := range opts {
		opt(&o)
	}
	for try := 1; ; try++ {
		c, err := startLocal(jobs, &o, opts)
		// UNKNOWN is the code of a port that cannot be bound.
		if err == nil || o.firstPort != 0 || try == tries || status.CodeOf(err) != status.Unknown {
			return c, err
		}
	}
}

func startLocal(jobs map[string]int, o *options, opts []Option) (*LocalCluster, error) {
	declared, err := o.declareLocal(jobs)
	if err != nil {
		return nil, err
	}
	c := &LocalCluster{spec: declared}
	// All ports are bound before the first task serves: none misses another, and no connection
	// of one takes the port of the next.
	for _, t := range declared.Tasks() {
		own := append(opts[:len(opts):len(opts)], WithJob(t.Job), WithTask(t.Index), WithStart(false))
		s, err := NewServer(declared.Proto(), own...)
		if err != nil {
			return nil, c.abandon(err)
		}
		c.servers = append(c.servers, s)
	}
	if err := c.each(func(s *Server) error { return s.Start(context.Background()) }); err != nil {
		return nil, c.abandon(err)
	}
	return c, nil
}

// abandon stops a cluster that did not come up and gives the error to report.
func (c *LocalCluster) abandon(err error) error {
	if e := c.Stop(context.Background()); e != nil {
		return status.Errorf(status.CodeOf(err), "%v (and its cluster did not stop: %v)", err, e)
	}
	return err
}

// Stop stops all tasks; the error is the first one's.
func (c *LocalCluster) Stop(ctx context.Context) error {
	return c.each(func(s *Server) error { return s.Stop(ctx) })
}

// each does the same with all servers at once; the error is the first one's.
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

// Servers are the tasks' servers, by job name, then task.
func (c *LocalCluster) Servers() []*Server { return slices.Clone(c.servers) }

// Server is that of a task; nil where there is no such task.
func (c *LocalCluster) Server(job string, task int) *Server {
	name := spec.TaskName(job, task)
	for _, s := range c.servers {
		if s.Task() == name {
			return s
		}
	}
	return nil
}

// String is the cluster in the form of the flag --cluster: ps=127.0.0.1:2222;worker=127.0.0.1:2223.
func (c *LocalCluster) String() string { return c.spec.String() }

// declareLocal gives each task its address.
func (o *options) declareLocal(jobs map[string]int) (*spec.Spec, error) {
	count := 0
	for job, n := range jobs {
		if count += n; n < 1 || n > maxTasks || count > maxTasks {
			return nil, status.InvalidArgumentf("Job %s has %d tasks; a job has at least one, and a process no more than %d", job, n, maxTasks)
		}
	}
	var ports []int
	if o.firstPort == 0 {
		var err error
		if ports, err = freePorts(o.localHost, count); err != nil {
			return nil, status.InvalidArgumentf("No free ports can be had at %s: %v", o.localHost, err)
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

// freePorts finds ports of an address that nobody listens on. They are held until all are found,
// so that they differ.
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
