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
)

// YielderOptions say what a Yielder reads and how.
type YielderOptions struct {
	// Patterns are the patterns of the files' names, separated by commas.
	Patterns string
	// Seed decides the order. The order is not TensorFlow's, which depends on how fast its threads are as well.
	Seed int64
	// Shift, if it is in [0,1), is by which part of them the shuffled files are rotated.
	Shift float32
	// Buffer is the number of records that are shuffled, 1 or more.
	Buffer int
	// Parallelism is the number of files that are read at a time, 1 or more.
	Parallelism int
	Compression tfrecord.Compression
}

// Yielder gives the records of files in random order (core/kernels/record_yielder.cc): each one once, then each one
// again, for ever. At least half a buffer of records is there before one is given, but at the end of an epoch; the next
// epoch begins when the buffer is empty. All methods may be called concurrently.
type Yielder struct {
	options YielderOptions

	fsys files.FS // of the first caller of Yield

	mu       sync.Mutex
	changed  sync.Cond // for those who read files
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

// yield is who waits for records.
type yield struct {
	n       int
	records []string
	done    func([]string, error)
}

// NewYielder makes a Yielder. It reads nothing before it is asked for records.
func NewYielder(o YielderOptions) *Yielder {
	y := &Yielder{options: o, capacity: max(o.Buffer, 1), rng: rand.New(rand.NewPCG(uint64(o.Seed), 0)), ended: make(chan struct{})}
	y.changed.L = &y.mu
	return y
}

// Yield gives n records. done is called once, on any goroutine. The function that it returns gives up waiting; done
// then gets CANCELLED. An error that reading had is given ever after. The files are those that the caller may use; it is
// the same for all calls.
func (y *Yielder) Yield(fsys files.FS, n int, done func([]string, error)) (cancel func(error)) {
	w := &yield{n: n, done: done}
	y.mu.Lock()
	if !y.running && !y.closed {
		y.running, y.fsys = true, fsys
		contain.Go(nil, "A record yielder", y.run, func(err error) { y.fail(err) })
	}
	y.waiting = append(y.waiting, w)
	y.serve()
	return func(cause error) {
		y.mu.Lock()
		i := slices.Index(y.waiting, w)
		if i >= 0 {
			y.waiting = slices.Delete(y.waiting, i, i+1)
		}
		y.mu.Unlock()
		if i >= 0 {
			done(nil, Cancelled(cause))
		}
	}
}

// enough tells whether a record may be given.
func (y *Yielder) enough() bool {
	if y.epochEnd {
		return len(y.buffer) > 0
	}
	return len(y.buffer) >= max(1, y.capacity/2)
}

// serve gives records to those who wait, and unlocks.
func (y *Yielder) serve() {
	var served []*yield
	err := y.err
	if y.closed && err == nil {
		err = status.New(status.Aborted, "stopped")
	}
	for len(y.waiting) > 0 {
		w := y.waiting[0]
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
		served = append(served, w)
		y.waiting = y.waiting[1:]
	}
	y.changed.Broadcast()
	y.mu.Unlock()
	for _, w := range served {
		if err != nil {
			w.records = nil
		}
		w.done(w.records, err)
	}
}

// Close ends reading: those who wait get ABORTED. Done tells when no file is open any more.
func (y *Yielder) Close() {
	y.mu.Lock()
	if !y.closed && !y.running {
		close(y.ended)
	}
	y.closed = true
	y.serve()
}

// Done is closed when the Yielder was closed and does nothing any more.
func (y *Yielder) Done() <-chan struct{} { return y.ended }

// fail makes an error the last thing that is given. It is false where there is none and reading goes on.
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

// endEpoch waits until all records have been given, and tells whether reading is over.
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

// names are the files of an epoch in their order.
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

// maxParallelism bounds the files that are open at a time, whatever the client asks for.
const maxParallelism = 256

// inTurn is a file that takes turns with the other file operations of the process. What reads it may wait for long
// between two reads.
type inTurn struct{ *file }

func (f inTurn) Read(b []byte) (n int, err error) {
	disk.Do(func() { n, err = f.file.Read(b) })
	return n, err
}

// read puts the records of a file into the buffer.
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

// add puts a record into the buffer, at a random place, when there is room. It is false when reading is over.
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
