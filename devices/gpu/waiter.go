package gpu

import (
	"runtime"
	"time"

	"github.com/troupe-run/troupe/internal/contain"
)

// waiter is a thread that waits for the events of one stream, in order, and reports what is done.
type waiter struct {
	device *core
	items  chan item
}

// item is an event, and what follows it.
type item struct {
	life     *life
	event    Event
	position uint64      // for an event in the compute stream, the last command before it; else 0
	then     func(error) // may be nil
	call     func()      // instead of an event: called on the thread
}

// waiterItems bounds the pending items of a waiter. Beyond it, the device's thread waits.
const waiterItems = 1 << 10

func (d *core) newWaiter() *waiter {
	w := &waiter{device: d, items: make(chan item, waiterItems)}
	d.waiterThreads.Add(1)
	go w.run()
	return w
}

func (w *waiter) run() {
	defer w.device.waiterThreads.Done()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for i := range w.items {
		w.handle(i)
	}
}

// handle waits for an item. The callback is foreign code, and its panic must not end the thread.
func (w *waiter) handle(i item) {
	if i.call != nil {
		i.call()
		return
	}
	err := i.event.Synchronize()
	if err != nil {
		err = i.life.failed(err)
	} else {
		if i.position > 0 {
			i.life.done.Store(i.position)
		}
		i.life.spare(i.event)
	}
	if i.then != nil {
		defer contain.Recover(w.device.opts.Log, "What waited for a GPU", nil)
		i.then(err)
	}
}

// do calls f on the waiter's thread, after all items before it, and waits for it.
func (w *waiter) do(f func()) {
	called := make(chan struct{})
	w.items <- item{call: func() { f(); close(called) }}
	<-called
}

// reach waits until the thread has processed all items. It returns false if late fires first.
func (w *waiter) reach(late <-chan time.Time) bool {
	reached := make(chan struct{})
	select {
	case w.items <- item{call: func() { close(reached) }}:
	case <-late:
		return false
	}
	select {
	case <-reached:
		return true
	case <-late:
		return false
	}
}
