// Package demo shows what a cluster is for. It starts one, uses it as clients do, over gRPC, checks every
// result, and prints what it did.
package demo

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/remote/client"
)

// act is one part of the demo. It prints what it checked.
type act struct {
	title string
	run   func(ctx context.Context, s *stage) (checked string, err error)
}

var acts = []act{
	{"a variable is shared through two masters", sharedVariable},
	{"containers keep problems apart, and reset empties one", containersAndReset},
	{"a producer and a consumer meet in a queue", queueBetweenMasters},
	{"two workers train on a parameter server at once", training},
}

// stage is what an act runs on: a client for each task.
type stage struct {
	cluster          *troupe.LocalCluster
	ps               *client.Client
	worker0, worker1 *client.Client
	out              *printer
}

// stopTime bounds the end of the cluster.
const stopTime = 3 * time.Second

// Options say how the demo runs.
type Options struct {
	// Fancy prints with colours.
	Fancy bool
	// Stay has the cluster train on after the acts, until the context ends.
	Stay bool
	// Started, if set, is called with the URL of the HTTP endpoint once the cluster is up.
	Started func(address string)
	// Cluster is added to the cluster's options.
	Cluster []troupe.Option
}

// Run runs the demo and reports on w. An error says which act failed and how. Nothing is left running.
func Run(ctx context.Context, w io.Writer, o Options) (err error) {
	out := &printer{w: w, fancy: o.Fancy}
	began := time.Now()
	out.line("Troupe: a cluster of three tasks in this process, driven over gRPC.")
	log := &journal{}
	quiet := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cluster, err := troupe.NewLocalCluster(ctx, map[string]int{"ps": 1, "worker": 2}, append(o.Cluster, troupe.WithLogger(quiet), troupe.WithGPUs(0))...)
	if err != nil {
		return fmt.Errorf("the cluster did not come up: %w", err)
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		if e := cluster.Stop(stop); e != nil && err == nil {
			err = fmt.Errorf("the cluster did not stop in order: %w", e)
		}
		if err != nil {
			plain.Println(w, strings.Split(log.String(), "\n")...)
		} else {
			out.line("")
			out.line("All of it worked, in %s. TensorFlow's own client does the same: see README.md.", short(time.Since(began)))
		}
	}()
	for _, s := range cluster.Servers() {
		out.line("  %-30s %s", s.Task(), s.Target())
	}
	if at := cluster.Servers()[0].HTTP(); at != "" {
		out.line("  HTTP at %s", at)
		if o.Started != nil {
			o.Started(at)
		}
	}
	out.line("  up after %s", short(time.Since(began)))

	s := &stage{cluster: cluster, out: out}
	for _, c := range []struct {
		client *(*client.Client)
		job    string
		task   int
	}{{&s.ps, "ps", 0}, {&s.worker0, "worker", 0}, {&s.worker1, "worker", 1}} {
		if *c.client, err = client.Dial(ctx, cluster.Server(c.job, c.task).Target()); err != nil {
			return err
		}
		defer (*c.client).Close(ctx)
	}
	for i, a := range acts {
		out.title(i+1, a.title)
		start := time.Now()
		checked, err := a.run(ctx, s)
		if err != nil {
			out.failed(err)
			return fmt.Errorf("%s: %w", a.title, err)
		}
		out.passed(checked, time.Since(start))
	}
	if o.Stay {
		out.line("")
		out.line("The cluster goes on until it is interrupted (Ctrl-C).")
		return stay(ctx, s)
	}
	return nil
}

// pause is between rounds of stay, which leaves the machine most of its time.
const pause = 200 * time.Millisecond

// stay has the workers train again and again, without output, until ctx ends.
func stay(ctx context.Context, s *stage) error {
	s.out = &printer{w: io.Discard}
	again := time.NewTicker(pause)
	defer again.Stop()
	for {
		if _, err := training(ctx, s); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// journal keeps what the servers log: it matters only if something goes wrong.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

// maxJournal bounds the kept text in bytes.
const maxJournal = 64 << 10

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.text.Len() < maxJournal {
		j.text.Write(line)
	}
	return len(line), nil
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// printer writes lines for people.
type printer struct {
	w     io.Writer
	fancy bool
}

func (p *printer) style(code, text string) string {
	if !p.fancy {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// line prints a line. Styles are part of the format: control characters in arguments are not printed.
func (p *printer) line(format string, args ...any) { plain.Printf(p.w, format+"\n", args...) }

func (p *printer) title(number int, text string) {
	p.line("")
	p.line(p.style("1", "%d. %s"), number, text)
}

// says prints what happens, indented under the title.
func (p *printer) says(format string, args ...any) { p.line("   "+format, args...) }

func (p *printer) passed(checked string, took time.Duration) {
	p.says(p.style("32", "ok:")+" %s (%s)", checked, short(took))
}

func (p *printer) failed(err error) { p.says(p.style("31", "failed:")+" %v", err) }

func short(d time.Duration) string {
	if d < time.Millisecond {
		return d.Round(time.Microsecond).String()
	}
	return d.Round(time.Millisecond / 10).String()
}
