package main

import (
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/command"
	"github.com/troupe-run/troupe/internal/command/daemon"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/command/flagset"
	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/internal/command/telemetry"
	"github.com/troupe-run/troupe/remote/member"
)

const upHelp = `Up runs a whole cluster in one process, on ports of one address. It prints the target of
each task, and the cluster in the form that serve takes. Use it for experiments and tests: the tasks
share the process and slow each other down. With --gpus, they share the GPUs and their memory: add
--gpu-allow-growth or --gpu-memory-fraction.`

func newUp() *cobra.Command {
	var tasks, host string
	var port int
	var gpus flagset.GPUs
	var files flagset.Files
	var guard flagset.Guard
	var run flagset.Run
	var web uiFlags
	cmd := &cobra.Command{
		Use:     "up",
		Short:   "Run a whole cluster in one process until it is stopped",
		Long:    upHelp,
		Example: "  troupe up --tasks ps=1,worker=2\n  troupe up --ui",
		Args:    command.NoArgs,
	}
	cmd.Flags().StringVar(&tasks, "tasks", "ps=1,worker=2", "how many tasks each job has")
	cmd.Flags().StringVar(&host, "host", "127.0.0.1", "the address to bind")
	flagset.Int(cmd.Flags(), &port, "port", 0, flagset.UpTo(math.MaxUint16), "port of the first task; the others follow (0: free ports)")
	gpus.Add(cmd.Flags(), 0)
	run.Add(cmd.Flags())
	files.Add(cmd.Flags())
	guard.Add(cmd.Flags())
	web.add(cmd.Flags())
	logger := command.LogFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		log, err := logger()
		if err != nil {
			return err
		}
		jobs, err := flagset.ParseTasks(tasks)
		if err != nil {
			return exit.Usage(err)
		}
		guards, err := guard.Load(log)
		if err != nil {
			return exit.Refused(err)
		}
		defer guards.Close()
		daemon.TuneMemory(run.Process())
		signals := daemon.CatchSignals()
		traces, stopTraces, err := telemetry.Traces(cmd.Context(), member.Version(), log)
		if err != nil {
			return exit.Refused(err)
		}
		defer stopTraces()
		cluster, err := troupe.NewLocalCluster(cmd.Context(), jobs, append(slices.Concat(gpus.Options(), guards.Options(), files.Options(), web.options(), run.Options()),
			troupe.WithTraces(traces), troupe.WithLogger(log), troupe.WithLocalPorts(host, port))...)
		if err != nil {
			return exit.Refused(err)
		}
		defer daemon.ReloadOnHangup(log, guards.Reload)()
		printCluster(cmd.OutOrStdout(), cluster)
		web.show(cmd.Context(), cmd, cluster.Servers()[0].HTTP())
		life := daemon.Life{Signals: signals, Drain: run.Drain, Log: log}
		life.Run(cmd.Context(), cluster.Servers()...)
		return nil
	}
	return cmd
}

func printCluster(w io.Writer, c *troupe.LocalCluster) {
	for _, s := range c.Servers() {
		plain.Printf(w, "%-32s %s\n", s.Task(), s.Target())
	}
	plain.Printf(w, "--cluster '%s'\n", c)
	plain.Println(w, exports(c.Servers()))
	if at := c.Servers()[0].HTTP(); at != "" {
		plain.Println(w, at)
	}
}

// exports returns the line that puts the targets of tasks into a shell's environment: export PS=grpc://… WORKER0=grpc://…
func exports(servers []*troupe.Server) string {
	tasks := map[string]int{}
	for _, s := range servers {
		tasks[jobOf(s)]++
	}
	index, line := map[string]int{}, "export"
	for _, s := range servers {
		job := jobOf(s)
		name := strings.ToUpper(job)
		if tasks[job] > 1 {
			name += strconv.Itoa(index[job])
			index[job]++
		}
		line += " " + name + "=" + s.Target()
	}
	return line
}

func jobOf(s *troupe.Server) string { return s.ServerDef().GetJobName() }
