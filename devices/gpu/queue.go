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
	departCommand // tells another device when a tensor is ready
	arriveCommand // a copy from there
	settleCommand // tells when all before it is done
)

// command is one thing that the device is to do. Which fields count depends on its kind.
type command struct {
	kind        kind
	life        *life
	work        *work       // of a step; nil for that of constructors
	node        *graph.Node // whose it is; may be nil
	function    string
	grid, block [3]uint32
	shared      uint32
	from, to    int // the arguments, in the batch's words
	product     *product
	dst, src    uint64
	bytes       int64
	value       byte
	host        []byte
	after       uint64 // an upload's memory is free once the compute stream has done all up to here
	last        bool   // an upload's last piece, for which later work waits
	leave       *departure
	// then is called once, on a thread that does not launch, when the command is done or given up.
	then func(error)
}

// batch is commands in the order of their giving.
type batch struct {
	commands []command
	words    []uint64
	first    uint64 // the position of commands[0]
}

func (b *batch) reset() {
	clear(b.commands)
	b.commands, b.words = b.commands[:0], b.words[:0]
}

// queueLimit bounds the commands that wait for the device's thread.
const queueLimit = 1 << 14

// queue is where commands gather while the device's thread is busy. A command's position is its number
// in the order of giving, from 1 on.
type queue struct {
	mu       sync.Mutex
	filled   sync.Cond // the thread waits here
	emptied  sync.Cond // those who give wait here
	batch    batch
	sleeping bool
	waiting  int
	closed   bool
	wanted   bool // the thread has something else to look after
	given    atomic.Uint64
}

func newQueue() *queue {
	q := &queue{batch: batch{first: 1}}
	q.filled.L, q.emptied.L = &q.mu, &q.mu
	return q
}

// outcome is what became of a command that was given.
type outcome uint8

const (
	taken outcome = iota
	refused
	late
)

// give appends a command of a step, which may be nil. It waits while the queue is full, so no lock is held that the
// device's threads take; when the step was cancelled grace ago and the queue is full still, it is late.
// A closed queue has refused.
func (q *queue) give(c command, words []uint64, step *kernels.Step, grace time.Duration) outcome {
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

// wake has next return without commands.
func (q *queue) wake() {
	q.mu.Lock()
	q.wanted = true
	q.awake()
	q.mu.Unlock()
}

// close ends the queue: what is in it is still handed out.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.awake()
	q.emptied.Broadcast()
	q.mu.Unlock()
}

// next swaps b, whose commands are done, for what has gathered, and waits until there is something or wake or
// close was called. It is false when the queue is closed and empty.
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
