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
		Args:    command.Subcommands,
		Version: versionLine(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetGlobalNormalizationFunc(command.FlagName)
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "print the version")
	group(root, "Run a cluster:", serve.Program{Name: "troupe serve"}.Command(), newUp(), newDemo())
	group(root, "See what it has and does:", newDevices(), newStatus(), newWait(), newActors(), newSessions(), newSteps(), newWhy(), newTimeline(), newQueues(), newContainers(), newLinks(), newEvents(), newTop(stdin),
		newDoctor(), newBench())
	group(root, "Change it:", newAsk(), newSend(), newPublish(), newCancel(), newReset(stdin), newDrain(stdin), newData())
	group(root, "Secure it:", newProxy(), newCerts(), newSecret(), newToken(), newPolicy())
	root.AddCommand(newContext(), newVersion())
	for _, build := range extra {
		root.AddCommand(build())
	}
	withTargets(root)
	command.HelpTopics(root)
	return root
}

// group adds commands to root, below a title of their own in its help.
func group(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, cmd := range commands {
		cmd.GroupID = title
	}
	root.AddCommand(commands...)
}
