package main

import (
	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/cmd/troupe/internal/show"
)

func newLinks() *cobra.Command {
	return section(&cobra.Command{
		Use:   "links TARGET[,TARGET…]",
		Short: "List the connections between the tasks of a cluster",
		Long: `Links lists the connections between tasks, as each end sees them: those that are down or stalled
first. For each, it shows the state and since when, the round trip of the last heartbeat, the bytes and
messages sent and received, and the bytes that wait to be sent. A link that only the other task has
needed is in the state accepted at this end, which has sent no tensors over it. A link that neither has
needed is in the state none, and not listed.`,
		Example: "  troupe links grpc://10.0.0.2:2222",
	}, "links", "links", show.Links, nil)
}
