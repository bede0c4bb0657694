// Pipeline moves words through a queue of the cluster, from a process to others, and loses none if a process dies:
//
//	troupe serve --worker localhost:7101 --task 0
//	go run ./examples/pipeline -target grpc://localhost:7101 -run monday         (as often as you like)
//	go run ./examples/pipeline -target grpc://localhost:7101 -run monday -produce 100000
//
// A run has a queue of its own, in a container of its name. It takes no words of another run that is under way, or that was killed and has left
// some. The next run needs another name; troupe reset grpc://localhost:7101 monday deletes what a run has left.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/queues/pipeline"
)

type word struct{ Text string }

func main() {
	target, produce := flag.String("target", "", "a server of the cluster"), flag.Int("produce", 0, "put so many words, instead of consuming them")
	name := flag.String("run", "", "the name that the producer and the consumers of this run share")
	flag.Parse()
	if *name == "" {
		log.Fatal("the run needs a name: -run")
	}
	words, err := run(context.Background(), *target, *name, *produce)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(words, "words")
}

// run produces or consumes the words of a run, and returns how many.
func run(ctx context.Context, target, name string, produce int) (words int, err error) {
	client, err := troupe.Dial(ctx, target)
	if err != nil {
		return words, err
	}
	defer client.Close(ctx)
	session := pipeline.Reconnect(func(ctx context.Context) (pipeline.OpenedSession, error) { return client.NewSession(ctx, nil, nil) })
	defer session.Close(ctx)
	queue, err := pipeline.Declare[word](pipeline.Queue{Name: "words", Container: name, Device: "/job:worker/task:0", Capacity: 4096})
	if err != nil {
		return words, err
	}
	if produce > 0 {
		producer, err := queue.Producer(ctx, session, pipeline.ProducerOptions{Retry: time.Minute})
		if err != nil {
			return words, err
		}
		for i := range produce {
			if err := producer.Put(ctx, word{fmt.Sprint("word ", i)}); err != nil {
				return words, err
			}
		}
		return produce, producer.Close(ctx)
	}
	consumer, err := queue.Consumer(ctx, session, pipeline.ConsumerOptions{Batch: 128, Lease: 10 * time.Second, Retry: time.Minute})
	if err != nil {
		return words, err
	}
	for batch, err := range consumer.Batches(ctx) {
		if err != nil {
			return words, err
		}
		words += batch.Len()
	}
	return words, nil
}
