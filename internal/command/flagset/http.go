package flagset

import (
	"github.com/spf13/pflag"
	"github.com/troupe-run/troupe"
)

// HTTP are the flags that say where metrics, probes and the state of the cluster are served over HTTP.
type HTTP struct {
	Address string
	hosts   []string
	pprof   bool
	queues  int
}

// mostQueues is more than a scraper of metrics takes.
const mostQueues = 1_000_000

// Add adds the flags.
func (f *HTTP) Add(flags *pflag.FlagSet) {
	flags.StringVar(&f.Address, "http", "", "host:port to serve metrics, probes, the dashboard and the cluster's state at, over HTTP (without a host: the loopback interface; port 0: a free one)")
	flags.StringSliceVar(&f.hosts, "http-host", nil, "further names under which the HTTP endpoint may be called")
	flags.BoolVar(&f.pprof, "http-pprof", false, "serve profiles of the process at /debug/pprof/")
	Int(flags, &f.queues, "http-queues", 0, UpTo(mostQueues), "most queues of a task that have metrics of their own (0: 100)")
}

// Options returns the server's options from the flags.
func (f *HTTP) Options() (all []troupe.Option) {
	if f.Address != "" {
		all = append(all, troupe.WithHTTP(f.Address))
	}
	if len(f.hosts) > 0 {
		all = append(all, troupe.WithHTTPHosts(f.hosts...))
	}
	if f.pprof {
		all = append(all, troupe.WithHTTPPprof(true))
	}
	if f.queues != 0 {
		all = append(all, troupe.WithHTTPQueues(f.queues))
	}
	return all
}
