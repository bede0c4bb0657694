package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/remote/client"
	"golang.org/x/term"
)

func newReset(stdin *os.File) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "reset TARGET[,TARGET…] [CONTAINER …]",
		Short: "Close a server's sessions and empty containers",
		Long: `Reset closes all sessions of the server at TARGET and empties the named containers on all
tasks of its cluster: their variables, queues and tables are lost. Without names, it empties the
default container of every device. It asks before it does, unless --yes is given; where standard input
is no terminal, --yes is needed.`,
		Example: "  troupe reset grpc://10.0.0.2:2222 my_problem_1\n  troupe reset grpc://10.0.0.2:2222 --yes",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return targetOnly(cmd, args)
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	query(cmd, func(ctx context.Context, c *client.Client, containers []string) error {
		if err := c.Reset(ctx, containers...); err != nil {
			return err
		}
		_, err := plain.Printf(cmd.OutOrStdout(), "emptied %s; the sessions of %s are closed\n", emptied(containers), c.Target())
		return err
	})
	reset := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !yes {
			if err := confirm(cmd, stdin, fmt.Sprintf("All sessions of %s are closed, and %s emptied on all tasks of its cluster.", args[0], emptied(args[1:]))); err != nil {
				return err
			}
		}
		return reset(cmd, args)
	}
	return cmd
}

func emptied(containers []string) string {
	if len(containers) == 0 {
		return "the default containers"
	}
	return strings.Join(containers, ", ")
}

// confirm asks on the terminal whether to continue. Anything but a yes is an error.
func confirm(cmd *cobra.Command, stdin *os.File, what string) error {
	if stdin == nil || !term.IsTerminal(int(stdin.Fd())) {
		return exit.Usage(fmt.Errorf("%s Standard input is no terminal to ask at: give --yes", what))
	}
	if _, err := plain.Printf(cmd.ErrOrStderr(), "%s Go on? [y/N] ", what); err != nil {
		return exit.Failed(err)
	}
	answer, err := bufio.NewReader(stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		if err == nil {
			return nil
		}
	}
	return exit.Failed(errors.New("nothing was done"))
}
