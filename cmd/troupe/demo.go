package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/cmd/troupe/internal/demo"
	"github.com/troupe-run/troupe/internal/command"
	"github.com/troupe-run/troupe/internal/command/daemon"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/command/flagset"
)

func newDemo() *cobra.Command {
	var timeout time.Duration
	var web uiFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a cluster at work, and end",
		Long: `Demo starts a cluster of three tasks (ps=1, worker=2) in this process, on free ports of the loopback
interface, and uses it as clients do, over gRPC: a variable shared through two masters, containers
and reset, a producer and a consumer at the ends of a queue, and training on a parameter server. It
checks what it shows and exits with 1 if anything is wrong. With --ui, the cluster then trains on until it is
interrupted, and the dashboard shows it.`,
		Example: "  troupe demo\n  troupe demo --ui",
		Args:    command.NoArgs,
	}
	flagset.Duration(cmd.Flags(), &timeout, "timeout", time.Minute, flagset.Wait, "time limit for the whole demo (with --ui: none, unless it is given)")
	web.add(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		daemon.TuneMemory(0)
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if !web.ui || cmd.Flags().Changed("timeout") {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		file, _ := cmd.OutOrStdout().(*os.File)
		err := demo.Run(ctx, cmd.OutOrStdout(), demo.Options{Fancy: isTerminal(file), Stay: web.ui, Started: func(at string) { web.show(ctx, cmd, at) }, Cluster: web.options()})
		if err != nil && errors.Is(ctx.Err(), context.Canceled) {
			return exit.Failed(errors.New("interrupted"))
		}
		if err != nil {
			return exit.Failed(err)
		}
		return nil
	}
	return cmd
}

// isTerminal reports whether a file is a terminal. /dev/null is a character device too, but not a
// terminal.
func isTerminal(f *os.File) bool {
	if f == nil || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
