// Package command has what package serve and the command troupe share of a command line: how commands run and report errors, the spelling of
// flags, and the flags of the log.
package command

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/command/journal"
	"github.com/troupe-run/troupe/internal/command/plain"
)

// Execute runs a command with its arguments, prints its error, and returns the exit code.
func Execute(ctx context.Context, root *cobra.Command, args []string) int {
	root.SilenceUsage, root.SilenceErrors = true, true
	failures(root)
	flagError := root.FlagErrorFunc()
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return suggestFlags(cmd, flagError(cmd, err)) })
	root.SetArgs(append([]string{}, args...)) // not nil, for which cobra would take those of the process
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exit.CodeOK
	}
	return Report(cmd, err)
}

// failures gives the errors of commands that have no exit code the one of a failure. All other errors without one are cobra's, about the
// command line.
func failures(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := run(cmd, args)
			if err == nil {
				return nil
			}
			return exit.With(exit.CodeOf(err, exit.CodeFailed), err)
		}
	}
	for _, c := range cmd.Commands() {
		failures(c)
	}
}

// Report prints a command's error and returns the exit code.
func Report(cmd *cobra.Command, err error) int {
	code := exit.CodeOf(err, exit.CodeUsage)
	out := journal.Lines(cmd.ErrOrStderr(), journal.Error)
	if text := err.Error(); text != "" {
		fmt.Fprintf(out, "%s: %s\n", cmd.CommandPath(), plain.Text(text))
	}
	if code == exit.CodeUsage {
		plain.Printf(out, "Run '%s --help' for its flags and an example.\n", cmd.CommandPath())
	}
	return code
}

// NoArgs rejects arguments that are not flags.
func NoArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exit.Usage(fmt.Errorf("unexpected argument %q: the command takes only flags", args[0]))
	}
	return nil
}

// FlagName treats underscores and dashes in flags alike, and maps TensorFlow's names of two flags.
func FlagName(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	name = strings.ReplaceAll(name, "_", "-")
	switch name {
	case "job-name":
		name = "job"
	case "task-index":
		name = "task"
	}
	return pflag.NormalizedName(name)
}

// LogFlags adds --log-level and --log-format, and returns a function that creates the command's logger.
func LogFlags(cmd *cobra.Command) func() (*slog.Logger, error) {
	level := cmd.Flags().String("log-level", "info", "what to log on standard error: debug, info, warn or error")
	format := cmd.Flags().String("log-format", "text", "how to log: text or json, a line for each record")
	return func() (*slog.Logger, error) {
		var l slog.Level
		if err := l.UnmarshalText([]byte(*level)); err != nil {
			return nil, exit.Usage(fmt.Errorf("--log-level is debug, info, warn or error, not %q", *level))
		}
		options := &slog.HandlerOptions{Level: l}
		switch *format {
		case "text":
			return slog.New(journal.Handler(cmd.ErrOrStderr(), func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, options) })), nil
		case "json":
			return slog.New(journal.Handler(cmd.ErrOrStderr(), func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, options) })), nil
		}
		return nil, exit.Usage(fmt.Errorf("--log-format is text or json, not %q", *format))
	}
}
