// Wordcount counts the words of a text with its own actors on a cluster. Its binary is a server with all flags of troupe serve:
//
//	go run ./examples/wordcount --count=localhost:7101,localhost:7102,localhost:7103 --task 0
//	go run ./examples/wordcount --join localhost:7101    (twice)
//
// runs a cluster of three tasks. Each task has a splitter, which splits lines into words, and a counter. Words are assigned to counters by hash,
// so all occurrences of a word go to the same counter, whichever task finds them. Task 0 waits for the others, prints the result and ends, and
// the others end with it. Without arguments, the three tasks run in this process.
package main

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/examples/wordcount/words"
	"github.com/troupe-run/troupe/serve"
)

//go:embed text.txt
var text string

var kinds = []troupe.Option{troupe.WithActor("splitter", newSplitter), troupe.WithActor(counterName, newCounter)}

func main() {
	if len(os.Args) > 1 {
		serve.Program{Options: kinds, Started: work}.Main()
	}
	if err := local(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// local runs the cluster in this process.
func local(ctx context.Context, out io.Writer) error {
	cluster, err := troupe.NewLocalCluster(ctx, map[string]int{"count": 3}, kinds...)
	if err != nil {
		return err
	}
	return errors.Join(countOnce(ctx, cluster.Servers()[0], out), cluster.Stop(ctx))
}

// work counts the words if the server is task 0, or waits until task 0 is down. Then it stops the server, and with it the program.
func work(ctx context.Context, s *troupe.Server) error {
	first := fmt.Sprintf("/job:%s/replica:0/task:0", s.ServerDef().JobName)
	if s.Task() == first {
		if err := countOnce(ctx, s, os.Stdout); err != nil {
			return err
		}
		return s.Stop(ctx)
	}
	fmt.Printf("%s serves\n", s.Task())
	for t := range s.WatchTasks(ctx) {
		if t.Task == first && t.State == "down" {
			return s.Stop(ctx)
		}
	}
	return ctx.Err()
}

// countOnce counts the words as soon as all tasks are up.
func countOnce(ctx context.Context, s *troupe.Server, out io.Writer) error {
	tasks := 0
	for _, job := range s.ServerDef().Cluster.Job {
		tasks += len(job.Tasks)
	}
	up := map[string]bool{}
	for t := range s.WatchTasks(ctx) {
		if t.State == "up" {
			up[t.Task] = true
		} else {
			delete(up, t.Task)
		}
		if len(up) == tasks {
			return count(ctx, s, slices.Sorted(maps.Keys(up)), out)
		}
	}
	return ctx.Err()
}

// count lets actors on the tasks count the text's words, and prints the result.
func count(ctx context.Context, s *troupe.Server, tasks []string, out io.Writer) error {
	var splitters, counters []troupe.ActorRef
	for _, task := range tasks {
		counter, err := s.Spawn(ctx, "counter", troupe.ActorAt(task, counterName), nil)
		if err != nil {
			return err
		}
		counters = append(counters, counter)
	}
	for _, task := range tasks {
		splitter, err := s.Spawn(ctx, "splitter", troupe.ActorAt(task, "splitter"), &words.Tasks{Names: tasks})
		if err != nil {
			return err
		}
		splitters = append(splitters, splitter)
	}
	lines := 0
	for scan := bufio.NewScanner(strings.NewReader(text)); scan.Scan(); lines++ {
		// The answer means that the line's words are counted, so lines are not sent faster than they are processed.
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
