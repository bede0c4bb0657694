package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/command/flagset"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/spec"
)

// waitInterval is the time between wait's requests.
const waitInterval = 200 * time.Millisecond

func newWait() *cobra.Command {
	w := &waiting{}
	var ready bool
	cmd := &cobra.Command{
		Use:   "wait --ready TARGET[,TARGET…]",
		Short: "Wait until the tasks of a cluster are up",
		Long: `Wait asks the servers at TARGET, which may not have started yet, until one of them knows that all tasks of the
cluster are up, or those that --tasks names. It exits with 0 then; after --timeout with 1 if a server answers and
a task is not up, and with 4 if none answers. What is missing is printed.`,
		Example: "  troupe wait --ready grpc://10.0.0.2:2222 --timeout 30s\n  troupe wait --ready 10.0.0.2:2222,10.0.0.3:2222 --tasks ps,/job:worker/task:0",
		Args:    targetOnly,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !ready {
				return exit.Usage(errors.New("what to wait for is missing: --ready"))
			}
			if err := w.check(); err != nil {
				return err
			}
			return w.wait(cmd.Context(), args[0])
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&ready, "ready", false, "wait until the tasks are up")
	flagset.Duration(flags, &w.timeout, "timeout", time.Minute, flagset.Wait, "how long to wait")
	flags.StringSliceVar(&w.names, "tasks", nil, "wait for these tasks alone, such as /job:ps/task:0, or all of a job, such as ps; several are separated by commas")
	w.identity.add(flags)
	return cmd
}

// waiting waits for tasks.
type waiting struct {
	timeout  time.Duration
	identity clientFlags
	names    []string

	tasks, jobs []string // names, split into tasks and jobs; the tasks are full names
}

func (w *waiting) check() error {
	for _, name := range w.names {
		if !strings.HasPrefix(name, "/") {
			w.jobs = append(w.jobs, name)
			continue
		}
		full, err := fullTaskName(name)
		if err != nil {
			return exit.Usage(fmt.Errorf("--tasks: %w", err))
		}
		w.tasks = append(w.tasks, full)
	}
	return nil
}

// wait repeats its request until all tasks are up. An invalid command line is an error at once, and so is a server that refuses to answer.
func (w *waiting) wait(ctx context.Context, target string) error {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	tick := time.NewTicker(waitInterval)
	defer tick.Stop()
	var last error
	for {
		err := w.ask(ctx, target)
		switch {
		case err == nil:
			return nil
		case ctx.Err() == nil:
			last = err
		case last == nil: // the first answer took all of the time
			last = err
		}
		if code := exit.CodeOf(last, exit.CodeFailed); code != exit.CodeUnreachable && !errors.Is(last, errMissing) {
			return last
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return exit.With(exit.CodeOf(last, exit.CodeFailed), fmt.Errorf("not ready after %v: %w", w.timeout, last))
		}
	}
}

// errMissing is wrapped by the error that names the tasks that are not up.
var errMissing = errors.New("not up")

// ask sends one request.
func (w *waiting) ask(ctx context.Context, target string) error {
	c, release, err := dial(ctx, target, &w.identity, w.timeout)
	if err != nil {
		return err
	}
	defer release()
	s, err := c.Status(ctx)
	if err != nil {
		return exit.FromServer(w.identity.explain(err))
	}
	missing, err := w.missing(s)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return exit.Failed(fmt.Errorf("%w: %s", errMissing, strings.Join(missing, "; ")))
	}
	return nil
}

// missing returns the tasks that are not up. Names that the cluster does not have are an error.
func (w *waiting) missing(s *client.ClusterStatus) (missing []string, err error) {
	left := slices.Concat(w.jobs, w.tasks)
	for _, t := range s.Tasks {
		job, _, err := spec.ParseTaskName(t.Task)
		if err != nil {
			return nil, exit.Failed(err)
		}
		if len(w.names) > 0 && !slices.Contains(w.jobs, job) && !slices.Contains(w.tasks, t.Task) {
			continue
		}
		left = slices.DeleteFunc(left, func(name string) bool { return name == job || name == t.Task })
		if t.State == "up" {
			continue
		}
		text := fmt.Sprintf("%s is %s", t.Task, t.State)
		if t.Reason != "" {
			text += " (" + t.Reason + ")"
		}
		missing = append(missing, text)
	}
	if len(left) > 0 {
		return nil, exit.Usage(fmt.Errorf("--tasks: the cluster has no %s; its tasks are %s", strings.Join(left, ", "), s.Spec))
	}
	return missing, nil
}
