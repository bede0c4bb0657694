// Package pipeline moves elements of Go types through a queue of the cluster, from producers to consumers, which may be in other sessions,
// processes, machines and languages.
//
// Both sides declare the queue, which is on a task and outlives their sessions:
//
//	type Row struct {
//		Image [784]float32
//		Label int64
//	}
//	queue, err := pipeline.Declare[Row](pipeline.Queue{Name: "rows", Device: "/job:ps/task:0", Capacity: 4096})
//
// A producer puts rows in, and closes the queue when there are no more:
//
//	producer, err := queue.Producer(ctx, session, pipeline.ProducerOptions{})
//	…
//	err = producer.Range(ctx, rows) // any iter.Seq2[Row, error]
//
// A consumer is an iterator of batches that ends when the queue is closed and empty:
//
//	consumer, err := queue.Consumer(ctx, session, pipeline.ConsumerOptions{Batch: 128, Prefetch: 2})
//	…
//	for batch, err := range consumer.Batches(ctx) {
//
// A dataset (tf.data) of the queue's elements passes them through further stages on the queue's task. With Elements and Map, a Go function
// is a stage between two datasets:
//
//	dataset := queue.Dataset(scope)
//
// In Python, the same queue is
//
//	tf.queue.FIFOQueue(4096, [tf.float32, tf.int64], [[784], []], shared_name="rows")
//
// under tf.device("/job:ps/task:0"). Fields become components, in order. Package troupe.pipeline of Python is for programs without TensorFlow.
//
// # Guarantees
//
// Elements of one producer come out in the order in which they were put in, as long as it has one batch in flight
// (ProducerOptions.InFlight) and one consumer reads them. By default, nothing is lost or duplicated unless a server or a connection fails. If one
// fails, a batch in flight may or may not have been enqueued, and the producer gets the error. A consumer whose loop ends early loses what
// it has prefetched; prefetching is therefore bounded, and off by default. A producer waits while the queue is full and a consumer waits
// while it is empty, both until their context ends.
//
// With ConsumerOptions.Lease, the delivery is at least once: a batch stays in the queue until the loop has acknowledged it, and goes to another
// consumer if it does not. With ProducerOptions.Retry, a put is repeated after an outage and stored once. Both ends can go on in a new session
// when theirs was lost (Reconnect). What a queue's task held when it died is lost.
//
// A producer that fails closes the queue with its error. Consumers get what is in the queue, then that error. TensorFlow's own servers do
// not pass the reason on: their consumers only learn that the queue was closed.
package pipeline
