package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// targetVariable is the variable of the environment that has the target of commands which are given none.
const targetVariable = "TROUPE_TARGET"

const targetHelp = `

TARGET may be left out where ` + targetVariable + ` is set in the environment or a context is chosen: see
troupe context.`

// withTargets lets all commands that take a target do without: the environment or a context has it then. Commands say in their usage line
// that they take one, and find it as their first argument in any case.
func withTargets(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if _, operands, ok := strings.Cut(cmd.Use, " TARGET"); ok {
			operands = strings.TrimPrefix(operands, "[,TARGET…]")
			withTarget(cmd, strings.TrimSpace(operands) != "")
		}
	}
}

// withTarget does so for one command, which may take further operands.
func withTarget(cmd *cobra.Command, operands bool) {
	name := cmd.Flags().String("context", "", "the context that has the target and what to show to it (troupe context)")
	cmd.Long += targetHelp
	check, run := cmd.Args, cmd.RunE
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		full, err := fullArguments(cmd, *name, operands, args)
		if errors.Is(err, errNoTarget) {
			if err := check(cmd, args); err != nil {
				return usage(fmt.Errorf("%w; %w", err, errNoTarget))
			}
			return usage(errNoTarget)
		}
		if err != nil {
			return err
		}
		return check(cmd, full)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		full, err := fullArguments(cmd, *name, operands, args)
		if err != nil {
			return err
		}
		return run(cmd, full)
	}
}

// errNoTarget tells what gives a command its target.
var errNoTarget = errors.New(targetVariable + " is not set, and no context is chosen (troupe context use)")

// fullArguments are the arguments of a command with its target first. The target of a context comes with the files of the context, as
// far as flags do not name others.
func fullArguments(cmd *cobra.Command, chosen string, operands bool, args []string) ([]string, error) {
	// Containers and steps have no colon in their names, and targets have a port.
	if len(args) > 0 && (!operands || strings.Contains(args[0], ":")) {
		if chosen != "" {
			return nil, usage(fmt.Errorf("the target %s and --context %s are given: one of them is expected", args[0], chosen))
		}
		return args, nil
	}
	if target := os.Getenv(targetVariable); chosen == "" && target != "" {
		return append([]string{target}, args...), nil
	}
	all, err := loadContexts()
	if err != nil {
		return nil, refused(err)
	}
	if chosen == "" {
		if chosen = all.Current; chosen == "" {
			return nil, errNoTarget
		}
	}
	c, err := all.find(chosen)
	if err != nil {
		return nil, usage(err)
	}
	files := map[string]string{"tls-cert": c.Cert, "tls-key": c.Key, "tls-ca": c.CA, "token-file": c.Token}
	for flag := range files {
		if f := cmd.Flags().Lookup(flag); f != nil && f.Changed && f.Value.String() != files[flag] {
			files = nil // whoever names one names all
			break
		}
	}
	for flag, file := range files {
		if f := cmd.Flags().Lookup(flag); f != nil && file != "" {
			if err := cmd.Flags().Set(flag, file); err != nil {
				return nil, usage(err)
			}
		}
	}
	return append([]string{c.Target}, args...), nil
}
