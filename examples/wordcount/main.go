// Wordcount counts the words of a text with actors of its own on a cluster.
//
//	go run ./examples/wordcount
//
// runs a cluster of three tasks in this process. Each task has a splitter, which splits lines into words, and a
// counter. Words are divided among the counters by hash: on whichever task a word occurs, the same counter gets
// it. The same works across processes: the first one declares the cluster and the others join it:
//
//	go run ./examples/wordcount -cluster count=localhost:7101,localhost:7102,localhost:7103
//	go run ./examples/wordcount -join localhost:7101    (twice)
package main

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/examples/wordcount/words"
)

//go:embed text.txt
var text string

const job = "count"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "wordcount:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("wordcount", flag.ContinueOnError)
	cluster := flags.String("cluster", "", "be the first task of `count=host:port,host:port` and wait for the others")
	seeds := flags.String("join", "", "be a free task of the cluster that `host:port,host:port` are tasks of")
	if err := flags.Parse(args); err != nil {
		return err
	}
	opts := []troupe.Option{troupe.WithActor("splitter", newSplitter), troupe.WithActor("counter", newCounter), troupe.WithJob(job),
		troupe.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))}
	stop := func(s *troupe.Server) { err = errors.Join(err, s.Stop(context.WithoutCancel(ctx))) }
	if *seeds != "" {
		s, err := troupe.JoinCluster(ctx, strings.Split(*seeds, ","), opts...)
		if err != nil {
			return err
		}
		defer stop(s)
		fmt.Fprintf(out, "%s serves\n", s.Task())
		return until(ctx, s, func(t troupe.TaskStatus) bool { return t.Task == first && t.State == "down" })
	}
	addresses := strings.Split(strings.TrimPrefix(*cluster, job+"="), ",")
	here := 1 // tasks of this process
	if *cluster == "" {
		if addresses, err = freeAddresses(3); err != nil {
			return err
		}
		here = len(addresses)
	}
	var servers []*troupe.Server
	for i := range here { // all ports are bound before the first task looks for the others
		s, err := troupe.NewServer(ctx, troupe.ClusterSpec{job: addresses}, append(opts, troupe.WithTask(i), troupe.WithStart(false))...)
		if err != nil {
			return err
		}
		defer stop(s)
		servers = append(servers, s)
	}
	for _, s := range servers {
		if err := s.Start(ctx); err != nil {
			return err
		}
	}
	up := map[string]bool{}
	err = until(ctx, servers[0], func(t troupe.TaskStatus) bool {
		up[t.Task] = t.State == "up"
		return len(up) == len(addresses) && !slices.Contains(slices.Collect(maps.Values(up)), false)
	})
	if err != nil {
		return err
	}
	return count(ctx, servers[0], slices.Sorted(maps.Keys(up)), out)
}

// first is the task that has the text.
const first = "/job:" + job + "/replica:0/task:0"

// until follows the cluster's tasks until something has happened.
func until(ctx context.Context, s *troupe.Server, happened func(troupe.TaskStatus) bool) error {
	for t := range s.WatchTasks(ctx) {
		if happened(t) {
			return nil
		}
	}
	return ctx.Err()
}

// count has the text's words counted by actors on the tasks, and prints them.
func count(ctx context.Context, s *troupe.Server, tasks []string, out io.Writer) error {
	var splitters, counters []troupe.ActorRef
	for _, task := range tasks {
		counter, err := s.Spawn(ctx, "counter", troupe.ActorRef{Task: task, Name: counterName}, nil)
		if err != nil {
			return err
		}
		counters = append(counters, counter)
	}
	for _, task := range tasks {
		splitter, err := s.Spawn(ctx, "splitter", troupe.ActorRef{Task: task, Name: "splitter"}, &words.Tasks{Names: tasks})
		if err != nil {
			return err
		}
		splitters = append(splitters, splitter)
	}
	lines := 0
	for scan := bufio.NewScanner(strings.NewReader(text)); scan.Scan(); lines++ {
		// The answer tells that the line's words are counted: nothing is sent faster than that.
		if _, err := troupe.Ask[*words.Done](ctx, s, splitters[lines%len(splitters)], &words.Line{Text: scan.Text()}); err != nil {
			return err
		}
	}
	all := map[string]int64{}
	for _, counter := range counters {
		share, err := troupe.Ask[*words.Words](ctx, s, counter, &words.Total{})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%v has %d words\n", counter, len(share.Times))
		maps.Copy(all, share.Times)
	}
	fmt.Fprintf(out, "%d lines have %d different words; the most frequent are\n", lines, len(all))
	most := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Or(cmp.Compare(all[b], all[a]), strings.Compare(a, b)) })
	for _, word := range most[:5] {
		fmt.Fprintf(out, "%4d %s\n", all[word], word)
	}
	return nil
}

// freeAddresses are addresses of this machine that nobody has now.
func freeAddresses(n int) ([]string, error) {
	var all []string
	for range n {
		l, err := net.Listen("tcp", "localhost:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all, nil
}
