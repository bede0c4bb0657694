//go:build unix

package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/queues/pipeline"
)

// rowsInPython moves rows of 784 numbers through a queue on the first of two servers, in batches of 128: one thread enqueues there,
// and one dequeues through the second server. For each line, a number of rows, it prints the seconds that it took.
const rowsInPython = `
import os, sys, threading, time
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
def graph(device):
    g = tf.Graph()
    with g.as_default():
        with tf.device("/job:worker/task:0"):
            q = tf.queue.FIFOQueue(1024, [tf.float32], [[784]], shared_name="rows")
        with tf.device(device):
            x = tf.placeholder(tf.float32, [None, 784])
        put, got = q.enqueue_many([x]), q.dequeue_many(128)
        with tf.device(device):
            got = tf.identity(got)
    return g, x, put, got
g0, x, put, _ = graph("/job:worker/task:0")
g1, _, _, get = graph("/job:worker/task:1")
s0, s1 = tf.Session(sys.argv[1], graph=g0), tf.Session(sys.argv[2], graph=g1)
rows = np.zeros([128, 784], np.float32)
def through(batches):
    def enqueue():
        for _ in range(batches):
            s0.run(put, {x: rows})
    producer = threading.Thread(target=enqueue)
    begun = time.perf_counter()
    producer.start()
    for _ in range(batches):
        assert s1.run(get).shape == (128, 784)
    producer.join()
    return time.perf_counter() - begun
through(2)
print("TIME 0", flush=True)
for line in sys.stdin:
    print("TIME", int(1e9 * through(int(line) // 128)), flush=True)
os._exit(0)
`

// processorOf returns the processor time of a process, or 0 if the system does not report it.
func processorOf(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err1 != nil || err2 != nil {
		return 0
	}
	return time.Duration(user+system) * 10 * time.Millisecond // clock ticks
}

// pipelineRate moves n rows from a session on one master to a session on another, and returns the time that it took.
func pipelineRate(t *testing.T, name string, from, to troupe.Master, n int) time.Duration {
	t.Helper()
	type row struct{ Numbers [784]float32 }
	queue, err := pipeline.Declare[row](pipeline.Queue{Name: name, Device: "/job:worker/task:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := patient(t)
	var sessions [2]*troupe.Session
	for i, m := range []troupe.Master{from, to} {
		if sessions[i], err = m.NewSession(ctx, nil, nil); err != nil {
			t.Fatal(err)
		}
		defer sessions[i].Close(ctx)
	}
	producer, err := queue.Producer(ctx, sessions[0], pipeline.ProducerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := queue.Consumer(ctx, sessions[1], pipeline.ConsumerOptions{Batch: 128, Prefetch: 2})
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	done := make(chan error, 1)
	go func() {
		done <- producer.Range(ctx, func(yield func(row, error) bool) {
			var r row
			for i := 0; i < n && yield(r, nil); i++ {
			}
		})
	}()
	got := 0
	for batch, err := range consumer.Batches(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		got += batch.Len()
	}
	if err := <-done; err != nil || got != n {
		t.Fatalf("%d of %d rows came, %v", got, n, err)
	}
	return time.Since(begun)
}

// TestPipelineRates measures rows of 784 numbers through a queue from Go to Go across two tasks, and the same in Python on TensorFlow's own
// servers. It prints a table with the processor time of clients and servers together.
func TestPipelineRates(t *testing.T) {
	measures(t)
	targets, servers := tensorflowServers(t, 2)
	python := runPython(t, rowsInPython, targets...)
	c := newCluster(t, "worker=2")
	far := []*troupe.Client{dialTarget(t, c.tasks[0].target()), dialTarget(t, c.tasks[1].target())}
	near := embed(t, "worker", 2).servers

	const rows = 128 * 200
	self := os.Getpid()
	ways := []struct {
		name string
		pids []int
		move func(round int) time.Duration
	}{
		{"Python, TensorFlow's servers", []int{python.proc.cmd.Process.Pid, servers.cmd.Process.Pid}, func(int) time.Duration { return python.ask(rows) }},
		{"Go, servers in other processes", []int{self, c.tasks[0].proc.cmd.Process.Pid, c.tasks[1].proc.cmd.Process.Pid}, func(round int) time.Duration {
			return pipelineRate(t, fmt.Sprint("far", round), far[0], far[1], rows)
		}},
		{"Go, servers in the process", []int{self}, func(round int) time.Duration {
			return pipelineRate(t, fmt.Sprint("near", round), near[0], near[1], rows)
		}},
	}
	took, used := make([][]time.Duration, len(ways)), make([]time.Duration, len(ways))
	const rounds = 5
	for round := range rounds {
		for i, way := range ways {
			before := time.Duration(0)
			for _, pid := range way.pids {
				before += processorOf(pid)
			}
			took[i] = append(took[i], way.move(round))
			for _, pid := range way.pids {
				used[i] += processorOf(pid)
			}
			used[i] -= before
		}
	}
	t.Log("| way | rows a second | processor time of a row | ratio |")
	t.Log("| --- | --- | --- | --- |")
	for i, way := range ways {
		own := median(took[i])
		ratio := float64(median(took[0])) / float64(own)
		t.Logf("| %s | %.0f | %v | %.1f |", way.name, rows/own.Seconds(), (used[i] / (rounds * rows)).Round(100*time.Nanosecond), ratio)
		if i > 0 && ratio < 2 {
			t.Errorf("%s: %v, and %v in Python: less than twice as fast", way.name, own, median(took[0]))
		}
	}
}
