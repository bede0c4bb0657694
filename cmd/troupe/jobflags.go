package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/troupe-run/troupe/remote/spec"
)

// declaredJob is the hidden flag of serve that carries one job each time: name=host:port,host:port.
const declaredJob = "declared-job"

// joinJobFlags rewrites the arguments of serve into what pflag reads: flags with one dash get two,
// and a flag that is none of serve's is taken for a job, whose tasks' addresses are its value
// (--ps=host:port,host:port, or --ps_hosts=… as many programs call it). Arguments of other commands
// are left alone.
func joinJobFlags(root *cobra.Command, args []string) ([]string, error) {
	if len(args) == 0 || args[0] != "serve" {
		return args, nil
	}
	cmd, _, err := root.Find(args[:1])
	if err != nil {
		return nil, err
	}
	cmd.InitDefaultHelpFlag()
	out := args[:1:1]
	for i := 1; i < len(args); i++ {
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
				return args, usage(err)
			}
			out = append(out, "--"+declaredJob+"="+job)
		case hasValue:
			out = append(out, "--"+name+"="+value)
		default:
			out = append(out, "--"+name) // pflag tells that its value is missing
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

// readJobFlag reads a flag that is none of serve's as a job.
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
		// One at a time: what is wrong with the whole cluster is refused as such.
		if _, err := spec.Parse(name + "=" + address); err != nil {
			return "", fmt.Errorf("unknown flag: --%s (and it does not declare a job: %w)", name, err)
		}
	}
	return job, nil
}
