package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/cmd/troupe/internal/show"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/client"
)

func newSteps() *cobra.Command {
	l := &look{}
	cmd := &cobra.Command{
		Use:   "steps TARGET[,TARGET…]",
		Short: "List the steps that run, and what holds them up",
		Long: `Steps lists the steps that run on the cluster, the oldest first. For each, it shows the session and its
master, how long it has run, and which tasks still work on it. Of a step that has run for more than a second, it
says whether it is slow (it computes), blocked (it waits for something), in a deadlock, or has failed and not ended,
and why. troupe why says the same of a single step; troupe cancel ends one.`,
		Example: "  troupe steps grpc://10.0.0.2:2222",
		Args:    targetOnly,
	}
	l.add(cmd, "steps")
	return query(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		// The reason why a step is blocked may be on any task.
		seen, err := l.see(ctx, c, view.ForWhy())
		if err != nil {
			return err
		}
		reasons := view.WhyAll(seen, show.Slow)
		if len(l.tasks) > 0 {
			seen.Tasks = slices.DeleteFunc(seen.Tasks, func(t *view.Task) bool { return !slices.Contains(l.tasks, t.Task) })
			reasons = slices.DeleteFunc(reasons, func(r view.Reason) bool { return !runsOn(seen, r.Step) })
		}
		if l.json {
			for _, t := range seen.Tasks { // other sections were for the reasons
				t.Sessions, t.Events = nil, nil
			}
			return printJSON(cmd.OutOrStdout(), struct {
				*client.ClusterView
				Reasons []view.Reason `json:"reasons"`
			}{seen, reasons})
		}
		return l.print(cmd.OutOrStdout(), show.Steps(seen, reasons), show.Missing(seen, "steps", "steps"))
	})
}

// runsOn reports whether one of the tasks that answered has a step.
func runsOn(c *client.ClusterView, id uint64) bool {
	return slices.ContainsFunc(c.Tasks, func(t *view.Task) bool {
		return slices.ContainsFunc(t.Steps, func(s *view.Step) bool { return s.Id == id })
	})
}
