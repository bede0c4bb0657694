package main

import (
	"github.com/spf13/pflag"
	"github.com/troupe-run/troupe"
)

// httpFlags say where metrics, probes and the state of the cluster are served over HTTP.
type httpFlags struct {
	address string
	hosts   []string
	pprof   bool
	queues  int
}

func (f *httpFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.address, "http", "", "host:port to serve metrics, probes, the dashboard and the cluster's state at, over HTTP (without a host: the loopback interface; port 0: a free one)")
	flags.StringSliceVar(&f.hosts, "http-host", nil, "further names under which the HTTP endpoint may be called")
	flags.BoolVar(&f.pprof, "http-pprof", false, "serve profiles of the process at /debug/pprof/")
	flags.IntVar(&f.queues, "http-queues", 0, "most queues of a task that have metrics of their own (0: 100)")
}

// options are what the flags say of a server.
func (f *httpFlags) options() (all []troupe.Option) {
	if f.address != "" {
		all = append(all, troupe.WithHTTP(f.address))
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
