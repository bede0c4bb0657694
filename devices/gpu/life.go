package gpu

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
)

// life is a device from a start until its loss: the context on the card with everything in it. Unless noted otherwise, only the device's
// thread may use it.
type life struct {
	device  *core
	number  uint64 // the incarnation
	share   *share
	buried  bool  // it was lost, and nothing of it is left
	closing error // error from closing its context

	context   Context
	memory    *memory // safe for concurrent use
	pinned    *pinned // safe for concurrent use
	compute   Stream
	in, out   Stream // copies to and from the host
	peers     Stream // copies from other cards
	functions map[string]Function
	blas      Blas // the vendor's library of matrix products; nil if there is none

	marks []mark // in the compute stream, in order
	last  uint64 // position of the last command for the compute stream

	launched sync.Mutex
	running  []running // launches not known to be done, in order; guarded by launched

	spares struct {
		sync.Mutex
		events []Event
	}
	done atomic.Uint64 // the compute stream has done all commands up to this position
	lost atomic.Pointer[status.Error]
	gone chan struct{} // closed once lost is set

	leaving sync.WaitGroup // copies to other devices

	use  sync.RWMutex // read-locked by other threads that call the context
	shut bool         // the context is closed, or about to be
}

// mark is an event in the compute stream, after the command at a position.
type mark struct {
	position uint64
	event    Event
}

// running is a launch.
type running struct {
	position uint64
	node     *graph.Node
	function string
}

// start opens the card's context on the calling thread.
func (d *core) start() (*life, error) {
	l := &life{device: d, number: rand.Uint64() | 1, functions: map[string]Function{}, gone: make(chan struct{})}
	if err := enter(d.opts.Card, l); err != nil {
		return nil, err
	}
	if err := l.open(); err != nil {
		return nil, errors.Join(err, l.dismiss(err))
	}
	return l, nil
}

func (l *life) open() error {
	d := l.device
	if err := l.context.Bind(); err != nil {
		return err
	}
	// Before the memory limit is computed: the library allocates some memory itself.
	blas, err := l.context.Blas()
	if err != nil {
		d.opts.Log.Warn("a GPU runs without its library of matrix products", "device", d.name, "error", err)
	} else {
		l.blas = blas
	}
	if d.limit == 0 {
		free, total, err := l.context.MemoryInfo()
		if err != nil {
			return err
		}
		if d.limit, err = d.share(free, total); err != nil {
			return err
		}
	}
	l.memory = &memory{life: l, limit: d.limit, grow: d.opts.AllowGrowth}
	l.pinned = newPinned(l, d.hostLimit())
	for _, s := range []*Stream{&l.compute, &l.in, &l.out, &l.peers} {
		var err error
		if *s, err = l.context.NewStream(); err != nil {
			return err
		}
	}
	l.done.Store(d.queue.given.Load())
	return nil
}

// share returns the memory limit of the device on a card with these free and total bytes.
func (d *core) share(free, total int64) (int64, error) {
	limit := d.opts.MemoryLimit
	switch {
	case limit > 0:
	case d.opts.MemoryFraction > 0:
		limit = int64(float64(total) * d.opts.MemoryFraction)
	default:
		limit = free - systemMemory(free, d.info.Compute/10)
	}
	if limit < grain {
		return 0, status.Errorf(status.ResourceExhausted, "its share of the card's memory is %d bytes; %d of %d are free", limit, free, total)
	}
	return limit, nil
}

// systemMemory returns the part of a card's free memory that TensorFlow leaves to the driver and its libraries, by the major compute
// capability: MinSystemMemory in gpu_device.cc.
func systemMemory(free int64, major int) int64 {
	reserve := int64(1800)
	switch {
	case free < 2<<30:
		reserve = 225
	case major <= 6:
		reserve = 500
	case major <= 7:
		reserve = 1050
	case major <= 8:
		reserve = 1536
	}
	if reserve <<= 20; reserve < free {
		return reserve
	}
	return 0
}

// event reuses a finished event, or makes one.
func (l *life) event() (Event, error) {
	l.spares.Lock()
	if n := len(l.spares.events); n > 0 {
		e := l.spares.events[n-1]
		l.spares.events = l.spares.events[:n-1]
		l.spares.Unlock()
		return e, nil
	}
	l.spares.Unlock()
	return l.context.NewEvent()
}

// spare returns a finished event for reuse.
func (l *life) spare(e Event) {
	l.spares.Lock()
	l.spares.events = append(l.spares.events, e)
	l.spares.Unlock()
}

// over returns the error for uses after the end of the life, or nil before. It may be called on any goroutine.
func (l *life) over() error {
	if e := l.lost.Load(); e != nil {
		return e
	}
	return nil
}

// failed returns the error for a failed driver call, and ends the life if the driver's context is broken. It may be called on any
// goroutine.
func (l *life) failed(err error) error {
	if broken(err) {
		l.lose(err)
		return l.over()
	}
	return status.Internalf("%s: %v", l.device.name, err)
}

// broken reports whether a driver error means that its context is unusable.
func broken(err error) bool {
	var refused *Error
	return errors.As(err, &refused) && refused.Sticky
}

// lose ends the life: all steps with work on the device fail, and its thread restarts it. It may be called on any goroutine.
func (l *life) lose(cause error) {
	d := l.device
	msg := fmt.Sprintf("%s was lost and is started anew: %v", d.name, cause)
	l.launched.Lock()
	l.trim()
	if n := len(l.running); n > 0 {
		r := l.running[0]
		if n == 1 {
			msg += "\nIt ran " + r.function
		} else {
			msg += fmt.Sprintf("\nIt ran one of %d launches, of which the first is %s", n, r.function)
		}
		if r.node != nil {
			msg += fmt.Sprintf("\n\t [[{{node %s}}]]", r.node.UserName())
		}
	}
	l.launched.Unlock()
	if !l.lost.CompareAndSwap(nil, &status.Error{Code: status.Unavailable, Message: msg}) {
		return
	}
	close(l.gone)
	d.opts.Log.Error("a GPU was lost", "device", d.name, "error", cause)
	d.mu.Lock()
	works := slices.Collect(maps.Values(d.works))
	d.mu.Unlock()
	for _, w := range works {
		w.fail(l.over(), nil)
	}
	d.queue.wake()
}

// trim removes finished launches.
func (l *life) trim() {
	done := l.done.Load()
	i := 0
	for i < len(l.running) && l.running[i].position <= done {
		i++
	}
	l.running = slices.Delete(l.running, 0, i)
}

// release releases what the life has on the card, after all work is done.
func (l *life) release() error {
	err := errors.Join(l.memory.retire(), l.pinned.retire())
	l.end()
	if l.blas != nil {
		err = errors.Join(err, l.blas.Close())
	}
	for _, e := range l.spares.events {
		err = errors.Join(err, e.Close())
	}
	return errors.Join(err, l.closeStreams(), l.closeContext())
}

func (l *life) closeStreams() (err error) {
	for _, s := range []Stream{l.compute, l.in, l.out, l.peers} {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return err
}

// dismiss closes the context of a life that could not begin.
func (l *life) dismiss(cause error) error {
	if broken(cause) {
		l.lost.Store(&status.Error{Code: status.Unavailable, Message: cause.Error()})
		return l.abandon()
	}
	return errors.Join(l.closeStreams(), l.closeContext())
}

// end prevents further context calls by other threads, and waits for those in progress.
func (l *life) end() {
	l.use.Lock()
	l.shut = true
	l.use.Unlock()
}

// bound calls f on a thread bound to the life's context. It may be called on any goroutine.
func (l *life) bound(f func(Context) error) error {
	l.use.RLock()
	defer l.use.RUnlock()
	if l.shut {
		return status.Errorf(status.Unavailable, "%s is closed, or not started anew yet", l.device.name)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := l.context.Bind(); err != nil {
		return err
	}
	return f(l.context)
}
