package serve

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/troupe-run/troupe/internal/command"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/remote/spec"
)

// declaredJob is the hidden flag of a command that carries one job each time: name=host:port,host:port.
const declaredJob = "declared-job"

// find returns the command of a Program that args name, and how many of them are its name. cmd is nil if they name another one.
func find(root *cobra.Command, args []string) (cmd *cobra.Command, names int) {
	words := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-") })
	if words < 0 {
		words = len(args)
	}
	cmd, rest, err := root.Find(args[:words])
	if err != nil || cmd.Flags().Lookup(declaredJob) == nil {
		return nil, 0 // cobra reports the error
	}
	if names = words - len(rest); names == 0 && words > 0 {
		return nil, 0 // one of the commands that cobra adds, such as completion
	}
	return cmd, names
}

// joinJobFlags rewrites the arguments of a Program's command for pflag. Flags with one dash get two. A flag that the command does not have
// is a job whose tasks' addresses are its value (--ps=host:port,host:port, or --ps_hosts=… as many programs call it).
func joinJobFlags(cmd *cobra.Command, args []string) ([]string, error) {
	cmd.InitDefaultHelpFlag()
	cmd.InheritedFlags() // adds those of its parents to its own
	out := make([]string, 0, len(args))
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(out, args[i:]...), nil
		}
		name := strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-")
		if name == arg || name == "" {
			out = append(out, arg)
			continue
		}
		name, value, hasValue := strings.Cut(name, "=")
		flag := lookup(cmd.Flags(), name)
		if flag != nil && flag.NoOptDefVal != "" {
			out = append(out, "--"+strings.TrimLeft(arg, "-"))
			if flag.Shorthand == name {
				out[len(out)-1] = "--" + flag.Name
			}
			continue
		}
		if !hasValue && i+1 < len(args) {
			i++
			value, hasValue = args[i], true
		}
		switch {
		case flag == nil:
			job, err := readJobFlag(name, value, hasValue)
			if err != nil {
				return nil, exit.Usage(fmt.Errorf("%w%s", err, command.SuggestFlags(cmd, name)))
			}
			out = append(out, "--"+declaredJob+"="+job)
		case hasValue:
			out = append(out, "--"+name+"="+value)
		default:
			out = append(out, "--"+name) // pflag reports that its value is missing
		}
	}
	return out, nil
}

func lookup(flags *pflag.FlagSet, name string) *pflag.Flag {
	if len(name) == 1 {
		return flags.ShorthandLookup(name)
	}
	return flags.Lookup(name)
}

// readJobFlag parses a flag that the command does not have as a job.
func readJobFlag(name, value string, hasValue bool) (string, error) {
	if !hasValue || value == "" {
		return "", fmt.Errorf("unknown flag: --%s (a job is declared by --%[1]s=host:port,host:port)", name)
	}
	job := name + "=" + value
	if short, ok := strings.CutSuffix(name, "_hosts"); ok && short != "" {
		job = short + "=" + value
	}
	name, list, _ := strings.Cut(job, "=")
	for address := range strings.SplitSeq(list, ",") {
		// Each address is checked alone: errors of the whole cluster are reported as such later.
		if _, err := spec.Parse(name + "=" + address); err != nil {
			return "", fmt.Errorf("unknown flag: --%s (and it does not declare a job: %w)", name, err)
		}
	}
	return job, nil
}
