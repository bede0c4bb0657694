package main

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/cmd/troupe/internal/show"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/client"
)

func newQueues() *cobra.Command {
	return section(&cobra.Command{
		Use:   "queues TARGET[,TARGET…]",
		Short: "List the queues of a cluster",
		Long: `Queues lists the queues of all tasks: those that steps wait for first, then the fullest. For each, it
shows how full it is, how many elements came and went, which operations wait and for how long, whether it is
closed and why, which sessions enqueued and dequeued last, and how many sessions got nothing but the end of a
queue that had been closed before they were opened.`,
		Example: "  troupe queues grpc://10.0.0.2:2222",
	}, "resources", "resources", show.Queues, func(c *client.ClusterView) {
		for _, t := range c.Tasks {
			t.Resources = slices.DeleteFunc(t.Resources, func(r *view.Resource) bool { return r.Queue == nil })
		}
	})
}
