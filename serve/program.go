package serve

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/command"
)

// Program is a program whose process is one task of a cluster.
type Program struct {
	// Name is the command as it is typed, for the help: "wordcount" or, in a tree of commands, "words serve". Its last word is the name of
	// Command. Empty means the name of the program's file.
	Name string

	// Options are the server's, such as the kinds of its actors. Flags on the command line override them; those of lists, such as --files, add to
	// them. WithLogger only changes where the server logs.
	Options []troupe.Option

	// Started, if not nil, is called on a goroutine of its own once the server is up. After a signal or a request to drain the task, ctx ends, and
	// the server stops when Started has returned. That and the running steps together may take as long as --drain says. ctx also ends once the server
	// has stopped for another reason, such as a call of server.Stop.
	//
	// When Started returns nil, the server goes on serving; to end the program with exit code 0, Started calls server.Stop. An error stops the
	// server; the program then prints it and exits with 1. When ctx has ended, its error is not a failure.
	Started func(ctx context.Context, server *troupe.Server) error
}

// Main runs a program that is a server with these options, and exits.
func Main(options ...troupe.Option) { Program{Options: options}.Main() }

// Main runs the program with the arguments of the process, and exits.
func (p Program) Main() { os.Exit(Execute(context.Background(), p.Command(), os.Args[1:])) }

// Command returns the command that runs the program. The caller may change its texts, add flags, and add it to a command of its own. [Execute] runs
// it.
func (p Program) Command() *cobra.Command {
	if strings.TrimSpace(p.Name) == "" {
		p.Name = filepath.Base(os.Args[0])
	}
	return newCommand(p)
}

// Execute runs a command from [Program.Command], or a tree of commands that has one, and returns the exit code. It prints errors to the command's
// standard error. The end of ctx stops the server as SIGTERM does. The command's own method Execute does not do: it knows neither flags that
// declare jobs (--worker=host:port) nor flags with one dash.
//
// An error of the RunE of another command of the tree exits with 1. Other errors, such as those of PreRunE, exit with 2.
func Execute(ctx context.Context, root *cobra.Command, args []string) int {
	cmd, names := find(root, args)
	if cmd != nil {
		flags, err := joinJobFlags(cmd, args[names:])
		if err != nil {
			return command.Report(cmd, err)
		}
		args = append(args[:names:names], flags...)
	}
	return command.Execute(ctx, root, args)
}
