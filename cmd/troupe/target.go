package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/remote/spec"
)

// targetVariable is the environment variable with the default target of commands.
const targetVariable = "TROUPE_TARGET"

const targetHelp = `

TARGET may be left out where ` + targetVariable + ` is set in the environment or a context is chosen: see
troupe context.`

// withTargets makes the target of all commands optional: its default comes from the environment or a context. Commands declare a target in
// their usage line, and always find it as their first argument.
func withTargets(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if o, ok := operandsOf(cmd); ok {
			withTarget(cmd, o)
		}
	}
}

// operands are the minimum and maximum number of arguments after a command's target.
type operands struct{ least, most int }

// operandsOf parses a command's operands from its usage line, such as "TARGET[,TARGET…] TASK" or "TARGET [CONTAINER …]". ok is false for
// a command without a target, or whose target is optional by itself.
func operandsOf(cmd *cobra.Command) (o operands, ok bool) {
	_, rest, ok := strings.Cut(cmd.Use, " TARGET")
	if !ok {
		return o, false
	}
	for _, operand := range strings.Fields(strings.TrimPrefix(rest, "[,TARGET…]")) {
		switch {
		case operand == "…]":
			o.most = math.MaxInt
		case strings.HasPrefix(operand, "["):
			o.most++
		default:
			o.least++
			o.most++
		}
	}
	return o, true
}

// hasTarget reports whether the first of a command's arguments is its target. The number of arguments decides, unless operands are optional: such
// operands, containers and steps, have no colon in their names, and targets have a port.
func (o operands) hasTarget(args []string) bool {
	switch {
	case len(args) <= o.least:
		return false
	case len(args) > o.most:
		return true
	}
	return strings.Contains(args[0], ":")
}

// withTarget does the same for one command.
func withTarget(cmd *cobra.Command, o operands) {
	name := cmd.Flags().String("context", "", "the context that has the target and what to show to it (troupe context)")
	cmd.Long += targetHelp
	check, run := cmd.Args, cmd.RunE
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if o.hasTarget(args) {
			if err := noTask(cmd, args[0]); err != nil {
				return err
			}
		}
		full, err := o.fullArguments(cmd, *name, args)
		if errors.Is(err, errNoTarget) {
			if err := check(cmd, args); err != nil {
				return exit.Usage(fmt.Errorf("%w; %w", err, errNoTarget))
			}
			if len(args) > 0 {
				return exit.Usage(fmt.Errorf("no target is given: %q has no port, as a target has; %w", args[0], errNoTarget))
			}
			return exit.Usage(errNoTarget)
		}
		if err != nil {
			return err
		}
		return check(cmd, full)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		full, err := o.fullArguments(cmd, *name, args)
		if err != nil {
			return err
		}
		err = run(cmd, full)
		if o.hasTarget(args) {
			err = perhapsTask(cmd, args[0], err)
		}
		return err
	}
}

// leastPort is the least port that servers usually have: smaller numbers after a colon may as well be those of tasks.
const leastPort = 1024

// taskNames returns those of several targets that may be the names of tasks, such as worker:1, which reads like a host and its port. all is true if
// none can be a target.
func taskNames(target string) (names []string, all bool) {
	all = true
	for target := range strings.SplitSeq(target, ",") {
		target = strings.TrimSpace(target)
		job, index, err := spec.ParseTaskName(target)
		if err != nil || job == "localhost" || index >= leastPort {
			all = false
			continue
		}
		names = append(names, target)
		all = all && (strings.HasPrefix(target, "/") || index == 0)
	}
	return names, all
}

// noTask rejects the name of a task in the place of a target.
func noTask(cmd *cobra.Command, target string) error {
	if names, all := taskNames(target); all {
		return exit.Usage(fmt.Errorf("%s is the name of a task, and a target is the address of a server: %s", names[0], instead(cmd, names[0])))
	}
	return nil
}

// perhapsTask adds to the error of a command whose target did not answer that it may be meant as the name of a task.
func perhapsTask(cmd *cobra.Command, target string, err error) error {
	names, _ := taskNames(target)
	if len(names) == 0 || exit.CodeOf(err, exit.CodeFailed) != exit.CodeUnreachable {
		return err
	}
	return fmt.Errorf("%w\n  if %s is meant as the name of a task, name the address of a server, too: %s", err, names[0], instead(cmd, names[0]))
}

// instead returns the command line that names a target, and the task if the command has a place for it.
func instead(cmd *cobra.Command, task string) string {
	line := cmd.CommandPath() + " HOST:PORT"
	if tasks := cmd.Flags().Lookup("task"); strings.HasSuffix(cmd.Use, " TASK") {
		line += " " + task
	} else if tasks != nil && tasks.Value.Type() == "stringSlice" {
		line += " --task " + task
	}
	return line
}

// errNoTarget names the sources of a command's target.
var errNoTarget = errors.New(targetVariable + " is not set, and no context is chosen (troupe context use)")

// fullArguments returns a command's arguments with its target first. A context's target comes with the context's files, unless
// flags name others.
func (o operands) fullArguments(cmd *cobra.Command, chosen string, args []string) ([]string, error) {
	if o.hasTarget(args) {
		if chosen != "" {
			return nil, exit.Usage(fmt.Errorf("the target %s and --context %s are given: one of them is expected", args[0], chosen))
		}
		return args, nil
	}
	if target := os.Getenv(targetVariable); chosen == "" && target != "" {
		return append([]string{target}, args...), nil
	}
	all, err := loadContexts()
	if err != nil {
		return nil, exit.Refused(err)
	}
	if chosen == "" {
		if chosen = all.Current; chosen == "" {
			return nil, errNoTarget
		}
	}
	c, err := all.find(chosen)
	if err != nil {
		return nil, exit.Usage(err)
	}
	files := map[string]string{"tls-cert": c.Cert, "tls-key": c.Key, "tls-ca": c.CA, "token-file": c.Token}
	for flag := range files {
		if f := cmd.Flags().Lookup(flag); f != nil && f.Changed && f.Value.String() != files[flag] {
			files = nil // a flag that names a file replaces all of them
			break
		}
	}
	for flag, file := range files {
		if f := cmd.Flags().Lookup(flag); f != nil && file != "" {
			if err := cmd.Flags().Set(flag, file); err != nil {
				return nil, exit.Usage(err)
			}
		}
	}
	return append([]string{c.Target}, args...), nil
}

// given describes how many arguments a command got.
func given(args []string) string {
	if len(args) == 1 {
		return "1 argument is given"
	}
	return fmt.Sprintf("%d arguments are given", len(args))
}
