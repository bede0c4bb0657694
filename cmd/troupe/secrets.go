package main

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/internal/command"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/command/flagset"
	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/remote/access"
)

func newSecret() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "Make a cluster's secret",
		Args:  command.Subcommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var force bool
	create := &cobra.Command{
		Use:     "new FILE",
		Short:   "Make a file with a new secret",
		Long:    "New makes a file of 32 random bytes in base64, which nobody but its user can read. All tasks of a\ncluster get the same file.",
		Example: "  troupe secret new cluster.secret",
		Args:    oneArg("the file to make"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := writePrivate(args[0], access.NewSecret(), force); err != nil {
				return exit.Failed(err)
			}
			return nil
		},
	}
	create.Flags().BoolVar(&force, "force", false, "overwrite the file if it is there")
	cmd.AddCommand(create)
	return cmd
}

const tokenHelp = `New makes a token for a client. It prints the token to standard output, once: it cannot be had again.
It prints the line to append to the server's file of --tokens to standard error; that file has a hash of
the token, and nobody but its user may read it.

The client sends the token with each call, in the header "authorization: Bearer TOKEN". It is accepted
over TLS and from this machine, but not over a network in the clear.`

func newToken() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make tokens for clients",
		Args:  command.Subcommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var days int
	create := &cobra.Command{
		Use:     "new NAME",
		Short:   "Make a token for a client",
		Long:    tokenHelp,
		Example: "  troupe token new alice > alice.token 2>> tokens",
		Args:    oneArg("the name of the client"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var expires time.Time
			if days != 0 {
				expires = inDays(days)
			}
			token, line, err := access.NewToken(args[0], expires)
			if err != nil {
				return exit.Usage(err)
			}
			// The line of a token that was not printed has no use, and a token whose line was not printed neither.
			if _, err := plain.Println(cmd.OutOrStdout(), token); err != nil {
				return exit.Failed(err)
			}
			if _, err := plain.Println(cmd.ErrOrStderr(), line); err != nil {
				return exit.Failed(err)
			}
			return nil
		},
	}
	flagset.Int(create.Flags(), &days, "days", 0, flagset.UpTo(maxDays), "days until the token expires (0: never)")
	cmd.AddCommand(create)
	return cmd
}
