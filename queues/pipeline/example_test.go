package pipeline_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/queues/pipeline"
)

// Words pass through a queue of the cluster, from one session to another.
func Example() {
	ctx := context.Background()
	server, err := troupe.NewLocalServer(ctx, troupe.WithLogger(silent))
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop(ctx)
	session, err := server.NewSession(ctx, nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx)

	type Word struct {
		Text   string
		Length int64
	}
	queue, err := pipeline.Declare[Word](pipeline.Queue{Name: "words"})
	if err != nil {
		log.Fatal(err)
	}
	producer, err := queue.Producer(ctx, session, pipeline.ProducerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	consumer, err := queue.Consumer(ctx, session, pipeline.ConsumerOptions{Batch: 2})
	if err != nil {
		log.Fatal(err)
	}

	for _, text := range []string{"all", "the", "world's"} {
		if err := producer.Put(ctx, Word{text, int64(len(text))}); err != nil {
			log.Fatal(err)
		}
	}
	if err := producer.Close(ctx); err != nil {
		log.Fatal(err)
	}
	for batch, err := range consumer.Batches(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		for _, word := range batch.All() {
			fmt.Println(word.Text, word.Length)
		}
	}
	// Output:
	// all 3
	// the 3
	// world's 7
}

// A consumer that leases batches may fail: what it has not acknowledged goes to the next one.
func ExampleConsumerOptions_lease() {
	ctx := context.Background()
	server, err := troupe.NewLocalServer(ctx, troupe.WithLogger(silent))
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop(ctx)
	session := pipeline.Reconnect(func(ctx context.Context) (pipeline.OpenedSession, error) { return server.NewSession(ctx, nil, nil) })
	defer session.Close(ctx)
	queue, err := pipeline.Declare[string](pipeline.Queue{Name: "jobs"})
	if err != nil {
		log.Fatal(err)
	}
	producer, err := queue.Producer(ctx, session, pipeline.ProducerOptions{Retry: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	if err := producer.Range(ctx, pipeline.All(slices.Values([]string{"cut", "sew", "iron", "pack"}))); err != nil {
		log.Fatal(err)
	}
	for _, worker := range []string{"first", "second"} {
		consumer, err := queue.Consumer(ctx, session, pipeline.ConsumerOptions{Lease: 30 * time.Second, Retry: time.Minute})
		if err != nil {
			log.Fatal(err)
		}
		for batch, err := range consumer.Batches(ctx) { // acknowledges the batch before
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(worker, batch.At(0))
			if batch.At(0) == "sew" && worker == "first" {
				break // it fails
			}
		}
	}
	// Output:
	// first cut
	// first sew
	// second sew
	// second iron
	// second pack
}
