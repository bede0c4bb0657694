package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/cmd/troupe/internal/show"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/command/flagset"
	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/spec"
	"golang.org/x/term"
)

// look is a command that shows one section of a cluster's state.
type look struct {
	json, wide bool
	limit      int64
	only       []string

	tasks []string // full names of only
}

// add adds the flags of such commands. what names the things that they list.
func (l *look) add(cmd *cobra.Command, what string) {
	flags := cmd.Flags()
	flags.BoolVar(&l.json, "json", false, "print JSON")
	flags.BoolVar(&l.wide, "wide", false, "do not truncate columns to fit the terminal")
	flagset.Int64(flags, &l.limit, "limit", 0, flagset.UpTo(int64(view.MostListed)), "the most "+what+" to list of each task; 0 for the server's limit (1000)")
	flags.StringSliceVar(&l.only, "task", nil, "list those of this task alone, such as /job:ps/task:0; several are separated by commas")
}

// check reads the flags.
func (l *look) check() error {
	l.tasks = l.tasks[:0]
	for _, name := range l.only {
		full, err := fullTaskName(name)
		if err != nil {
			return exit.Usage(fmt.Errorf("--task: %w", err))
		}
		l.tasks = append(l.tasks, full)
	}
	return nil
}

// fullTaskName completes a task's name, in which the replica may be left out.
func fullTaskName(name string) (string, error) {
	job, index, err := spec.ParseTaskName(name)
	if err != nil {
		return "", err
	}
	return spec.TaskName(job, index), nil
}

// see requests sections of the tasks.
func (l *look) see(ctx context.Context, c *client.Client, q *client.Query) (*client.ClusterView, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	q.Cluster, q.Limit = true, l.limit
	seen, err := c.See(ctx, q)
	if err != nil {
		return nil, err
	}
	return seen, l.known(seen)
}

// known rejects names of tasks that the cluster does not have.
func (l *look) known(c *client.ClusterView) error {
	for _, task := range l.tasks {
		if !slices.ContainsFunc(c.Tasks, func(t *view.Task) bool { return t.Task == task }) {
			return exit.Usage(fmt.Errorf("--task: the cluster has no task %s; its tasks are %s", task, c.Spec))
		}
	}
	return nil
}

// print prints a table, if there is one, and what is missing in it. It calls an empty table empty only if nothing is missing.
func (l *look) print(w io.Writer, t *show.Table, missing []string) error {
	shown := t != nil && (t.Len() > 0 || len(missing) == 0)
	if shown {
		if err := t.Write(w, l.columns(w)); err != nil {
			return err
		}
	}
	for i, line := range missing {
		if i == 0 && (shown || t == nil) {
			if _, err := plain.Println(w); err != nil {
				return err
			}
		}
		if _, err := plain.Println(w, line); err != nil {
			return err
		}
	}
	return nil
}

// columns returns the maximum width of lines; 0 means any.
func (l *look) columns(w io.Writer) int {
	f, ok := w.(*os.File)
	if l.wide || !ok {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0 // no terminal
	}
	return columns
}

// section makes a command that lists one section of all tasks.
func section(cmd *cobra.Command, name, what string, table func(*client.ClusterView) *show.Table, keep func(*client.ClusterView)) *cobra.Command {
	l := &look{}
	l.add(cmd, what)
	cmd.Args = targetOnly
	return query(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		if err := l.check(); err != nil {
			return err
		}
		seen, err := l.see(ctx, c, &client.Query{Sections: []string{name}, Tasks: l.tasks})
		if err != nil {
			return err
		}
		if keep != nil {
			keep(seen)
		}
		if l.json {
			return printJSON(cmd.OutOrStdout(), seen)
		}
		return l.print(cmd.OutOrStdout(), table(seen), show.Missing(seen, name, what))
	})
}
