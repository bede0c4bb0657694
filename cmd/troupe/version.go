package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/remote"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  troupe version",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "troupe %s %s/%s %s\n", remote.Version(), runtime.GOOS, runtime.GOARCH, runtime.Version())
			return err
		},
	}
}
