package main

import (
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const rootHelp = `Troupe runs clusters that TensorFlow's own client drives: start its servers where
TensorFlow's were, and programs written for tf.train.Server clusters run unchanged.

Exit codes: 0 success, 1 failure, 2 invalid command line, 3 the cluster or the configuration is
refused, 4 a server cannot be reached.`

// extra are commands that build tags add.
var extra []func() *cobra.Command

func newRoot(stdin *os.File) *cobra.Command {
	root := &cobra.Command{
		Use:           "troupe",
		Short:         "Clusters that TensorFlow's own client drives",
		Long:          rootHelp,
		Example:       "  troupe demo\n  troupe serve --cluster 'ps=10.0.0.1:2222;worker=10.0.0.2:2222' --job worker",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetGlobalNormalizationFunc(flagName)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	root.AddCommand(newServe(stdin), newUp(), newDemo())
	root.AddCommand(newDevices(), newStatus(), newWait(), newActors(), newSessions(), newSteps(), newWhy(), newTimeline(), newQueues(), newContainers(), newLinks(), newEvents(), newTop(stdin))
	root.AddCommand(newCancel(), newReset(stdin), newDrain(stdin))
	root.AddCommand(newDoctor(), newBench())
	root.AddCommand(newProxy(), newCerts(), newSecret(), newToken(), newPolicy(), newVersion())
	root.AddCommand(newContext())
	for _, command := range extra {
		root.AddCommand(command())
	}
	withTargets(root)
	return root
}

// flagName makes underscores and dashes in flags the same, and knows TensorFlow's names for two.
func flagName(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	name = strings.ReplaceAll(name, "_", "-")
	switch name {
	case "job-name":
		name = "job"
	case "task-index":
		name = "task"
	}
	return pflag.NormalizedName(name)
}

// logFlag adds --log-level and --log-format, and gives what makes the command's logger.
func logFlag(cmd *cobra.Command) func() (*slog.Logger, error) {
	level := cmd.Flags().String("log-level", "info", "what to log on standard error: debug, info, warn or error")
	format := cmd.Flags().String("log-format", "text", "how to log: text or json, a line for each record")
	return func() (*slog.Logger, error) {
		var l slog.Level
		if err := l.UnmarshalText([]byte(*level)); err != nil {
			return nil, usage(fmt.Errorf("--log-level is debug, info, warn or error, not %q", *level))
		}
		options := &slog.HandlerOptions{Level: l}
		switch *format {
		case "text":
			return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), options)), nil
		case "json":
			return slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), options)), nil
		}
		return nil, usage(fmt.Errorf("--log-format is text or json, not %q", *format))
	}
}
