package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/internal/command/flagset"
	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/client"
)

// collectTime is how long collecting a trace may take after its window.
const collectTime = 30 * time.Second

func newTimeline() *cobra.Command {
	q := &client.TraceQuery{Cluster: true}
	var seconds float64
	var out string
	cmd := &cobra.Command{
		Use:   "timeline TARGET[,TARGET…]",
		Short: "Record what runs on all tasks, for Perfetto",
		Long: `Timeline records what runs on all tasks of a cluster, and writes it in Chrome's trace format,
which https://ui.perfetto.dev and chrome://tracing show: kernels by device, steps, plans, transfers and the
arrows between tasks, by one clock. It records for --seconds, or until the steps of --step or --steps have ended.
Programs are traced as they run, with their optimizations. Tasks that cannot be reached within 2 s are left out; they
are printed, with the reason.`,
		Example: "  troupe timeline grpc://10.0.0.2:2222 --seconds 5 -o trace.json\n  troupe timeline grpc://10.0.0.2:2222 --steps 3 -o trace.json",
		Args:    targetOnly,
	}
	flags := cmd.Flags()
	flagset.Float64(flags, &seconds, "seconds", 10, flagset.Bounds[float64]{Least: 0.001, Most: view.MaxTraceTime.Seconds()}, "how long to record, at most 60")
	flagset.Uint64(flags, &q.Step, "step", 0, flagset.UpTo(uint64(math.MaxUint64)), "record this step alone, until it ends")
	flagset.Int64(flags, &q.Steps, "steps", 0, flagset.UpTo(int64(view.MaxTraceSteps)), "record the first so many steps that begin from now on")
	flagset.Int64(flags, &q.MaxEvents, "max-events", 0, flagset.UpTo(int64(view.MaxTraceEvents)), "how many events to keep of each task; 0 for the server's limit")
	flags.StringVarP(&out, "output", "o", "trace.json", "the file to write; - for the standard output")
	cmd.MarkFlagsMutuallyExclusive("step", "steps")
	long := func() time.Duration { return time.Duration(seconds * float64(time.Second)) }
	return watch(cmd, func(ctx context.Context, c *client.Client, timeout time.Duration, _ []string) (err error) {
		ctx, cancel := context.WithTimeout(ctx, timeout+long()+collectTime)
		defer cancel()
		q.Duration = int64(long())
		var f *os.File
		if out != "-" {
			var finish func(error) error
			if f, finish, err = outputFile(out); err != nil {
				return err
			}
			defer func() { err = finish(err) }()
		}
		t, err := c.Trace(ctx, q)
		if err != nil {
			return err
		}
		if out == "-" {
			if err := view.WriteTimeline(cmd.OutOrStdout(), t); err != nil {
				return err
			}
			return printSummary(cmd.ErrOrStderr(), t)
		}
		if err := truncated(f); err != nil {
			return err
		}
		if err := view.WriteTimeline(f, t); err != nil {
			return err
		}
		if err := printSummary(cmd.OutOrStdout(), t); err != nil {
			return err
		}
		_, err = plain.Printf(cmd.OutOrStdout(), "wrote %s: open it at https://ui.perfetto.dev\n", out)
		return err
	})
}

// outputFile opens a file for what takes long to make, so that a path that cannot be written fails at once. What the file has stays until truncated is
// called. finish, which gets the error of what was made, closes the file, and removes it if it is new and there is nothing to write.
func outputFile(path string) (f *os.File, finish func(error) error, err error) {
	_, missing := os.Stat(path)
	if f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666); err != nil {
		return nil, nil, err
	}
	return f, func(err error) error {
		closed := f.Close()
		if err != nil && missing != nil {
			return errors.Join(err, os.Remove(path))
		}
		return cmp.Or(err, closed)
	}, nil
}

// truncated truncates a file, but not a pipe or a terminal.
func truncated(f *os.File) error {
	about, err := f.Stat()
	if err != nil || !about.Mode().IsRegular() {
		return err
	}
	return f.Truncate(0)
}

// printSummary prints how much a trace has of each task, and why a task is missing.
func printSummary(w io.Writer, t *view.Trace) error {
	for _, task := range t.Tasks {
		line := task.Task + ": " + view.Count(int64(len(task.Events)), "event")
		if task.Dropped > 0 {
			line += fmt.Sprintf(", %d more were dropped", task.Dropped)
		}
		if task.Reason != "" {
			line += ": " + task.Reason
		}
		if _, err := plain.Println(w, line); err != nil {
			return err
		}
	}
	return nil
}
