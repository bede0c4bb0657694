package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/spec"
	"golang.org/x/term"
)

func newReset(stdin *os.File) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "reset TARGET[,TARGET…] [CONTAINER …]",
		Short: "Close a server's sessions and empty containers",
		Long: `Reset closes all sessions of the server at TARGET and empties the named containers on all
tasks of its cluster: their variables, queues and tables are lost. Without names, it empties the
default container of every device. It says which of the named containers hold nothing. It asks before it
does, unless --yes is given; where standard input is no terminal, --yes is needed. If one of them is durable, it
asks a second time: what it has on disk is deleted, too.`,
		Example: "  troupe reset grpc://10.0.0.2:2222 my_problem_1\n  troupe reset grpc://10.0.0.2:2222 --yes",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return targetOnly(cmd, args)
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return watch(cmd, func(ctx context.Context, c *client.Client, timeout time.Duration, containers []string) error {
		seen, err := lookBeforeReset(ctx, c, timeout, containers, yes)
		if err != nil {
			return err
		}
		nothing := emptyOf(seen, containers)
		if !yes {
			if err := askForReset(c, seen, containers, nothing, &asker{cmd: cmd, stdin: stdin}); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		if err := c.Reset(ctx, containers...); err != nil {
			return err
		}
		if _, err := plain.Printf(cmd.OutOrStdout(), "emptied %s; the sessions of %s are closed\n", emptied(containers), c.Target()); err != nil || !yes || len(nothing) == 0 {
			return err
		}
		_, err = plain.Printf(cmd.ErrOrStderr(), "there was nothing in %s\n", strings.Join(nothing, ", "))
		return err
	})
}

// lookBeforeReset looks at what the containers hold. It returns nil if that is not known.
func lookBeforeReset(ctx context.Context, c *client.Client, timeout time.Duration, containers []string, yes bool) (*view.Cluster, error) {
	if yes && len(containers) == 0 {
		return nil, nil //nolint:nilnil // nobody asks, and no name is misspelled
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	seen, err := c.See(ctx, &client.Query{Sections: []string{"resources"}, Cluster: true, Limit: view.MostListed})
	if err != nil && !yes && status.CodeOf(err) != status.PermissionDenied { // who may reset, and not look, is told less
		return nil, err
	}
	return seen, nil
}

// askForReset asks whether to empty the containers, some of which hold nothing. It asks a second time if one of them has durable resources.
func askForReset(c *client.Client, seen *view.Cluster, containers, nothing []string, asked *asker) error {
	question := fmt.Sprintf("This closes all sessions of %s and empties %s on all tasks of its cluster.", c.Target(), emptied(containers))
	if len(nothing) > 0 {
		question += fmt.Sprintf(" There is nothing in %s now.", strings.Join(nothing, ", "))
	}
	if err := asked.confirm(question); err != nil {
		return err
	}
	durable := durableOf(seen, containers)
	if len(durable) == 0 {
		return nil
	}
	return asked.confirm(fmt.Sprintf("%s on disk, too, and cannot be restored once deleted there.", strings.Join(durable, ", ")+are(durable)))
}

// emptyOf returns which of the named containers hold nothing on any task: their names may be misspelled. It returns none if not all is seen.
func emptyOf(seen *view.Cluster, containers []string) []string {
	held := map[string]bool{}
	for _, t := range seen.GetTasks() {
		if t.GetState() != "up" || t.GetOmitted()["resources"] > 0 {
			return nil
		}
		for _, r := range t.GetResources() {
			held[r.GetContainer()] = true
		}
	}
	if seen == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(containers), func(name string) bool { return held[name] })
}

func are(names []string) string {
	if len(names) == 1 {
		return " is"
	}
	return " are"
}

// durableOf returns which of the containers have durable resources; without names, it looks at the default containers.
func durableOf(seen *view.Cluster, containers []string) []string {
	found := map[string]bool{}
	for _, t := range seen.GetTasks() {
		job, _, err := spec.ParseTaskName(t.GetTask())
		if err != nil {
			continue
		}
		for _, r := range t.GetResources() {
			if r.GetDurable() && (slices.Contains(containers, r.GetContainer()) || len(containers) == 0 && r.GetContainer() == job) {
				found[r.GetContainer()] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func emptied(containers []string) string {
	if len(containers) == 0 {
		return "the default containers"
	}
	if len(containers) == 1 {
		return "the container " + containers[0]
	}
	return "the containers " + strings.Join(containers, ", ")
}

// asker asks on a terminal, perhaps several times.
type asker struct {
	cmd   *cobra.Command
	stdin *os.File      // nil if there is none
	lines *bufio.Reader // of stdin
}

// confirm asks whether to continue. Anything but a yes is an error.
func (a *asker) confirm(what string) error {
	if a.stdin == nil || !term.IsTerminal(int(a.stdin.Fd())) {
		return exit.Usage(fmt.Errorf("nothing was done: standard input is not a terminal, so nobody can confirm it; give --yes (%s)", what))
	}
	if _, err := plain.Printf(a.cmd.ErrOrStderr(), "%s Continue? [y/N] ", what); err != nil {
		return exit.Failed(err)
	}
	if a.lines == nil {
		a.lines = bufio.NewReader(a.stdin)
	}
	answer, err := a.lines.ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		if err == nil {
			return nil
		}
	}
	return exit.Failed(errors.New("nothing was done"))
}
