package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/cmd/troupe/internal/show"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/command/flagset"
	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/client"
	"golang.org/x/term"
)

func newTop(stdin *os.File) *cobra.Command {
	var once bool
	var order string
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "top TARGET[,TARGET…]",
		Short: "Watch a cluster at work",
		Long: `Top shows the cluster, and again every --interval: its tasks with the processor time and memory that they use, steps and
errors in a second, and the latency of steps; the steps that are slow or blocked, and why; queues and how full they are;
links. Processor time is in percent of one processor, and a latency is at most what is shown and more than half of it.
Latencies, steps and errors are those of the last interval, of the sessions whose master the task is.

Keys: q quits, and these sort the tasks: ` + show.Orders + `.`,
		Example: "  troupe top grpc://10.0.0.2:2222\n  troupe top grpc://10.0.0.2:2222 --once --sort c",
		Args:    targetOnly,
	}
	cmd.Flags().BoolVar(&once, "once", false, "print what is the case after one interval, and end")
	cmd.Flags().StringVar(&order, "sort", string(show.ByName), "how to sort the tasks at first: "+show.Orders)
	flagset.Duration(cmd.Flags(), &interval, "interval", 2*time.Second, intervals, "how often to ask")
	return watch(cmd, func(ctx context.Context, c *client.Client, timeout time.Duration, _ []string) error {
		t := &top{client: c, timeout: timeout, interval: interval, out: cmd.OutOrStdout()}
		if len(order) == 1 {
			t.screen.Order = show.Order(order[0])
		}
		switch {
		case !t.screen.Order.Known():
			return exit.Usage(fmt.Errorf("--sort is one of %s, not %q", show.Orders, order))
		case once:
			return t.once(ctx)
		}
		out, ok := t.out.(*os.File)
		if !ok || stdin == nil || !term.IsTerminal(int(out.Fd())) || !term.IsTerminal(int(stdin.Fd())) {
			return exit.Usage(errors.New("standard input and output are no terminal: give --once"))
		}
		return t.run(ctx, stdin, out)
	})
}

// top shows a cluster and keeps refreshing it.
type top struct {
	client            *client.Client
	timeout, interval time.Duration
	out               io.Writer
	screen            show.Screen
	answered          time.Time
}

// look queries the cluster and updates the screen. After an error, the screen keeps its contents and shows the error.
func (t *top) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	q := view.ForWhy()
	q.Sections = append(q.Sections, "resources", "links")
	seen, err := t.client.See(ctx, q)
	if err != nil {
		t.screen.Trouble = "No answer: " + err.Error()
		if !t.answered.IsZero() {
			t.screen.Trouble = fmt.Sprintf("No answer for %s: %v", show.Age(int64(time.Since(t.answered))), err)
		}
		return err
	}
	t.answered = time.Now()
	t.screen.Trouble = ""
	t.screen.Before, t.screen.Now, t.screen.Reasons = t.screen.Now, seen, view.WhyAll(seen, show.Slow)
	return nil
}

// once looks twice, and prints the screen of any size.
func (t *top) once(ctx context.Context) error {
	if err := t.look(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(t.interval):
	}
	if err := t.look(ctx); err != nil {
		return err
	}
	if f, ok := t.out.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil {
			t.screen.Columns = columns
		}
	}
	_, err := plain.Println(t.out, t.screen.Render()...)
	return err
}

// Control sequences of terminals: switch to the alternate screen without a cursor, move to the upper left corner, clear the rest of a line
// and of the screen, and switch back.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	home        = "\x1b[H"
	clearLine   = "\x1b[K\r\n"
	clearRest   = "\x1b[J"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
)

// run shows the cluster on a terminal until q is pressed.
func (t *top) run(ctx context.Context, in, out *os.File) error {
	if err := t.look(ctx); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return err
	}
	defer func() {
		_, _ = io.WriteString(out, leaveScreen) // the process ends
		_ = term.Restore(int(in.Fd()), before)
	}()
	if _, err := io.WriteString(out, enterScreen); err != nil {
		return err
	}
	keys := make(chan byte)
	go func() { // reads until the process ends: a read of a terminal cannot be interrupted
		var key [1]byte
		for {
			if n, err := in.Read(key[:]); n == 0 || err != nil {
				close(keys)
				return
			}
			select {
			case keys <- key[0]:
			case <-ctx.Done():
				return
			}
		}
	}()
	tick := time.NewTicker(t.interval)
	defer tick.Stop()
	looked := make(chan struct{}, 1)
	looking := false
	var next *top
	for {
		if err := t.draw(out); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case key, ok := <-keys:
			switch {
			case !ok || key == 'q' || key == 'Q' || key == 3: // Ctrl-C
				return nil
			case show.Order(key).Known():
				t.screen.Order = show.Order(key)
			}
		case <-tick.C:
			if !looking {
				looking = true
				next = t.screenCopy()
				go func() { // ends within the time limit
					_ = next.look(ctx) // the screen shows the error
					looked <- struct{}{}
				}()
			}
		case <-looked:
			looking = false
			next.screen.Order = t.screen.Order
			t.screen, t.answered = next.screen, next.answered
		}
	}
}

// screenCopy returns a copy that can query the cluster while the screen is shown.
func (t *top) screenCopy() *top {
	c := *t
	return &c
}

// draw shows the screen.
func (t *top) draw(out *os.File) error {
	columns, lines, err := term.GetSize(int(out.Fd()))
	if err != nil {
		return err
	}
	t.screen.Columns, t.screen.Lines = columns, lines-1
	var b strings.Builder
	b.WriteString(home)
	for _, line := range t.screen.Render() {
		b.WriteString(line + clearLine)
	}
	b.WriteString(clearRest)
	_, err = io.WriteString(out, b.String())
	return err
}
