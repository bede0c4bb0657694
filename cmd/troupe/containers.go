package main

import (
	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/cmd/troupe/internal/show"
)

func newContainers() *cobra.Command {
	return section(&cobra.Command{
		Use:   "containers TARGET[,TARGET…]",
		Short: "List what the containers of a cluster hold",
		Long: `Containers lists the variables, queues, tables and other resources that the containers of all tasks
hold, by task and container, the largest first. troupe reset empties containers.`,
		Example: "  troupe containers grpc://10.0.0.2:2222 --task /job:ps/task:0",
	}, "resources", "resources", show.Containers, nil)
}
