package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/command/flagset"
	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/client"
)

func newWhy() *cobra.Command {
	var asJSON bool
	var longer time.Duration
	cmd := &cobra.Command{
		Use:   "why TARGET[,TARGET…] [STEP]",
		Short: "Explain why a step does not end, or an actor does not answer",
		Long: `Why follows a step over all tasks of the cluster to what holds it up, and says it in a sentence: the
queue that nobody fills, the task that is gone, the lock that another step holds, the kernel that
computes. Without STEP, it tells of all steps that have run longer than --longer-than, of sessions that
have waited so long for a task that was never seen, of requests to programs' actors that have waited so long
for their answers, from actor to actor, with those that ask each other in a circle, and of sessions that got
nothing from a queue, since it had been closed before they were opened. It exits with 1 if the step has ended.`,
		Example: "  troupe why grpc://10.0.0.2:2222",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return exit.Usage(fmt.Errorf("a target and perhaps a step are expected; %s", given(args)))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	flagset.Duration(cmd.Flags(), &longer, "longer-than", time.Second, flagset.UpTo(flagset.Longest), "leave out steps that have not run, and requests that have not waited, for so long")
	return query(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		var step uint64
		if len(args) > 0 {
			var err error
			if step, err = parseStep(args[0]); err != nil {
				return err
			}
		}
		seen, err := c.See(ctx, view.ForAllWhy())
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
			for _, some := range [][]view.Reason{view.Awaits(seen, longer), view.WhyAll(seen, longer), view.WhyAsks(seen, longer), view.Missed(seen)} {
				reasons = append(reasons, some...) // JSON has a list of none, not null
			}
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), reasons)
		}
		if !slices.ContainsFunc(reasons, func(r view.Reason) bool { return !r.Ended }) {
			if _, err := plain.Printf(cmd.OutOrStdout(), "nothing is blocked: no step has run for longer than %v, and no request to an actor has waited for so long\n", longer); err != nil {
				return err
			}
		}
		for _, r := range reasons {
			what := "session " + r.Session
			switch {
			case r.Step != 0:
				what = fmt.Sprintf("step %d of %s", r.Step, what)
			case r.Actor != "":
				what = r.Actor
			}
			when := "for " + view.Ago(int64(r.Seconds*1e9))
			if r.Ended {
				when = view.Ago(int64(r.Seconds*1e9)) + " ago"
			}
			if _, err := plain.Printf(cmd.OutOrStdout(), "%s, %s: %s\n", what, when, r.Text); err != nil {
				return err
			}
		}
		return nil
	})
}
