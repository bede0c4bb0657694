package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/internal/command"
	"github.com/troupe-run/troupe/serve"
)

const rootHelp = `Troupe runs clusters that TensorFlow's own client drives: start its servers where
TensorFlow's were, and programs written for tf.train.Server clusters run unchanged.

Exit codes: 0 success, 1 failure, 2 invalid command line, 3 the cluster or the configuration is
refused, 4 a server cannot be reached.`

// extra are commands that build tags add.
var extra []func() *cobra.Command

func newRoot(stdin *os.File) *cobra.Command {
	root := &cobra.Command{
		Use:     "troupe",
		Short:   "Clusters that TensorFlow's own client drives",
		Long:    rootHelp,
		Example: "  troupe demo\n  troupe serve --cluster 'ps=10.0.0.1:2222;worker=10.0.0.2:2222' --job worker",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetGlobalNormalizationFunc(command.FlagName)
	root.AddCommand(serve.Program{Name: "troupe serve"}.Command(), newUp(), newDemo())
	root.AddCommand(newDevices(), newStatus(), newWait(), newActors(), newSessions(), newSteps(), newWhy(), newTimeline(), newQueues(), newContainers(), newLinks(), newEvents(), newTop(stdin))
	root.AddCommand(newAsk(), newSend(), newPublish(), newCancel(), newReset(stdin), newDrain(stdin))
	root.AddCommand(newData(), newDoctor(), newBench())
	root.AddCommand(newProxy(), newCerts(), newSecret(), newToken(), newPolicy(), newVersion())
	root.AddCommand(newContext())
	for _, build := range extra {
		root.AddCommand(build())
	}
	withTargets(root)
	return root
}
