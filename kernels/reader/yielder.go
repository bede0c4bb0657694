package reader

import (
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/disk"
	"github.com/troupe-run/troupe/kernels/internal/tfrecord"
	"github.com/troupe-run/troupe/queues"
)

// YielderOptions defines what a Yielder reads, and how.
type YielderOptions struct {
	// Patterns are the patterns of the file names, separated by commas.
	Patterns string
	// Seed determines the order. It differs from TensorFlow's order, which also depends on the timing of its threads.
	Seed int64
	// Shift, if it is in [0,1), is the fraction by which the shuffled files are rotated.
	Shift float32
	// Buffer is the number of records in the shuffle buffer, at least 1.
	Buffer int
	// Parallelism is the number of files read concurrently, at least 1.
	Parallelism int
	Compression tfrecord.Compression
}

// Yielder returns the records of files in random order (core/kernels/record_yielder.cc): each one once per epoch, indefinitely. Except at
// the end of an epoch, a record is returned only when the buffer is at least half full. The next epoch starts when the buffer is empty. All
// methods may be called concurrently.
type Yielder struct {
	options YielderOptions

	fsys files.FS // of the first caller of Yield

	mu       sync.Mutex
	changed  sync.Cond // signals the goroutines that read files
	buffer   []string
	capacity int
	rng      *rand.Rand
	added    int  // in this epoch
	epochEnd bool // all records of the epoch are in the buffer, or were
	err      error
	running  bool
	closed   bool
	waiting  []*yield
	ended    chan struct{}
}

// yield is a request waiting for records.
type yield struct {
	step    queues.Step
	n       int
	records []string
	err     error
	done    func([]string, error)
}

// NewYielder returns a Yielder. It reads nothing until records are requested.
func NewYielder(o YielderOptions) *Yielder {
	y := &Yielder{options: o, capacity: max(o.Buffer, 1), rng: rand.New(rand.NewPCG(uint64(o.Seed), 0)), ended: make(chan struct{})}
	y.changed.L = &y.mu
	return y
}

// Yield requests n records for a step. done is called once, on any goroutine. The returned function, like the step's end, cancels the wait; done
// then gets CANCELLED, and the records collected so far return to the buffer. A read error is returned by all later calls. fsys holds the files
// that the caller may use; it must be the same for all calls.
func (y *Yielder) Yield(step queues.Step, fsys files.FS, n int, done func([]string, error)) (cancel func(error)) {
	w := &yield{step: step, n: n, done: done}
	y.mu.Lock()
	if !y.running && !y.closed {
		y.running, y.fsys = true, fsys
		contain.Go(nil, "A record yielder", y.run, func(err error) { y.fail(err) })
	}
	y.waiting = append(y.waiting, w)
	y.serve()
	return func(cause error) {
		y.mu.Lock()
		if i := slices.Index(y.waiting, w); i >= 0 {
			y.waiting = slices.Delete(y.waiting, i, i+1)
			y.putBack(w)
			w.err = Cancelled(cause)
			y.serve(w)
			return
		}
		y.mu.Unlock()
	}
}

// putBack returns the records of a cancelled request to the buffer.
func (y *Yielder) putBack(w *yield) {
	y.buffer = append(y.buffer, w.records...)
	w.records = nil
}

// enough reports whether a record may be returned.
func (y *Yielder) enough() bool {
	if y.epochEnd {
		return len(y.buffer) > 0
	}
	return len(y.buffer) >= max(1, y.capacity/2)
}

// serve completes waiting requests after those that are served already, and unlocks.
func (y *Yielder) serve(served ...*yield) {
	err := y.err
	if y.closed && err == nil {
		err = status.New(status.Aborted, "stopped")
	}
	for len(y.waiting) > 0 {
		w := y.waiting[0]
		if ended := w.step.Err(); ended != nil && err == nil {
			y.putBack(w)
			w.err = Cancelled(ended)
			served = append(served, w)
			y.waiting = y.waiting[1:]
			continue
		}
		if err == nil && len(w.records) < w.n {
			if !y.enough() {
				break
			}
			last := len(y.buffer) - 1
			w.records = append(w.records, y.buffer[last])
			y.buffer[last] = ""
			y.buffer = y.buffer[:last]
			continue
		}
		w.err = err
		served = append(served, w)
		y.waiting = y.waiting[1:]
	}
	y.changed.Broadcast()
	y.mu.Unlock()
	for _, w := range served {
		if w.err != nil {
			w.records = nil
		}
		w.done(w.records, w.err)
	}
}

// Close stops reading. Waiting requests end with ABORTED. Files may remain open until Done is closed.
func (y *Yielder) Close() {
	y.mu.Lock()
	if !y.closed && !y.running {
		close(y.ended)
	}
	y.closed = true
	y.serve()
}

// Done returns a channel that is closed when the Yielder is closed and all its work has ended.
func (y *Yielder) Done() <-chan struct{} { return y.ended }

// fail records err, which may be nil, unless an error is recorded already. It reports whether reading is over.
func (y *Yielder) fail(err error) (over bool) {
	y.mu.Lock()
	if y.err == nil {
		y.err = err
	}
	over = y.err != nil || y.closed
	y.serve()
	return over
}

// run reads epoch after epoch.
func (y *Yielder) run() {
	defer close(y.ended)
	for epoch := uint64(1); ; epoch++ {
		names, err := y.names(epoch)
		if y.fail(err) {
			return
		}
		var shards sync.WaitGroup
		n := min(y.options.Parallelism, maxParallelism, len(names))
		for i := range n {
			shards.Go(contain.Func(nil, "A record yielder", func() {
				for j := i; j < len(names); j += n {
					if y.fail(y.read(names[j])) {
						return
					}
				}
			}, func(err error) { y.fail(err) }))
		}
		shards.Wait()
		if y.endEpoch() {
			return
		}
	}
}

// endEpoch waits until all records have been returned, and reports whether reading is over.
func (y *Yielder) endEpoch() (over bool) {
	y.mu.Lock()
	if y.added == 0 && y.err == nil {
		y.err = status.Errorf(status.NotFound, "Found no records at %s", y.options.Patterns)
	}
	y.capacity = max(1, min(y.capacity, y.added))
	y.epochEnd = true
	y.serve()
	y.mu.Lock()
	for len(y.buffer) > 0 && y.err == nil && !y.closed {
		y.changed.Wait()
	}
	y.epochEnd, y.added = false, 0
	over = y.err != nil || y.closed
	y.mu.Unlock()
	return over
}

// names returns the files of an epoch in order.
func (y *Yielder) names(epoch uint64) (names []string, err error) {
	for pattern := range strings.SplitSeq(y.options.Patterns, ",") {
		found, err := y.match(pattern)
		if err != nil {
			return nil, err
		}
		names = append(names, found...)
	}
	if len(names) == 0 {
		return nil, status.Errorf(status.NotFound, "Found no files at %s", y.options.Patterns)
	}
	slices.Sort(names)
	rng := rand.New(rand.NewPCG(uint64(y.options.Seed), epoch))
	rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	if shift := y.options.Shift; 0 <= shift && shift < 1 {
		at := int(shift * float32(len(names)))
		names = slices.Concat(names[at:], names[:at])
	}
	return names, nil
}

func (y *Yielder) match(pattern string) (names []string, err error) {
	disk.Do(func() { names, err = files.Match(y.fsys, pattern) })
	return names, err
}

// maxParallelism bounds the number of open files, whatever the client requests.
const maxParallelism = 256

// inTurn is a file that takes turns with the other file operations of the process. Its reader may pause for long between reads.
type inTurn struct{ *file }

func (f inTurn) Read(b []byte) (n int, err error) {
	disk.Do(func() { n, err = f.file.Read(b) })
	return n, err
}

// read adds the records of a file to the buffer.
func (y *Yielder) read(name string) error {
	f := file{}
	var err error
	disk.Do(func() { err = f.open(y.fsys, name) })
	switch {
	case status.CodeOf(err) == status.PermissionDenied:
		return err
	case err != nil:
		return status.InvalidArgumentf("Can't open %s", name)
	}
	defer f.Close()
	in := tfrecord.NewReader(inTurn{&f}, y.options.Compression, files.MaxContent)
	for {
		record, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return f.failed(err)
		}
		if !y.add(string(record)) {
			return nil
		}
	}
}

// add adds a record to the buffer at a random position when there is room. It returns false if reading is over.
func (y *Yielder) add(record string) bool {
	y.mu.Lock()
	for len(y.buffer) >= y.capacity && y.err == nil && !y.closed {
		y.changed.Wait()
	}
	if y.err != nil || y.closed {
		y.mu.Unlock()
		return false
	}
	at := y.rng.IntN(len(y.buffer) + 1)
	y.buffer = append(y.buffer, record)
	last := len(y.buffer) - 1
	y.buffer[last], y.buffer[at] = y.buffer[at], y.buffer[last]
	y.added++
	y.serve()
	return true
}
