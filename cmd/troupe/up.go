package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/cmd/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/remote"
)

const upHelp = `Up runs a whole cluster in one process, on ports of one address. It prints the target of
each task, and the cluster in the form that serve takes. Use it for experiments and tests: the tasks
share the process and slow each other down. With --gpus, they share the GPUs and their memory: add
--gpu-allow-growth or --gpu-memory-fraction.`

func newUp() *cobra.Command {
	var tasks, host string
	var port int
	var gpus gpuFlags
	var files fileFlags
	var guard guardFlags
	var run runFlags
	var web httpFlags
	cmd := &cobra.Command{
		Use:     "up",
		Short:   "Run a whole cluster in one process until it is stopped",
		Long:    upHelp,
		Example: "  troupe up --tasks ps=1,worker=2\n  troupe up --ui",
		Args:    noArgs,
	}
	cmd.Flags().StringVar(&tasks, "tasks", "ps=1,worker=2", "how many tasks each job has")
	cmd.Flags().StringVar(&host, "host", "127.0.0.1", "the address to bind")
	cmd.Flags().IntVar(&port, "port", 0, "port of the first task; the others follow (0: free ports)")
	gpus.add(cmd.Flags(), 0)
	run.add(cmd.Flags())
	files.add(cmd.Flags())
	guard.add(cmd.Flags())
	web.add(cmd.Flags())
	web.addUI(cmd.Flags())
	logger := logFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		log, err := logger()
		if err != nil {
			return err
		}
		jobs, err := parseTasks(tasks)
		if err != nil {
			return usage(err)
		}
		guards, err := guard.load(log)
		if err != nil {
			return refused(err)
		}
		defer guards.close()
		tuneMemory(int64(run.process))
		signals := catchSignals()
		traces, stopTraces, err := telemetry.Traces(cmd.Context(), remote.Version(), log)
		if err != nil {
			return refused(err)
		}
		defer stopTraces()
		cluster, err := troupe.NewLocalCluster(cmd.Context(), jobs, append(slices.Concat(gpus.options(), guards.options(), files.options(), web.options(), run.options()),
			troupe.WithTraces(traces), troupe.WithLogger(log), troupe.WithLocalPorts(host, port))...)
		if err != nil {
			return refused(err)
		}
		defer reloadOnHangup(log, guards.reload)()
		printCluster(cmd.OutOrStdout(), cluster)
		web.show(cmd.Context(), cmd, cluster.Servers()[0].HTTP())
		runUntil(cmd.Context(), signals, nil, log, run.drain, cluster.Servers()...)
		return nil
	}
	return cmd
}

func printCluster(w io.Writer, c *troupe.LocalCluster) {
	for _, s := range c.Servers() {
		fmt.Fprintf(w, "%-32s %s\n", s.Task(), s.Target())
	}
	fmt.Fprintf(w, "--cluster '%s'\n", c)
	if at := c.Servers()[0].HTTP(); at != "" {
		fmt.Fprintln(w, at)
	}
}

// parseTasks reads how many tasks each job has: ps=1,worker=2.
func parseTasks(text string) (map[string]int, error) {
	jobs := map[string]int{}
	for part := range strings.SplitSeq(text, ",") {
		name, count, ok := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.Atoi(count)
		if !ok || err != nil || n < 1 {
			return nil, fmt.Errorf("%q does not say how many tasks a job has, as in ps=1,worker=2", part)
		}
		if jobs[name] > 0 {
			return nil, fmt.Errorf("the job %s is given twice", name)
		}
		jobs[name] = n
	}
	return jobs, nil
}
