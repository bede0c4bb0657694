package data

import (
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/files"
)

// Iterator runs a dataset. It is for one goroutine at a time.
type Iterator interface {
	// Next gives the next element, io.EOF after the last one. After another error it may be called again, and goes on
	// after what failed.
	Next(c *Call) (Element, error)
	// Save writes where the iterator stands. Nothing is running that the iterator began, or it waits for that.
	Save(c *Call, w *Writer)
	// Restore makes an iterator that was just opened stand where another one was saved.
	Restore(c *Call, r *Reader)
	// Close ends what the iterator runs, and releases what it holds.
	Close()
}

// atEnd tells whether Next has come to the end.
func atEnd(err error) bool { return errors.Is(err, io.EOF) }

// Env is where an iterator is: in a pipeline, and in a stage of it.
type Env struct {
	*shared
	stage *stage       // of the iterator; nil where stages are not counted
	stats *taggedStats // that stages tell what they measure; nil where none was set
}

// shared is what the iterators of one pipeline share, for as long as it is open.
type shared struct {
	device kernels.Device
	files  files.FS
	log    *slog.Logger
	// cancel fires when the pipeline is closed.
	cancel kernels.Cancellation

	mu        sync.Mutex
	opened    map[string]bool // the paths of files that stages have opened
	libraries map[kernels.Library]kernels.OpenLibrary

	stageCount atomic.Int64
}

// newEnv makes the environment of a pipeline that the step's session opens on a device.
func newEnv(ctx *kernels.Context, device kernels.Device) *Env {
	log := ctx.Step.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Env{
		shared: &shared{device: device, files: ctx.Files(), log: log, libraries: map[kernels.Library]kernels.OpenLibrary{}},
		stage:  &stage{},
	}
}

// like is an environment of its own with what e has.
func (e *Env) like() *Env {
	return &Env{shared: &shared{device: e.device, files: e.files, log: e.log, libraries: map[kernels.Library]kernels.OpenLibrary{}}}
}

// noteFile notes a file that a stage opens.
func (e *shared) noteFile(name string) error {
	path, err := files.Local(name)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.opened == nil {
		e.opened = map[string]bool{}
	}
	e.opened[path] = true
	return nil
}

// admit tells why a session may not have elements of the pipeline: it has other files than the one that opened it, and
// may not use one that was read. nil where it may.
func (e *shared) admit(fsys files.FS) error {
	if fsys == e.files {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for path := range e.opened {
		if err := files.Admit(fsys, path); err != nil {
			return err
		}
	}
	return nil
}

// close ends the pipeline's calls and gives its libraries up. No iterator of it is open any more.
func (e *shared) close() {
	e.cancel.Cancel(errClosed)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.libraries {
		l.Close()
	}
	clear(e.libraries)
}

var errClosed = status.New(status.Cancelled, "The iterator was closed")

// pool is where elements lie.
func (e *shared) pool() *tensor.Pool { return e.device.Pool() }

// Call is one request for elements: a step's, or that of a stage that works ahead.
type Call struct {
	*Env
	// Cancellation fires when whoever asks gives up.
	Cancellation *kernels.Cancellation
	// Done is closed then.
	Done <-chan struct{}
	// depth is how deep the caller's functions are nested.
	depth int
}

// Err is why the call was given up, nil before.
func (c *Call) Err() error {
	if err := c.Cancellation.Err(); err != nil {
		return kernels.Cancelled(err)
	}
	return nil
}

// newCall makes a call that ends with the pipeline and with those given. end has to be called when it is over.
func (e *Env) newCall(depth int, with ...*kernels.Cancellation) (c *Call, end func()) {
	cancel, done := &kernels.Cancellation{}, make(chan struct{})
	cancel.Bind(func(error) { close(done) })
	c = &Call{Env: e, Cancellation: cancel, Done: done, depth: depth}
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

// crew is the goroutines of a stage that works ahead. Close ends their calls and waits for them.
type crew struct {
	*Call
	end func()
	wg  sync.WaitGroup
}

func newCrew(e *Env) *crew {
	c, end := e.newCall(0)
	return &crew{Call: c, end: end}
}

// start runs work on a goroutine of the crew's. A panic ends the crew's calls with its error.
func (c *crew) start(work func()) {
	c.wg.Add(1)
	contain.Go(c.log, "A stage of an input pipeline", func() {
		defer c.wg.Done()
		work()
	}, c.Cancellation.Cancel)
}

// next asks an iterator; a panic is its error.
func (c *crew) next(it Iterator) (e Element, err error) {
	err = contain.Run(c.log, "A stage of an input pipeline", func() (err error) {
		e, err = it.Next(c.Call)
		return err
	})
	return e, err
}

// close gives up what the goroutines wait for, and waits for them.
func (c *crew) close() {
	c.Cancellation.Cancel(errClosed)
	c.wg.Wait()
	c.end()
}

// over is the part of an iterator that has one input, for those whose own state is in what they add to it.
type over struct{ input Iterator }

func (o *over) Save(c *Call, w *Writer) { o.input.Save(c, w.In("input")) }

func (o *over) Restore(c *Call, r *Reader) { o.input.Restore(c, r.In("input")) }

func (o *over) Close() { o.input.Close() }

// openOver opens the iterator of a dataset's input and makes that of the dataset.
func openOver(e *Env, d *Dataset, make func(o over) Iterator) (Iterator, error) {
	input, err := d.open(e)
	if err != nil {
		return nil, err
	}
	return make(over{input}), nil
}

// stateless is the part of an iterator that holds nothing to be saved or closed.
type stateless struct{}

func (stateless) Save(*Call, *Writer) {}

func (stateless) Restore(*Call, *Reader) {}

func (stateless) Close() {}
