package troupe

import (
	"context"
	"os"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/observe"
	"github.com/troupe-run/troupe/remote/observe/ui"
	"github.com/troupe-run/troupe/remote/spec"
)

// httpOptions are those of the HTTP endpoint.
type httpOptions struct {
	address string
	hosts   []string
	pprof   bool
	queues  int
	shared  *watched // of several servers; nil where the server has one of its own
}

// WithHTTP serves metrics, probes and the state of the cluster over HTTP, at host:port; an empty host is the loopback interface, and
// port 0 a free one. A LocalCluster has one endpoint for all of its tasks. Where the server has certificates, tokens or a policy,
// callers have to show who they are, and need the right to list; see docs/observability.md.
func WithHTTP(address string) Option {
	return option("WithHTTP", func(o *options) { o.http.address = address })
}

// WithHTTPHosts adds names under which the HTTP endpoint may be called. It always answers under addresses, localhost, the
// name of the machine, and the hosts of its own and the task's addresses. It refuses other names, since a page in a browser could have them
// resolve to the endpoint.
func WithHTTPHosts(names ...string) Option {
	return option("WithHTTPHosts", func(o *options) { o.http.hosts = append(o.http.hosts, names...) })
}

// WithHTTPPprof with true adds /debug/pprof/ to the HTTP endpoint: profiles of the process. It needs the right to profile
// or, without certificates, tokens and a policy, an endpoint on the loopback interface.
func WithHTTPPprof(pprof bool) Option {
	return option("WithHTTPPprof", func(o *options) { o.http.pprof = pprof })
}

// WithHTTPQueues bounds the queues of each task that have metrics of their own: those with the most elements. The default is 100.
func WithHTTPQueues(n int) Option {
	return option("WithHTTPQueues", func(o *options) {
		if n < 1 && o.err == nil {
			o.err = status.InvalidArgumentf("WithHTTPQueues needs a positive number, not %d", n)
		}
		o.http.queues = n
	})
}

// watched are the servers of an HTTP endpoint; nil for none. It ends with the last server that was declared.
type watched struct {
	tasks    *observe.Tasks
	endpoint *observe.Endpoint
}

// watch opens the endpoint of the options for tasks that are declared later; nil if there is none.
func (o *options) watch(tasks ...spec.Task) (*watched, error) {
	if o.http.address == "" {
		if o.http.pprof || o.http.hosts != nil || o.http.queues != 0 {
			return nil, status.InvalidArgumentf("options of the HTTP endpoint are given, and it has no address: add WithHTTP (--http)")
		}
		return nil, nil //nolint:nilnil // no option, no endpoint
	}
	hosts := slices.Clone(o.http.hosts)
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	w := &watched{tasks: &observe.Tasks{}}
	for _, t := range tasks {
		w.tasks.Declare(t.Name())
		if host, _, err := spec.SplitAddress(t.Address); err == nil {
			hosts = append(hosts, host)
		}
	}
	guard := o.guard()
	if guard != nil {
		guard.OnRefusal(w.tasks.Refused)
	}
	var err error
	w.endpoint, err = observe.Listen(observe.Config{Address: o.http.address, Tasks: w.tasks, Hosts: hosts, Pprof: o.http.pprof, Queues: o.http.queues,
		Credentials: o.credentials, Guard: guard, UI: ui.Handler(w.tasks.See, ui.WithGraph(w.tasks.Graph), ui.WithTrace(w.tasks.Trace), ui.WithActs(w.tasks)), Log: o.log})
	return w, err
}

// serve tells that a server serves.
func (w *watched) serve(s *Server) {
	if w != nil {
		w.tasks.Serve(s.Task(), s.node)
	}
}

// leave tells that a server begins to stop.
func (w *watched) leave(s *Server) {
	if w != nil {
		w.tasks.Leave(s.Task())
	}
}

// remove tells that a server has stopped. The last one ends the endpoint.
func (w *watched) remove(task string) error {
	if w == nil || !w.tasks.Remove(task) {
		return nil
	}
	return w.endpoint.Stop(context.Background()) // which bounds it
}

// abandon ends the endpoint of servers that did not come up, and gives the error to report.
func (w *watched) abandon(err error) error {
	if w == nil {
		return err
	}
	if e := w.endpoint.Stop(context.Background()); e != nil {
		return status.Errorf(status.CodeOf(err), "%w (and the HTTP endpoint did not end in order: %v)", err, e)
	}
	return err
}

// HTTP is where the server's HTTP endpoint is found, such as http://127.0.0.1:9090/; empty without WithHTTP.
func (s *Server) HTTP() string {
	if s.watched == nil {
		return ""
	}
	return s.watched.endpoint.URL()
}
