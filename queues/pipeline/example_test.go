package pipeline_test

import (
	"context"
	"fmt"
	"log"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/queues/pipeline"
)

// Words go through a queue of the cluster, from one session to another.
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
