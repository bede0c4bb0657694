package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/command/flagset"
)

// uiFlags are the flags of HTTP of commands for trying out a cluster, which can open the dashboard.
type uiFlags struct {
	http        flagset.HTTP
	ui, browser bool
}

func (f *uiFlags) add(flags *pflag.FlagSet) {
	f.http.Add(flags)
	flags.BoolVar(&f.ui, "ui", false, "serve the dashboard at a free port of the loopback interface, or at --http, and open it")
	flags.BoolVar(&f.browser, "ui-browser", true, "with --ui, open the dashboard in a browser where the command runs in a terminal of a desktop")
}

// show opens the dashboard in a browser, if requested and available. The address has been printed, so a missing browser is not
// an error.
func (f *uiFlags) show(ctx context.Context, cmd *cobra.Command, address string) {
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
		go func() { _ = open.Wait() }() // it ends when the browser has the address, or with ctx
	}
}

// options returns the server's options from the flags.
func (f *uiFlags) options() []troupe.Option {
	if f.ui && f.http.Address == "" {
		f.http.Address = "127.0.0.1:0"
	}
	return f.http.Options()
}
