package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/client"
)

func newWhy() *cobra.Command {
	var asJSON bool
	var longer time.Duration
	cmd := &cobra.Command{
		Use:   "why TARGET[,TARGET…] [STEP]",
		Short: "Tell why a step does not end",
		Long: `Why follows a step over all tasks of the cluster to what holds it up, and says it in a sentence: the
queue that nobody fills, the task that is gone, the lock that another step holds, the kernel that
computes. Without STEP, it tells of all steps that have run longer than --longer-than, and of sessions
that have waited so long for a task that was never seen. It exits with 1 if the step has ended.`,
		Example: "  troupe why grpc://10.0.0.2:2222",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return exit.Usage(fmt.Errorf("a target and perhaps a step are expected; %s", given(args)))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().DurationVar(&longer, "longer-than", time.Second, "leave out steps that have not run for so long")
	return query(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		var step uint64
		if len(args) > 0 {
			var err error
			if step, err = parseStep(args[0]); err != nil {
				return err
			}
		}
		seen, err := c.See(ctx, view.ForWhy())
		if err != nil {
			return err
		}
		reasons := []view.Reason{}
		if step != 0 {
			r, ok := view.Why(seen, step)
			if !ok {
				return fmt.Errorf("step %d has ended, or never began", step)
			}
			reasons = append(reasons, r)
		} else {
			reasons = append(view.Awaits(seen, longer), view.WhyAll(seen, longer)...)
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), reasons)
		}
		if len(reasons) == 0 {
			_, err := plain.Printf(cmd.OutOrStdout(), "nothing is blocked: no step has run for longer than %v\n", longer)
			return err
		}
		for _, r := range reasons {
			what := "session " + r.Session
			if r.Step != 0 {
				what = fmt.Sprintf("step %d of %s", r.Step, what)
			}
			if _, err := plain.Printf(cmd.OutOrStdout(), "%s, for %s: %s\n", what, view.Ago(int64(r.Seconds*1e9)), r.Text); err != nil {
				return err
			}
		}
		return nil
	})
}
