package main

import (
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/internal/command"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/access"
)

const policyHelp = `Check reads a policy as a server does. If the policy cannot be used, it exits with 3 and names the line.

With --as, it shows what an identity may do, and which rule says so: client:NAME, task:JOB/INDEX, loopback or
network. --by says how a client shows who it is (certificate or token), --claim adds the groups of a signed
token. --op, --device, --container and --may ask about one thing each; if one of them is not allowed, the
exit code is 1.`

func newPolicy() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check what a policy allows",
		Args:  command.Subcommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPolicyCheck())
	return cmd
}

// question is a question to policy check about an identity.
type question struct {
	as, by                        string
	claims                        []string
	ops, devices, containers, may []string
}

func newPolicyCheck() *cobra.Command {
	var q question
	cmd := &cobra.Command{
		Use:     "check FILE",
		Short:   "Check a policy, and show what an identity may do",
		Long:    policyHelp,
		Example: "  troupe policy check policy.yaml\n  troupe policy check policy.yaml --as client:alice --op WriteFile --may reset",
		Args:    oneArg("the policy's file"),
	}
	flags := cmd.Flags()
	flags.StringVar(&q.as, "as", "", "the identity: client:NAME, task:JOB/INDEX, loopback or network")
	flags.StringVar(&q.by, "by", "certificate", "how a client shows who it is: certificate or token")
	flags.StringSliceVar(&q.claims, "claim", nil, "a group that the client's token says it is of")
	flags.StringSliceVar(&q.ops, "op", nil, "an op, such as WriteFile")
	flags.StringSliceVar(&q.devices, "device", nil, "a device, such as /job:worker/replica:0/task:1/device:CPU:0")
	flags.StringSliceVar(&q.containers, "container", nil, "a container")
	flags.StringSliceVar(&q.may, "may", nil, "an action, such as reset")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := access.ReadPolicy(args[0])
		if err != nil {
			return exit.Refused(err)
		}
		if q.as == "" {
			if len(q.ops)+len(q.devices)+len(q.containers)+len(q.may)+len(q.claims) > 0 {
				return exit.Usage(errors.New("--as is needed: whom is it about?"))
			}
			plain.Printf(cmd.OutOrStdout(), "%s: %s\n", args[0], view.Count(int64(p.Len()), "rule"))
			return nil
		}
		who, err := access.ParseIdentity(q.as, q.by, q.claims)
		if err != nil {
			return exit.Usage(err)
		}
		return q.answer(cmd.OutOrStdout(), p.Rights(who))
	}
	return cmd
}

// answer prints the answers. It returns an error if something is not allowed.
func (q *question) answer(w io.Writer, r *access.Rights) error {
	if r.Rule() == "" {
		plain.Printf(w, "%s: no rule is about it\n", r.Who())
	} else {
		plain.Printf(w, "%s: the rule at %s decides\n", r.Who(), r.Rule())
	}
	denied := false
	tell := func(what string, err error) {
		if err == nil {
			plain.Printf(w, "  %s: allowed\n", what)
			return
		}
		denied = true
		plain.Printf(w, "  %s: %v\n", what, err)
	}
	for _, name := range q.may {
		a, err := access.ParseAction(name)
		if err != nil {
			return exit.Usage(err)
		}
		tell("may "+name, r.May(a))
	}
	for _, op := range q.ops {
		tell("op "+op, r.Scope().Op(op))
	}
	for _, d := range q.devices {
		tell("device "+d, r.Scope().Device(d))
	}
	for _, c := range q.containers {
		tell("container "+c, r.Scope().Container(c, ""))
	}
	if denied {
		return exit.Failed(errors.New("")) // the denied actions have been printed
	}
	if len(q.may)+len(q.ops)+len(q.devices)+len(q.containers) == 0 {
		describeRights(w, r)
	}
	return nil
}

func describeRights(w io.Writer, r *access.Rights) {
	var may []string
	for _, a := range access.Actions() {
		if r.May(a) == nil {
			may = append(may, a.String())
		}
	}
	if len(may) == 0 {
		may = []string{"none"}
	}
	plain.Printf(w, "  may     %s\n", strings.Join(may, ", "))
	plain.Printf(w, "  files   %s\n", r.Files())
	l := r.Limits()
	for _, one := range []struct {
		name  string
		limit int64
	}{{"sessions", int64(l.Sessions)}, {"client_bytes", l.ClientBytes}, {"session_bytes", l.SessionBytes}, {"step_bytes", l.StepBytes}, {"steps", int64(l.Steps)},
		{"steps_per_second", int64(l.StepsPerSecond)}} {
		if one.limit > 0 {
			plain.Printf(w, "  limit   %s %d\n", one.name, one.limit)
		}
	}
}
