package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/cmd/troupe/internal/show"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/command/flagset"
	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/client"
)

func newEvents() *cobra.Command {
	var follow bool
	var interval time.Duration
	l := &look{}
	cmd := &cobra.Command{
		Use:   "events TARGET[,TARGET…]",
		Short: "Show the latest events of a cluster",
		Long: `Events shows what has happened on the tasks, in order: sessions that were opened and closed, steps that
failed or were cancelled, tasks and devices that were lost and came back, resets, refusals, stalled links,
sessions that got nothing from a queue that had been closed before. Each task keeps the latest 4096 events.
With -f, it goes on and shows new events as they happen, until it is interrupted or the server has not
answered for --timeout.`,
		Example: "  troupe events grpc://10.0.0.2:2222 -f",
		Args:    targetOnly,
	}
	l.add(cmd, "events")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens from now on")
	flagset.Duration(cmd.Flags(), &interval, "interval", time.Second, intervals, "with -f, how often to ask")
	return watch(cmd, func(ctx context.Context, c *client.Client, timeout time.Duration, _ []string) error {
		if err := l.check(); err != nil {
			return err
		}
		f := &following{look: l, out: cmd.OutOrStdout(), client: c, timeout: timeout, known: map[string]knownEvents{}}
		seen, err := f.ask(ctx)
		if err != nil {
			return err
		}
		if err := f.print(seen); err != nil {
			return err
		}
		if !follow {
			if l.json {
				return nil
			}
			missing := show.Missing(seen, "events", "events")
			if !anyEvents(seen) && len(missing) == 0 {
				_, err := plain.Println(cmd.OutOrStdout(), "no events")
				return err
			}
			return l.print(cmd.OutOrStdout(), nil, missing)
		}
		return f.follow(ctx, interval)
	})
}

// intervals are the times between a command's requests to a server.
var intervals = flagset.Bounds[time.Duration]{Least: 100 * time.Millisecond, Most: flagset.Longest}

// following shows events as they happen.
type following struct {
	look    *look
	out     io.Writer
	client  *client.Client
	timeout time.Duration
	known   map[string]knownEvents // by task
}

// knownEvents records the shown events of a task: up to a number, for one start of its process.
type knownEvents struct {
	boot string
	last uint64
}

// ask requests the events that were not shown yet.
func (f *following) ask(ctx context.Context) (*client.ClusterView, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	q := &client.Query{Sections: []string{"events"}, Tasks: f.look.tasks, EventsAfterOf: map[string]uint64{}}
	for task, k := range f.known {
		q.EventsAfterOf[task] = k.last
	}
	seen, err := f.look.see(ctx, f.client, q)
	if err != nil {
		return nil, err
	}
	for _, t := range seen.Tasks {
		boot, k := t.GetProcess().GetBoot(), f.known[t.Task]
		switch {
		case boot == "": // it did not answer
		case k.boot != "" && k.boot != boot:
			// The requested numbers belonged to its previous start: the next answer has all events of this one.
			t.Events = nil
			f.known[t.Task] = knownEvents{boot: boot}
		default:
			k.boot = boot
			if n := len(t.Events); n > 0 {
				k.last = t.Events[n-1].Number
			}
			f.known[t.Task] = k
		}
	}
	return seen, nil
}

// print prints the events of an answer. As JSON with -f, it prints one value for each answer that has events.
func (f *following) print(seen *client.ClusterView) error {
	if f.look.json {
		return printJSON(f.out, seen)
	}
	for _, line := range show.EventLines(seen, time.Local, f.look.columns(f.out)) {
		if _, err := plain.Println(f.out, line); err != nil {
			return err
		}
	}
	return nil
}

// follow shows new events until ctx ends, or the server has not answered for the time limit.
func (f *following) follow(ctx context.Context, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	answered := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		seen, err := f.ask(ctx)
		switch {
		case err != nil && (time.Since(answered) > f.timeout || exit.CodeOf(exit.FromServer(err), exit.CodeFailed) != exit.CodeUnreachable):
			return err
		case err != nil:
			continue // it may be starting again
		}
		answered = time.Now()
		if anyEvents(seen) {
			if err := f.print(seen); err != nil {
				return err
			}
		}
	}
}

func anyEvents(c *client.ClusterView) bool {
	n := 0
	for _, t := range c.Tasks {
		n += len((*view.Task).GetEvents(t))
	}
	return n > 0
}
