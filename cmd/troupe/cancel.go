package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/remote/client"
)

func newCancel() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel TARGET[,TARGET…] STEP",
		Short: "Cancel a step",
		Long: `Cancel ends a step of any session of the cluster, on all tasks. Its client gets the error CANCELLED, which
names who cancelled it; the session goes on. troupe steps lists the steps. Where a policy says who may do what,
the action is cancel; steps of one's own sessions can always be cancelled. It exits with 1 if the step has ended.`,
		Example: "  troupe cancel grpc://10.0.0.2:2222 6004098926486543",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return exit.Usage(fmt.Errorf("a target and a step are expected; %s", given(args)))
			}
			return nil
		},
	}
	return query(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		step, err := parseStep(args[0])
		if err != nil {
			return err
		}
		session, master, err := c.CancelStep(ctx, step)
		if err != nil {
			return err
		}
		_, err = plain.Printf(cmd.OutOrStdout(), "cancelled step %d of session %s on %s\n", step, session, master)
		return err
	})
}

// parseStep parses the number of a step.
func parseStep(text string) (uint64, error) {
	step, err := strconv.ParseUint(text, 10, 64)
	if err != nil || step == 0 {
		return 0, exit.Usage(fmt.Errorf("a step is a positive number, not %q", text))
	}
	return step, nil
}
