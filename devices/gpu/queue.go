package gpu

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/kernels"
)

type kind uint8

const (
	launchCommand kind = iota
	productCommand
	copyCommand
	fillCommand
	uploadCommand
	downloadCommand
	departCommand // reports to another device when a tensor is ready
	arriveCommand // a copy from another device
	settleCommand // reports when all earlier work is done
)

// command is a unit of work for the device. Its kind determines which fields are used.
type command struct {
	kind        kind
	life        *life
	work        *work       // of a step; nil for constructors
	node        *graph.Node // the node that gave it; may be nil
	function    string
	grid, block [3]uint32
	shared      uint32
	from, to    int // range of the arguments in the batch's words
	product     *product
	dst, src    uint64
	bytes       int64
	value       byte
	host        []byte
	after       uint64 // an upload's memory is free once the compute stream has done all up to here
	last        bool   // an upload's last piece; later work waits for it
	leave       *departure
	// then is called once, on a thread that does not launch, when the command is done or dropped.
	then func(error)
}

// batch holds commands in the order in which they were given.
type batch struct {
	commands []command
	words    []uint64
	first    uint64 // the position of commands[0]
}

func (b *batch) reset() {
	clear(b.commands)
	b.commands, b.words = b.commands[:0], b.words[:0]
}

// queueLimit bounds the commands waiting for the device's thread.
const queueLimit = 1 << 14

// queue collects commands while the device's thread is busy. A command's position is its number in the order of giving, starting at 1.
type queue struct {
	mu       sync.Mutex
	filled   sync.Cond // the thread waits here
	emptied  sync.Cond // givers wait here
	batch    batch
	sleeping bool
	waiting  int
	closed   bool
	wanted   bool // the thread has other work to do
	given    atomic.Uint64
}

func newQueue() *queue {
	q := &queue{batch: batch{first: 1}}
	q.filled.L, q.emptied.L = &q.mu, &q.mu
	return q
}

// outcome is the result of giving a command.
type outcome uint8

const (
	taken outcome = iota
	refused
	late
)

// append appends a command of a step, which may be nil. It waits while the queue is full, so the caller must not hold a lock that the
// device's threads take. If the queue is still full grace after the step was cancelled, the result is late. If the queue is closed, it is
// refused.
func (q *queue) append(c command, words []uint64, step *kernels.Step, grace time.Duration) outcome {
	q.mu.Lock()
	defer q.mu.Unlock()
	var e *end
	gone := false
	for len(q.batch.commands) >= queueLimit && !q.closed && !gone {
		if e == nil {
			e = watch(step, grace, func(error) {
				q.mu.Lock()
				gone = true
				q.emptied.Broadcast()
				q.mu.Unlock()
			})
		}
		q.waiting++
		q.emptied.Wait()
		q.waiting--
	}
	if e != nil {
		e.first()
	}
	switch {
	case q.closed:
		return refused
	case gone:
		return late
	}
	c.from = len(q.batch.words)
	q.batch.words = append(q.batch.words, words...)
	c.to = len(q.batch.words)
	q.batch.commands = append(q.batch.commands, c)
	q.given.Add(1)
	q.awake()
	return taken
}

func (q *queue) awake() {
	if q.sleeping {
		q.sleeping = false
		q.filled.Signal()
	}
}

// wake makes next return without commands.
func (q *queue) wake() {
	q.mu.Lock()
	q.wanted = true
	q.awake()
	q.mu.Unlock()
}

// close closes the queue. Commands in it are still returned by next.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.awake()
	q.emptied.Broadcast()
	q.mu.Unlock()
}

// next swaps b, whose commands are done, for the collected commands. It waits until there are some, or wake or close was called. It returns
// false when the queue is closed and empty.
func (q *queue) next(b *batch) bool {
	b.reset()
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.batch.commands) == 0 && !q.closed && !q.wanted {
		q.sleeping = true
		q.filled.Wait()
	}
	q.sleeping, q.wanted = false, false
	*b, q.batch = q.batch, *b
	q.batch.first = b.first + uint64(len(b.commands))
	if q.waiting > 0 {
		q.emptied.Broadcast()
	}
	return len(b.commands) > 0 || !q.closed
}
