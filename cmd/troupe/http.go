package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/troupe-run/troupe"
)

// httpFlags say where metrics, probes and the state of the cluster are served over HTTP.
type httpFlags struct {
	address string
	hosts   []string
	pprof   bool
	queues  int

	ui, browser bool
}

func (f *httpFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.address, "http", "", "host:port to serve metrics, probes, the dashboard and the cluster's state at, over HTTP (without a host: the loopback interface; port 0: a free one)")
	flags.StringSliceVar(&f.hosts, "http-host", nil, "further names under which the HTTP endpoint may be called")
	flags.BoolVar(&f.pprof, "http-pprof", false, "serve profiles of the process at /debug/pprof/")
	flags.IntVar(&f.queues, "http-queues", 0, "most queues of a task that have metrics of their own (0: 100)")
}

// addUI adds the flags of commands that people try a cluster with.
func (f *httpFlags) addUI(flags *pflag.FlagSet) {
	flags.BoolVar(&f.ui, "ui", false, "serve the dashboard at a free port of the loopback interface, or at --http, and open it")
	flags.BoolVar(&f.browser, "ui-browser", true, "with --ui, open the dashboard in a browser where the command runs in a terminal of a desktop")
}

// show opens the dashboard in a browser, if people asked for it and there is one. The address has been printed: that no browser comes is
// no error.
func (f *httpFlags) show(ctx context.Context, cmd *cobra.Command, address string) {
	file, _ := cmd.OutOrStdout().(*os.File)
	if !f.ui || !f.browser || !isTerminal(file) {
		return
	}
	opener := "xdg-open"
	switch {
	case runtime.GOOS == "darwin":
		opener = "open"
	case os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "":
		return
	}
	path, err := exec.LookPath(opener)
	if err != nil {
		return
	}
	open := exec.CommandContext(ctx, path, address)
	if open.Start() == nil {
		go func() { _ = open.Wait() }() // it ends when the browser has been told, or with ctx
	}
}

// options are what the flags say of a server.
func (f *httpFlags) options() (all []troupe.Option) {
	if f.ui && f.address == "" {
		f.address = "127.0.0.1:0"
	}
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
