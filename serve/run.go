package serve

import (
	"cmp"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/command/daemon"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/internal/command/telemetry"
	"github.com/troupe-run/troupe/remote/member"
)

// serve runs the server that the flags declare, and the program's code beside it, until it has stopped.
func (f *serverFlags) serve(cmd *cobra.Command, p Program, log *slog.Logger) error {
	ctx := cmd.Context()
	parent, err := f.connect(ctx, cmd.InOrStdin(), cmd.OutOrStdout())
	if err != nil {
		return exit.Refused(err)
	}
	daemon.TuneMemory(f.run.Process())
	signals := daemon.CatchSignals()
	traces, stopTraces, err := telemetry.Traces(ctx, member.Version(), log)
	if err != nil {
		return exit.Refused(err)
	}
	defer stopTraces()
	security, err := f.security.load(log)
	if err != nil {
		return exit.Refused(err)
	}
	defer security.close()
	stops := make(chan time.Duration, 1)
	stop := func(drain time.Duration) {
		select {
		case stops <- drain:
		default: // it is already stopping
		}
	}
	options := append(f.options(p.Options, security, log), parent.options()...)
	if traces != nil {
		options = append(options, troupe.WithTraces(traces))
	}
	drained := func(within time.Duration) { stop(cmp.Or(within, f.run.Drain)) }
	server, err := f.server(ctx, log, append(options, troupe.WithDrainRequests(drained))...)
	if err != nil {
		if f.serverDef != "" {
			announceError(parent.out, err)
		}
		if len(f.join) > 0 && status.CodeOf(err) == status.Unavailable {
			return exit.FromServer(err)
		}
		return exit.Refused(err)
	}
	defer daemon.ReloadOnHangup(log, func() error { return security.reload(server) })()
	f.announce(parent, server, stop, log)
	code := start(ctx, p, server, func() { stop(f.run.Drain) })
	life := daemon.Life{Signals: signals, Stops: stops, Drain: f.run.Drain, Finish: code.finish, Log: log}
	life.Run(ctx, server)
	return code.err(log)
}

// announce says that the server is up: in the log and, if another program embeds it, to that program, whose commands it obeys from now on.
func (f *serverFlags) announce(parent *parent, server *troupe.Server, stop func(drain time.Duration), log *slog.Logger) {
	log.Info("serving", "task", server.Task(), "target", server.Target(), "pid", os.Getpid())
	if at := server.HTTP(); at != "" {
		log.Info("serving HTTP", "url", at)
	}
	if f.serverDef == "" {
		return
	}
	if at := server.HTTP(); at != "" {
		plain.Printf(parent.out, "HTTP %s\n", at)
	}
	plain.Printf(parent.out, "TARGET %s\n", server.Target())
	if parent.in != nil {
		// Ends with the process: a read from standard input cannot be cancelled.
		go obey(parent.in, parent.out, f.run.Drain, stop, func() {
			parent.forget()
			os.Exit(exit.CodeOK)
		})
	}
}
