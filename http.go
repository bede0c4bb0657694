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

// httpOptions are the options of the HTTP endpoint.
type httpOptions struct {
	address string
	hosts   []string
	pprof   bool
	queues  int
	shared  *watched // the endpoint of several servers; nil if the server has its own
	// listen opens the endpoint. Only WithHTTP sets it, so that the linker leaves the endpoint and its pages out of programs that have none. With
	// the templates of the pages, it would also keep all exported methods of all types, which templates call by name.
	listen func(observe.Config) (*observe.Endpoint, error)
}

// WithHTTP serves metrics, probes and the state of the cluster over HTTP, at host:port. An empty host means the loopback interface, and
// port 0 a free port. A LocalCluster has one endpoint for all of its tasks. If the server has certificates, tokens or a policy, callers
// must authenticate and need the right to list; see docs/observability.md.
func WithHTTP(address string) Option {
	return option("WithHTTP", func(o *options) { o.http.address, o.http.listen = address, listenWithPages })
}

// listenWithPages opens an endpoint that has pages for people, too.
func listenWithPages(c observe.Config) (*observe.Endpoint, error) {
	c.UI = ui.Handler(c.Tasks.See, ui.WithGraph(c.Tasks.Graph), ui.WithTrace(c.Tasks.Trace), ui.WithActs(c.Tasks))
	return observe.Listen(c)
}

// WithHTTPHosts adds host names that requests to the HTTP endpoint may use. IP addresses, localhost, the machine's name, and the hosts of
// the endpoint's and the task's addresses are always allowed. Other names are refused, since a page in a browser could make them resolve to
// the endpoint.
func WithHTTPHosts(names ...string) Option {
	return option("WithHTTPHosts", func(o *options) { o.http.hosts = append(o.http.hosts, names...) })
}

// WithHTTPPprof with true adds /debug/pprof/ to the HTTP endpoint: profiles of the process. It needs the right to profile
// or, without certificates, tokens and a policy, an endpoint on the loopback interface.
func WithHTTPPprof(pprof bool) Option {
	return option("WithHTTPPprof", func(o *options) { o.http.pprof = pprof })
}

// WithHTTPQueues limits how many queues of each task have metrics of their own: those with the most elements do. The default is 100.
func WithHTTPQueues(n int) Option {
	return option("WithHTTPQueues", func(o *options) {
		if n < 1 && o.err == nil {
			o.err = status.InvalidArgumentf("WithHTTPQueues needs a positive number, not %d", n)
		}
		o.http.queues = n
	})
}

// watched is an HTTP endpoint and its servers; nil if there is no endpoint. It ends with the last of the declared
// servers.
type watched struct {
	tasks    *observe.Tasks
	endpoint *observe.Endpoint
}

// checkHTTP rejects an address that is none, and options of an endpoint that is not there.
func (o *options) checkHTTP() error {
	if o.http.address != "" {
		return observe.CheckAddress(o.http.address)
	}
	if o.http.pprof || o.http.hosts != nil || o.http.queues != 0 {
		return status.InvalidArgumentf("options of the HTTP endpoint are given, and it has no address: add WithHTTP (--http)")
	}
	return nil
}

// watch opens the endpoint of the options and declares its tasks, which serve later. It returns nil if there is no
// endpoint.
func (o *options) watch(tasks ...spec.Task) (*watched, error) {
	if err := o.checkHTTP(); err != nil || o.http.address == "" {
		return nil, err
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
	w.endpoint, err = o.http.listen(observe.Config{Address: o.http.address, Tasks: w.tasks, Hosts: hosts, Pprof: o.http.pprof, Queues: o.http.queues,
		Credentials: o.credentials, Guard: guard, Log: o.log})
	return w, err
}

// serve records that a server serves.
func (w *watched) serve(s *Server) {
	if w != nil {
		w.tasks.Serve(s.Task(), s.server)
	}
}

// leave records that a server begins to stop.
func (w *watched) leave(s *Server) {
	if w != nil {
		w.tasks.Leave(s.Task())
	}
}

// remove records that a server has stopped. The last one ends the endpoint.
func (w *watched) remove(task string) error {
	if w == nil || !w.tasks.Remove(task) {
		return nil
	}
	return w.endpoint.Stop(context.Background()) // Stop has a time limit of its own
}

// abandon stops the endpoint of servers that failed to start, and returns the error to report.
func (w *watched) abandon(err error) error {
	if w == nil {
		return err
	}
	if e := w.endpoint.Stop(context.Background()); e != nil {
		return status.Errorf(status.CodeOf(err), "%w (and the HTTP endpoint did not end in order: %v)", err, e)
	}
	return err
}

// HTTP returns the URL of the server's HTTP endpoint, such as http://127.0.0.1:9090/. It is empty without WithHTTP.
func (s *Server) HTTP() string {
	if s.watched == nil {
		return ""
	}
	return s.watched.endpoint.URL()
}
