// Package local runs all tasks of a cluster in this process, on ports of one address.
package local

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/spec"
)

// Job is a job's name and how many tasks it has.
type Job struct {
	Name  string
	Tasks int
}

// Plan says which cluster to start where.
type Plan struct {
	Jobs []Job
	// Host is the address to bind. Port is the first task's, the others follow; 0 stands for free
	// ones.
	Host string
	Port int
}

// Cluster is a cluster that runs in this process.
type Cluster struct {
	Spec    *spec.Spec
	Servers []*troupe.Server // by job name, then task
}

// maxTasks bounds the tasks of one process: each has a port, goroutines and memory of its own.
const maxTasks = 256

// ParseTasks reads how many tasks each job has: ps=1,worker=2.
func ParseTasks(text string) ([]Job, error) {
	var jobs []Job
	total := 0
	for part := range strings.SplitSeq(text, ",") {
		name, count, ok := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.Atoi(count)
		if !ok || err != nil || n < 1 {
			return nil, fmt.Errorf("%q does not say how many tasks a job has, as in ps=1,worker=2", part)
		}
		if total += n; total > maxTasks || n > maxTasks {
			return nil, fmt.Errorf("%q asks for more than %d tasks in one process", text, maxTasks)
		}
		jobs = append(jobs, Job{name, n})
	}
	return jobs, nil
}

// tries is how often free ports are looked for: between being found and being bound a port may be
// taken by somebody else.
const tries = 5

// Start starts all tasks. On an error none is left.
func Start(plan Plan, opts ...troupe.Option) (*Cluster, error) {
	for try := 1; ; try++ {
		c, err := start(plan, opts)
		// UNKNOWN is the code of a port that cannot be bound.
		if err == nil || plan.Port != 0 || try == tries || status.CodeOf(err) != status.Unknown {
			return c, err
		}
	}
}

func start(plan Plan, opts []troupe.Option) (*Cluster, error) {
	declared, err := declare(plan)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Spec: declared}
	// All ports are bound before the first task serves: none misses another, and no connection
	// of one takes the port of the next.
	for _, t := range declared.Tasks() {
		own := append(opts[:len(opts):len(opts)], troupe.WithJob(t.Job), troupe.WithTask(t.Index), troupe.WithStart(false))
		s, err := troupe.NewServer(declared.Proto(), own...)
		if err != nil {
			return nil, c.abandon(err)
		}
		c.Servers = append(c.Servers, s)
	}
	errs := make([]error, len(c.Servers))
	var wg sync.WaitGroup
	for i, s := range c.Servers {
		wg.Go(func() { errs[i] = s.Start(context.Background()) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, c.abandon(err)
		}
	}
	return c, nil
}

// abandon stops a cluster that did not come up and gives the error to report.
func (c *Cluster) abandon(err error) error {
	if e := c.Stop(context.Background()); e != nil {
		return status.Errorf(status.CodeOf(err), "%v (and its cluster did not stop: %v)", err, e)
	}
	return err
}

// Stop stops all tasks; the error is the first one's.
func (c *Cluster) Stop(ctx context.Context) error {
	errs := make([]error, len(c.Servers))
	var wg sync.WaitGroup
	for i, s := range c.Servers {
		wg.Go(func() { errs[i] = s.Stop(ctx) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Target is the target of a task.
func (c *Cluster) Target(job string, index int) string {
	name := spec.TaskName(job, index)
	for _, s := range c.Servers {
		if s.Task() == name {
			return s.Target()
		}
	}
	return ""
}

// declare gives each task its address.
func declare(plan Plan) (*spec.Spec, error) {
	count := 0
	for _, j := range plan.Jobs {
		count += j.Tasks
	}
	var ports []int
	if plan.Port == 0 {
		var err error
		if ports, err = freePorts(plan.Host, count); err != nil {
			return nil, status.InvalidArgumentf("No free ports can be had at %s: %v", plan.Host, err)
		}
	} else {
		for i := range count {
			ports = append(ports, plan.Port+i)
		}
	}
	jobs := map[string]map[int]string{}
	for _, j := range plan.Jobs {
		if jobs[j.Name] != nil {
			return nil, status.InvalidArgumentf("The job %s is there twice", j.Name)
		}
		jobs[j.Name] = map[int]string{}
		for i := range j.Tasks {
			jobs[j.Name][i] = net.JoinHostPort(plan.Host, strconv.Itoa(ports[0]))
			ports = ports[1:]
		}
	}
	return spec.New(jobs)
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
