package dataset

import (
	"errors"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/queues"
)

// Iterator runs a dataset. Only one goroutine may use it at a time.
type Iterator interface {
	// Next returns the next element, or io.EOF after the last one. After another error it may be called again, and continues
	// after the failed element.
	Next(c *Call) (Element, error)
	// Save writes the iterator's position. It waits for work that the iterator has started.
	Save(c *Call, w *Writer)
	// Restore moves a newly opened iterator to a saved position.
	Restore(c *Call, r *Reader)
	// Close ends the iterator's work, and releases everything that it holds.
	Close()
}

// AtEnd reports whether Next has reached the end.
func AtEnd(err error) bool { return errors.Is(err, io.EOF) }

// Env is the environment of an iterator: its pipeline, and its stage in it.
type Env struct {
	*shared
	op    string   // the op that created the iterator's dataset, or uses the pipeline
	Stage *Stage   // the iterator's stage; nil if stages are not counted
	stats Recorder // receives the stages' measurements; may be nil
	// depth is how many iterators are open around this one, and calls the nesting depth of the functions that opened the first.
	depth, calls int
	// reader is the environment of the iterator that reads this one's elements. nth is set in the environment in which an iterator opens one of
	// several inputs: 1 + its index. Paths need both, since iterators of several inputs may share a stage.
	reader *Env
	nth    int64
}

// Input returns the environment in which an iterator opens one of several inputs, or one input for another time.
func (e *Env) Input(i int64) *Env {
	c := *e
	c.nth = i + 1
	return &c
}

// path returns the iterator's name, starting at the pipeline's root. All of its stages must be counted.
func (e *Env) path() string {
	var names []string
	for ; e != nil; e = e.reader {
		name := e.Stage.name
		if e.nth > 0 {
			name += "[" + strconv.FormatInt(e.nth-1, 10) + "]"
		}
		names = append(names, name)
	}
	slices.Reverse(names)
	return strings.Join(names, "::")
}

// The approximate memory of a pipeline's parts, without elements. It counts as memory of the pipeline's device, so functions that create
// datasets endlessly reach the limits of their step, session or process.
const (
	datasetBytes   = 1 << 10
	iteratorBytes  = 2 << 10
	goroutineBytes = 8 << 10
)

// shared is the state that the iterators of one pipeline share while it is open.
type shared struct {
	Device kernels.Device
	door   *files.Door
	Log    *slog.Logger
	origin kernels.Origin // of the step that opened the pipeline
	notes  queues.Notes   // of its session
	// cancel fires when the pipeline is closed.
	cancel kernels.Cancellation

	mu        sync.Mutex
	opened    map[string]string // paths of files that stages have opened, and the stage's op
	libraries map[kernels.Library]kernels.OpenLibrary

	stageCount atomic.Int64
}

// iterators maps ops that use a dataset within their step to TensorFlow's names for their iterators. Other iterators are named "Iterator".
var iterators = map[string]string{
	"ReduceDataset": "ReduceIterator", "DatasetToSingleElement": "SingleElementIterator", "DatasetToTFRecord": "ToTFRecordOpIterator",
	"ExperimentalDatasetToTFRecord": "ToTFRecordOpIterator",
}

func rootName(ctx *kernels.Context) string {
	if name := iterators[ctx.Node.Op]; name != "" {
		return name + "::Root"
	}
	return "Iterator::Root"
}

// NewEnv creates the environment of a pipeline that the step's session opens on a device.
func NewEnv(ctx *kernels.Context, device kernels.Device) *Env {
	log := ctx.Step.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Env{
		shared: &shared{Device: device, door: ctx.Step.Files, Log: log, origin: ctx.Step.Origin, notes: ctx.Step.Notes, libraries: map[kernels.Library]kernels.OpenLibrary{}},
		op:     ctx.Node.Op,
		Stage:  &Stage{name: rootName(ctx)},
		calls:  ctx.Step.Depth,
	}
}

// Like returns an environment with the device, the files, the log, the session and the depths of e, as that of another pipeline.
func (e *Env) Like() *Env {
	return &Env{shared: &shared{Device: e.Device, door: e.door, Log: e.Log, origin: e.origin, notes: e.notes, libraries: map[kernels.Library]kernels.OpenLibrary{}}, depth: e.depth, calls: e.calls}
}

// Files returns the files that the iterator may use: those that the session that opened the pipeline grants to the dataset's op.
func (e *Env) Files() files.FS { return e.door.For(e.op) }

// NoteFile records a file that the iterator opens.
func (e *Env) NoteFile(name string) error {
	path, err := files.Local(name)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.opened == nil {
		e.opened = map[string]string{}
	}
	e.opened[path] = e.op
	return nil
}

// Admit returns an error if a session may not have elements of the pipeline, because the pipeline has read a file that the session may not
// use. Only a session with other files than the one that opened the pipeline is checked.
func (e *shared) Admit(door *files.Door) error {
	if door == e.door {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for path, op := range e.opened {
		if err := files.Admit(door.For(op), path); err != nil {
			return err
		}
	}
	return nil
}

// Abort cancels the pipeline's calls.
func (e *shared) Abort() { e.cancel.Cancel(ErrClosed) }

// Shutdown ends the pipeline's calls and releases its libraries. All its iterators must have been closed.
func (e *shared) Shutdown() {
	e.Abort()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.libraries {
		l.Close()
	}
	clear(e.libraries)
}

// ErrClosed is why the calls of a closed iterator end.
var ErrClosed = status.New(status.Cancelled, "The iterator was closed")

// Pool returns the pool for elements.
func (e *shared) Pool() *tensor.Pool { return e.Device.Pool() }

// Call is one request for elements, by a step or by a stage that works ahead.
type Call struct {
	*Env
	// Cancellation fires when the requester gives up.
	Cancellation *kernels.Cancellation
	// Done is closed then.
	Done <-chan struct{}
	// Depth is the nesting depth of the caller's functions.
	Depth int
	// Lookup marks a program's request for the element at an index, as opposed to an iterator's.
	Lookup bool
	access Query // for indices; see Indexing
	// orders are the orders of globally shuffled datasets within the one that requests the element.
	orders map[Kind]Order
}

// Err returns why the call was cancelled, or nil.
func (c *Call) Err() error {
	if err := c.Cancellation.Err(); err != nil {
		return kernels.Cancelled(err)
	}
	return nil
}

// Order is an order in which the elements of a dataset are read.
type Order interface {
	// Index returns the index of the element at a place of the order.
	Index(place int64) int64
}

// WithOrders returns the call for elements of datasets that are read in an order.
func (c *Call) WithOrders(orders map[Kind]Order) *Call {
	return &Call{Env: c.Env, Cancellation: c.Cancellation, Done: c.Done, Depth: c.Depth, orders: orders}
}

// Order returns the order of the datasets of a kind; nil if there is none.
func (c *Call) Order(k Kind) Order { return c.orders[k] }

// NewCall returns a call that ends with the pipeline and with the given calls. end must be called when it is finished.
func (e *Env) NewCall(depth int, with ...*kernels.Cancellation) (c *Call, end func()) {
	cancel, done := &kernels.Cancellation{}, make(chan struct{})
	cancel.Bind(func(error) { close(done) })
	c = &Call{Env: e, Cancellation: cancel, Done: done, Depth: depth}
	withdraw := make([]func() bool, 0, 2)
	for _, w := range append(with, &e.cancel) {
		if f, ok := w.OnCancel(cancel.Cancel); ok {
			withdraw = append(withdraw, f)
		} else {
			cancel.Cancel(w.Err())
		}
	}
	return c, func() {
		for _, f := range withdraw {
			f()
		}
	}
}

// Turn is held by one at a time, as a mutex is. Its holder may read an input that has no element for long, so a call that waits for the
// turn can be cancelled.
type Turn chan struct{}

// NewTurn returns a turn that nobody has.
func NewTurn() Turn { return make(Turn, 1) }

// Take waits for the turn, and returns why the call was cancelled if it was cancelled before.
func (t Turn) Take(c *Call) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-c.Done:
		return c.Err()
	}
}

// Leave gives the turn to the next.
func (t Turn) Leave() { <-t }

// Crew holds the goroutines of a stage that works ahead. Close cancels their calls and waits for them.
type Crew struct {
	*Call
	end func()
	wg  sync.WaitGroup
}

// NewCrew returns the crew of an iterator.
func NewCrew(e *Env) *Crew {
	c, end := e.NewCall(e.calls)
	return &Crew{Call: c, end: end}
}

// Start runs work on a goroutine of the crew. A panic, or reaching a memory limit, cancels the crew's calls with an error.
func (c *Crew) Start(work func()) {
	counts := int64(goroutineBytes)
	if err := c.Pool().Reserve(counts); err != nil {
		c.Cancellation.Cancel(err)
		counts = 0
	}
	c.wg.Add(1)
	contain.Go(c.Log, "A stage of an input pipeline", func() {
		defer c.wg.Done()
		defer c.Pool().Unreserve(counts)
		work()
	}, c.Cancellation.Cancel)
}

// Next returns an iterator's next element. A panic becomes an error.
func (c *Crew) Next(it Iterator) (e Element, err error) {
	err = contain.Run(c.Log, "A stage of an input pipeline", func() (err error) {
		e, err = it.Next(c.Call)
		return err
	})
	return e, err
}

// Wait waits for the goroutines.
func (c *Crew) Wait() { c.wg.Wait() }

// Close cancels the goroutines' calls, and waits for the goroutines.
func (c *Crew) Close() {
	c.Cancellation.Cancel(ErrClosed)
	c.wg.Wait()
	c.end()
}

// Over is the common part of iterators with one input.
type Over struct{ Input Iterator }

// Next returns the input's next element.
func (o *Over) Next(c *Call) (Element, error) { return o.Input.Next(c) }

// Save saves the input.
func (o *Over) Save(c *Call, w *Writer) { o.Input.Save(c, w.In("input")) }

// Restore restores the input.
func (o *Over) Restore(c *Call, r *Reader) { o.Input.Restore(c, r.In("input")) }

// Close closes the input.
func (o *Over) Close() { o.Input.Close() }

// OpenOver opens the iterator of a dataset's input and creates the dataset's own.
func OpenOver(e *Env, d *Dataset, make func(o Over) Iterator) (Iterator, error) {
	input, err := d.Open(e)
	if err != nil {
		return nil, err
	}
	return make(Over{input}), nil
}

// Stateless is the common part of iterators without anything to save or close.
type Stateless struct{}

// Save does nothing.
func (Stateless) Save(*Call, *Writer) {}

// Restore does nothing.
func (Stateless) Restore(*Call, *Reader) {}

// Close does nothing.
func (Stateless) Close() {}

// OpenEach opens the inputs of an iterator, all or none.
func OpenEach(e *Env, inputs []*Dataset) ([]Iterator, error) {
	open := make([]Iterator, 0, len(inputs))
	for i, d := range inputs {
		input, err := d.Open(e.Input(int64(i)))
		if err != nil {
			for _, it := range open {
				it.Close()
			}
			return nil, err
		}
		open = append(open, input)
	}
	return open, nil
}
