package main

import (
	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/cmd/troupe/internal/show"
)

func newSessions() *cobra.Command {
	return section(&cobra.Command{
		Use:   "sessions TARGET[,TARGET…]",
		Short: "List the open sessions of a cluster",
		Long: `Sessions lists the open sessions of all tasks: those that run steps first, then those that were used
last. For each, it shows the master, when it was opened and used, its steps, its client, and in the notes whether
the client is gone, which change of its graph is under way, and its last error.`,
		Example: "  troupe sessions grpc://10.0.0.2:2222\n  troupe sessions grpc://10.0.0.2:2222 --json | jq '.tasks[].sessions[]?.name'",
	}, "sessions", "sessions", show.Sessions, nil)
}
