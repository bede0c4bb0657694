package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/command/flagset"
	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/member"
)

func newDrain(stdin *os.File) *cobra.Command {
	var yes bool
	var within time.Duration
	cmd := &cobra.Command{
		Use:   "drain TARGET[,TARGET…] TASK",
		Short: "Stop a task when its steps have ended",
		Long: `Drain asks TASK, such as worker:1, of the cluster at TARGET to end, as SIGTERM does: its running steps may
continue for --within, or for the --drain that it was started with, while new steps and sessions are UNAVAILABLE;
then its process exits. Resources that belong to the cluster move to another task; what programs have placed
on TASK is lost, unless it is durable. Drain waits for the end. It asks before it does all this, unless --yes is
given; where standard input is no terminal, --yes is needed.

Where a policy says who may do what, the actions are drain, and list to see the end. A process with several
tasks, such as troupe up's, does not end on request.`,
		Example: "  troupe drain grpc://10.0.0.2:2222 worker:1\n  troupe drain 10.0.0.2:2222 /job:worker/task:1 --within 1m --yes",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return exit.Usage(fmt.Errorf("a target and a task are expected; %s", given(args)))
			}
			_, err := parseTask(args[1])
			return err
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	flagset.Duration(cmd.Flags(), &within, "within", 0, flagset.UpTo(member.MaxDrain), "how long running steps may continue, at most 1h (0: as long as the task's own --drain says)")
	return watch(cmd, func(ctx context.Context, c *client.Client, timeout time.Duration, args []string) error {
		task, err := parseTask(args[0])
		if err != nil {
			return err
		}
		d := &drained{task: task, timeout: timeout}
		if !yes {
			now, _, err := d.look(ctx, c)
			if err != nil {
				return err
			}
			if now.State != "up" {
				return status.Errorf(status.Unavailable, "%s is %s: %s", task, now.State, now.Reason)
			}
			if err := (&asker{cmd: cmd, stdin: stdin}).confirm(fmt.Sprintf("This stops %s. What programs have placed on it is lost, unless it is durable.", args[0])); err != nil {
				return err
			}
		}
		before, server, err := d.look(ctx, c) // after the answer, which takes as long as somebody thinks
		if err != nil {
			return err
		}
		d.boot, d.asked = before.Boot, server == task
		if err := c.Drain(ctx, task, within); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, cmp.Or(within, member.MaxDrain)+timeout)
		defer cancel()
		if err := d.gone(ctx, c); err != nil {
			return err
		}
		_, err = plain.Printf(cmd.OutOrStdout(), "%s has ended\n", task)
		return err
	})
}

// parseTask reads worker:1, or a task's full name.
func parseTask(text string) (string, error) {
	full, err := fullTaskName(text)
	if err != nil {
		return "", exit.Usage(err)
	}
	return full, nil
}

// drained is a task that was asked to end.
type drained struct {
	task    string
	boot    uint64 // of the process
	asked   bool   // the server that is asked is the task itself
	timeout time.Duration
}

// look requests the task's state from the server. A task that the cluster does not have is an error.
func (d *drained) look(ctx context.Context, c *client.Client) (now client.TaskStatus, server string, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	s, err := c.Status(ctx)
	if err != nil {
		return client.TaskStatus{}, "", err
	}
	at := slices.IndexFunc(s.Tasks, func(t client.TaskStatus) bool { return t.Task == d.task })
	if at < 0 {
		return client.TaskStatus{}, "", status.Errorf(status.NotFound, "the cluster has no task %s; its tasks are %s", d.task, s.Spec)
	}
	return s.Tasks[at], s.Task, nil
}

// silentLooks is how many looks in a row a server leaves without an answer before it counts as gone: a connection may break and come back.
const silentLooks = 5

// gone waits until the task's process has ended. If the server is the task, its silence is its end; another server may be silent for a while.
func (d *drained) gone(ctx context.Context, c *client.Client) error {
	tick := time.NewTicker(waitInterval)
	defer tick.Stop()
	for silent := 0; ; {
		now, _, err := d.look(ctx, c)
		switch {
		case status.CodeOf(err) == status.Unavailable:
			if silent++; d.asked && silent >= silentLooks {
				return nil
			}
		case err != nil:
			return err
		case now.State != "up" || now.Boot != d.boot:
			return nil
		default:
			silent = 0
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return cmp.Or(err, error(status.From(ctx.Err())))
		}
	}
}
