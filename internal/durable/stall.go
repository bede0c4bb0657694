package durable

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
)

const (
	// slowAfter is how long an operation of the disk may take before the log says so.
	slowAfter = 10 * time.Second
	// stalledAfter is how long an operation of the disk may take before the disk counts as stalled: changes are refused until it has ended.
	// Disks that are only slow take seconds, for the sync of a large batch.
	stalledAfter = 30 * time.Second
	// stallInterval is how often Outlast looks whether the disk is stalled.
	stallInterval = time.Second
)

// operation is an access to the disk that has begun.
type operation struct {
	op, name string
	began    time.Time
	told     bool // the log was told that it is slow
}

// operations are the accesses to the disk that have begun and have not ended, but for reads of open files. A network file system that is gone, or a
// volume that is frozen, reports no error: its operations do not end.
type operations struct {
	log *slog.Logger

	stalled atomic.Pointer[operation] // the oldest, once it has taken stalledAfter

	mu      sync.Mutex   // guards running and armed: pebble calls from many goroutines, each of which is held up in its operation
	running []*operation // in the order in which they began
	armed   *time.Timer  // looks at the operations again; nil when there was none at its last look
}

// during calls f, which accesses the disk.
func (o *operations) during(op, name string, f func() error) error {
	defer o.end(o.begin(op, name))
	return f()
}

// begin notes that an operation begins.
func (o *operations) begin(op, name string) *operation {
	began := &operation{op: op, name: name, began: time.Now()}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running = append(o.running, began)
	if o.armed == nil {
		o.armed = time.AfterFunc(slowAfter, contain.Func(o.log, "A look at the operations of the disk", o.look, nil))
	}
	return began
}

// end notes that an operation has ended.
func (o *operations) end(ended *operation) {
	o.mu.Lock()
	o.running = slices.DeleteFunc(o.running, func(r *operation) bool { return r == ended })
	o.stalled.CompareAndSwap(ended, nil) // look finds the next one, if there is one
	told := ended.told
	o.mu.Unlock()
	if told {
		o.log.Info("The disk of the durable store answers again", "operation", ended.op, "file", ended.name, "took", time.Since(ended.began))
	}
}

// look looks for operations that take long, and arms the timer if there are operations.
func (o *operations) look() {
	now := time.Now()
	var slow *operation
	o.mu.Lock()
	if o.armed == nil || len(o.running) == 0 {
		o.armed = nil
		o.mu.Unlock()
		return
	}
	oldest := o.running[0]
	age, next := now.Sub(oldest.began), slowAfter
	switch {
	case age >= stalledAfter:
		o.stalled.Store(oldest)
	case age >= slowAfter:
		next = stalledAfter - age
	default:
		next = slowAfter - age
	}
	if age >= slowAfter && !oldest.told {
		oldest.told, slow = true, oldest
	}
	o.armed.Reset(next)
	o.mu.Unlock()
	if slow != nil {
		o.log.Warn("The disk of the durable store does not answer; steps that change durable resources wait for it", "operation", slow.op, "file", slow.name,
			"for", age)
	}
}

// stop ends the timer, so that nothing of a store that is closed stays in memory.
func (o *operations) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.armed != nil {
		o.armed.Stop()
		o.armed = nil
	}
}

// stalls returns an UNAVAILABLE error if the disk is stalled.
func (s *Store) stalls() error {
	if o := s.guard.operations.stalled.Load(); o != nil {
		return status.Errorf(status.Unavailable, "the disk of the durable store in %s has not answered for %s (%s %s); changes are refused until it does",
			s.dir, time.Since(o.began).Truncate(time.Second), o.op, o.name)
	}
	return nil
}

// Outlast calls f, which writes to the store or closes it, and returns f's error. If the disk stalls, it returns UNAVAILABLE and leaves f behind:
// nobody can end an operation of the disk.
func (s *Store) Outlast(f func() error) error {
	ended := make(chan error, 1)
	contain.Go(s.log, "The end of the durable store", func() { ended <- f() }, func(err error) { ended <- err })
	t := time.NewTicker(stallInterval)
	defer t.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-t.C:
			if err := s.stalls(); err != nil {
				return err
			}
		}
	}
}
