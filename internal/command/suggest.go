package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/troupe-run/troupe/internal/command/exit"
)

// Subcommands rejects arguments of a command that only has subcommands, and suggests those that the first one may be a misspelling of.
func Subcommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return exit.Usage(fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), didYouMean(args[0], "", names)))
}

// HelpTopics makes the help command of root reject names of commands that do not exist. cobra's own prints the help of root.
func HelpTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Args = func(_ *cobra.Command, args []string) error {
				cmd, rest, err := root.Find(args)
				if err == nil && cmd.HasAvailableSubCommands() {
					err = Subcommands(cmd, rest)
				}
				return err
			}
		}
	}
}

// suggestFlags adds to the error of an unknown flag the names of flags that it may be a misspelling of.
func suggestFlags(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	name := unknown.GetSpecifiedName()
	if short := unknown.GetSpecifiedShortnames(); short != "" {
		name, _, _ = strings.Cut(short, "=") // a long flag with one dash, perhaps
	}
	return fmt.Errorf("%w%s", err, SuggestFlags(cmd, name))
}

// SuggestFlags returns the end of an error's text that names the flags of a command that name may be a misspelling of, or an empty string.
func SuggestFlags(cmd *cobra.Command, name string) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return didYouMean(string(FlagName(nil, name)), "--", names)
}

// didYouMean returns the end of an error's text that names those of names that typed may be a misspelling or the beginning of.
func didYouMean(typed, prefix string, names []string) string {
	near, most := []string(nil), 1
	if len(typed) > 5 {
		most = 2
	}
	for _, name := range names {
		d := distance(typed, name)
		if len(typed) > 2 && strings.HasPrefix(name, typed) {
			d = min(d, 1)
		}
		switch {
		case len(typed) < 2 || d > most:
			continue
		case d < most:
			near, most = nil, d
		}
		near = append(near, prefix+name)
	}
	if len(near) == 0 {
		return ""
	}
	slices.Sort(near)
	return "; did you mean " + strings.Join(near, " or ") + "?"
}

// distance is how many letters have to be inserted, removed, replaced, or swapped with their neighbour, to make b of a.
func distance(a, b string) int {
	before, last, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			changed := last[j]
			if a[i] != b[j] {
				changed++
			}
			next[j+1] = min(changed, last[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, last, next = last, next, before
	}
	return last[len(b)]
}
