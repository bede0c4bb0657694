package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/cmd/troupe/internal/bench"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/command/flagset"
	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/member"
)

const benchHelp = `Bench measures the links of a running cluster by steps of an ordinary client, and beside them what this
machine does without a cluster: a round trip and 64 MiB over TCP on the loopback interface, and a copy of
64 MiB in memory. For each pair of tasks, it measures a step whose master is the second task and that does
nothing on the first, and steps that bring 64 KiB and 64 MiB from the first to the second. The table shows
medians; on a machine that does other work, look at the best ones (--json). Of many tasks, it measures
neighbours in a ring. Tasks on one machine read large tensors out of each other's memory, and may be
faster than TCP. Bench needs 64 MiB of memory on each task, and leaves nothing behind.

Times include the call from this machine to the step's master.`

func newBench() *cobra.Command {
	var asJSON bool
	var budget time.Duration
	var identity clientFlags
	cmd := &cobra.Command{
		Use:     "bench TARGET",
		Short:   "Measure the links of a cluster",
		Long:    benchHelp,
		Example: "  troupe bench grpc://10.0.0.2:2222",
		Args:    targetOnly,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	flagset.Duration(cmd.Flags(), &budget, "time", 10*time.Second, flagset.Bounds[time.Duration]{Least: time.Millisecond, Most: 24 * time.Hour}, "how long to measure, about")
	identity.add(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		opts, release, err := identity.load(nil)
		if err != nil {
			return exit.Usage(err)
		}
		defer release()
		// On slow links a measurement overruns its budget, since each kind is run a few times. It gets twice the time, plus the time to
		// connect.
		ctx, cancel := context.WithTimeout(cmd.Context(), 2*budget+15*time.Second)
		defer cancel()
		report, err := measureCluster(ctx, member.Target(args[0]), budget, opts)
		if err != nil {
			return exit.FromServer(identity.explain(err))
		}
		if asJSON {
			err = printJSON(cmd.OutOrStdout(), benchRecordOf(report))
		} else {
			err = printBench(cmd.OutOrStdout(), report)
		}
		return errors.Join(err, benchFailure(report))
	}
	return cmd
}

// measureCluster measures the tasks that the server at the target reports as up.
func measureCluster(ctx context.Context, target string, budget time.Duration, opts []client.Option) (*bench.Report, error) {
	c, err := client.Dial(ctx, target, opts...)
	if err != nil {
		return nil, err
	}
	defer c.Close(ctx)
	s, err := c.Status(ctx)
	if err != nil {
		return nil, err
	}
	var tasks []bench.Task
	for _, t := range s.Tasks {
		if t.Task == s.Task {
			tasks = append(tasks, bench.Task{Name: t.Task, Target: target})
		} else if t.State == "up" {
			tasks = append(tasks, bench.Task{Name: t.Task, Target: t.Target()})
		}
	}
	return bench.Run(ctx, tasks, budget, opts...)
}

// benchFailure returns the first error of a report as the command's error.
func benchFailure(r *bench.Report) error {
	for _, l := range r.Tasks {
		if l.Error != "" {
			return exit.Failed(fmt.Errorf("%s could not be measured: %s", l.Task, l.Error))
		}
	}
	for _, p := range r.Pairs {
		if p.Error != "" {
			return exit.Failed(fmt.Errorf("%s to %s could not be measured: %s", p.From, p.To, p.Error))
		}
	}
	return nil
}

// What --json prints; durations are in seconds.
type (
	samplesRecord struct {
		Best   float64 `json:"best"`
		Median float64 `json:"median"`
		Runs   int     `json:"runs"`
	}
	benchLocalRecord struct {
		Task  string        `json:"task"`
		Step  samplesRecord `json:"step"`
		Error string        `json:"error,omitempty"`
	}
	benchPairRecord struct {
		From  string        `json:"from"`
		To    string        `json:"to"`
		Empty samplesRecord `json:"empty_step"`
		Small samplesRecord `json:"step_64_kib"`
		Large samplesRecord `json:"step_64_mib"`
		Error string        `json:"error,omitempty"`
	}
	benchRecord struct {
		Machine struct {
			RoundTrip samplesRecord `json:"round_trip"`
			Stream    samplesRecord `json:"stream_64_mib"`
			Copy      samplesRecord `json:"copy_64_mib"`
		} `json:"machine"`
		Tasks   []benchLocalRecord `json:"tasks"`
		Pairs   []benchPairRecord  `json:"pairs"`
		Omitted int                `json:"omitted_pairs"`
	}
)

func samplesOf(s bench.Samples) samplesRecord {
	return samplesRecord{s.Best.Seconds(), s.Median.Seconds(), s.Runs}
}

func benchRecordOf(r *bench.Report) benchRecord {
	out := benchRecord{Tasks: []benchLocalRecord{}, Pairs: []benchPairRecord{}, Omitted: r.Omitted}
	out.Machine.RoundTrip, out.Machine.Stream, out.Machine.Copy = samplesOf(r.Machine.RoundTrip), samplesOf(r.Machine.Stream), samplesOf(r.Machine.Copy)
	for _, l := range r.Tasks {
		out.Tasks = append(out.Tasks, benchLocalRecord{l.Task, samplesOf(l.Steps), l.Error})
	}
	for _, p := range r.Pairs {
		out.Pairs = append(out.Pairs, benchPairRecord{p.From, p.To, samplesOf(p.Empty), samplesOf(p.SmallStep), samplesOf(p.LargeStep), p.Error})
	}
	return out
}

func printBench(w io.Writer, r *bench.Report) error {
	t := table(w, "THIS MACHINE", "", "")
	t.row("TCP round trip, loopback", medianText(r.Machine.RoundTrip))
	t.row("64 MiB over TCP, loopback", medianText(r.Machine.Stream), rateText(r.Machine.Stream))
	t.row("64 MiB copied in memory", medianText(r.Machine.Copy), rateText(r.Machine.Copy))
	if err := t.end(); err != nil {
		return err
	}
	plain.Println(w) // the end of the next table reports errors
	t = table(w, "TASK", "EMPTY STEP", "STEPS/S")
	for _, l := range r.Tasks {
		rate := "-"
		if l.Steps.Median > 0 {
			rate = fmt.Sprintf("%.0f", 1/l.Steps.Median.Seconds())
		}
		t.row(l.Task, medianText(l.Steps), rate)
	}
	if err := t.end(); err != nil || len(r.Pairs) == 0 {
		return err
	}
	plain.Println(w)
	t = table(w, "FROM", "TO", "EMPTY STEP", "64 KIB", "64 MIB", "")
	for _, p := range r.Pairs {
		t.row(p.From, p.To, medianText(p.Empty), medianText(p.SmallStep), medianText(p.LargeStep), rateText(p.LargeStep))
	}
	if r.Omitted > 0 {
		t.row(fmt.Sprintf("(%d pairs are left out: --time is too short for them)", r.Omitted))
	}
	return t.end()
}

func medianText(s bench.Samples) string {
	if s.Runs == 0 {
		return "-"
	}
	return brief(s.Median)
}

// rateText returns the bandwidth of samples that move bench.Large bytes.
func rateText(s bench.Samples) string {
	if s.Median <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f GB/s", bench.Large/1e9/s.Median.Seconds())
}
