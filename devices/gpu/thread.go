package gpu

import (
	"runtime"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
)

// patience bounds the wait for running work of a card when a device ends or a step is cancelled.
const patience = 10 * time.Second

// run is the device's thread: it starts the device and drains its queue.
func (d *core) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(d.ended)
	l, err := d.start()
	if err != nil {
		started <- err
		return
	}
	d.life.Store(l)
	d.waits.compute, d.waits.in, d.waits.out, d.waits.peers = d.newWaiter(), d.newWaiter(), d.newWaiter(), d.newWaiter()
	d.bindWaiters(l)
	d.announce(l)
	d.register()
	defer d.unregister()
	started <- nil
	var b batch
	for d.queue.next(&b) {
		for i := range b.commands {
			l.execute(&b, i)
		}
		if l.lost.Load() != nil {
			l = d.renew(l)
		}
	}
	d.stop(l)
}

func (d *core) waiters() [4]*waiter {
	return [4]*waiter{d.waits.compute, d.waits.in, d.waits.out, d.waits.peers}
}

// bindWaiters binds the waiter threads to the context of a life.
func (d *core) bindWaiters(l *life) {
	for _, w := range d.waiters() {
		w.do(func() {
			if err := l.context.Bind(); err != nil {
				l.lose(err)
			}
		})
	}
}

// execute adds a command to its stream.
func (l *life) execute(b *batch, i int) {
	c, position := &b.commands[i], b.first+uint64(i)
	err := l.over()
	switch {
	case l.device.closed.Load():
		err = l.device.shut()
	case err == nil && c.life != l:
		err = c.life.over()
	}
	if err != nil {
		c.drop(err)
		return
	}
	switch c.kind {
	case launchCommand:
		err = l.launch(c, b.words[c.from:c.to], position)
	case productCommand:
		err = l.begin(c, position, func() error { return l.multiply(c.product) })
	case copyCommand:
		l.last = position
		err = l.compute.Copy(c.dst, c.src, c.bytes)
	case fillCommand:
		l.last = position
		err = l.compute.Fill(c.dst, c.value, c.bytes)
	case uploadCommand:
		err = l.upload(c, position)
	case downloadCommand:
		err = l.download(c, position)
	case departCommand:
		err = l.depart(c)
	case arriveCommand:
		err = l.arrive(c, position)
	case settleCommand:
		_, err = l.mark(position, c.then)
	}
	if err != nil {
		l.lose(err)
		c.drop(l.over())
	}
}

// drop abandons a command.
func (c *command) drop(err error) {
	if c.work != nil {
		c.work.fail(err, c.node)
	}
	if c.kind == departCommand {
		c.leave.refuse(err)
	}
	if then := c.then; then != nil { // the command's memory is reused
		contain.Go(nil, "A step's work on a GPU", func() { then(err) }, nil)
	}
}

// shut returns the error for work given to a closed device.
func (d *core) shut() error { return status.Errorf(status.Cancelled, "%s is closed", d.name) }

// manyLaunches is the number of launches after which the device records an event, so that it learns what is done.
const manyLaunches = 256

// launch adds a kernel to the compute stream.
func (l *life) launch(c *command, args []uint64, position uint64) error {
	return l.begin(c, position, func() error {
		f, ok := l.functions[c.function]
		if !ok {
			var err error
			if f, err = l.context.Function(c.function); err != nil {
				return err
			}
			l.functions[c.function] = f
		}
		return l.compute.Launch(f, c.grid, c.block, c.shared, args)
	})
}

// begin starts a kernel in the compute stream. If it cannot begin, its step fails, and no more kernels of the step run: they would read
// data that was never written.
func (l *life) begin(c *command, position uint64, start func() error) error {
	if c.work != nil && c.work.failed.Load() {
		return nil
	}
	l.last = position
	l.launched.Lock()
	l.running = append(l.running, running{position, c.node, c.function})
	full := len(l.running) > manyLaunches
	if full {
		l.trim()
		full = len(l.running) > manyLaunches
	}
	l.launched.Unlock()
	if full && (len(l.marks) == 0 || position-l.marks[len(l.marks)-1].position >= manyLaunches/2) {
		if _, err := l.mark(position-1, nil); err != nil {
			return err
		}
	}
	err := start()
	if err == nil {
		return nil
	}
	if !broken(err) {
		l.launched.Lock()
		l.running = l.running[:len(l.running)-1] // it does not run
		l.launched.Unlock()
	}
	if c.work == nil || broken(err) {
		return err
	}
	c.work.fail(status.Internalf("%s could not run %s: %v", l.device.name, c.function, err), c.node)
	return nil
}

// mark records an event in the compute stream, after all commands up to position. If then is not nil, it is called when they are done.
func (l *life) mark(position uint64, then func(error)) (Event, error) {
	e, err := l.event()
	if err != nil {
		return nil, err
	}
	if err := l.compute.Record(e); err != nil {
		return nil, err
	}
	done := l.done.Load()
	i := 0
	for i < len(l.marks) && l.marks[i].position <= done {
		i++
	}
	l.marks = append(l.marks[:0], l.marks[i:]...)
	l.marks = append(l.marks, mark{position, e})
	l.device.waits.compute.items <- item{life: l, event: e, position: position, then: then}
	return e, nil
}

// follow makes a stream wait until the compute stream has done all commands up to after. position is that of the command that requires it.
func (l *life) follow(s Stream, after, position uint64) error {
	after = min(after, l.last)
	if after <= l.done.Load() {
		return nil
	}
	for _, m := range l.marks {
		if m.position >= after {
			return s.Wait(m.event)
		}
	}
	e, err := l.mark(position-1, nil)
	if err != nil {
		return err
	}
	return s.Wait(e)
}

// upload adds a copy from the host to its stream. The compute stream waits for the last piece of a tensor.
func (l *life) upload(c *command, position uint64) error {
	if err := l.follow(l.in, c.after, position); err != nil {
		return err
	}
	if err := l.in.CopyIn(c.dst, c.host); err != nil {
		return err
	}
	return l.finish(c, l.in, l.device.waits.in, c.last, position)
}

// download adds a copy to the host to its stream, after everything in the compute stream.
func (l *life) download(c *command, position uint64) error {
	if err := l.follow(l.out, position, position); err != nil {
		return err
	}
	if err := l.out.CopyOut(c.host, c.src); err != nil {
		return err
	}
	return l.finish(c, l.out, l.device.waits.out, false, position)
}

// finish records the end of a copy, for its waiter. With join, the compute stream also waits for it.
func (l *life) finish(c *command, s Stream, w *waiter, join bool, position uint64) error {
	e, err := l.event()
	if err != nil {
		return err
	}
	if err := s.Record(e); err != nil {
		return err
	}
	if join {
		l.last = position
		if err := l.compute.Wait(e); err != nil {
			return err
		}
	}
	w.items <- item{life: l, event: e, then: c.then}
	return nil
}

// stop ends the device's last life, and the waiter threads.
func (d *core) stop(l *life) {
	if l.lost.Load() == nil {
		if _, err := l.mark(d.queue.given.Load(), nil); err != nil {
			l.lose(err)
		}
	}
	for _, w := range d.waiters() {
		close(w.items)
	}
	ended := make(chan struct{})
	go func() {
		d.waiterThreads.Wait()
		if l.lost.Load() == nil {
			l.leaving.Wait() // other devices are still reading this one's memory
		}
		close(ended)
	}()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
		d.closing = status.Errorf(status.DeadlineExceeded, "%s has not done its work after %v", d.name, patience)
		return
	}
	switch {
	case l.lost.Load() == nil:
		d.closing = l.release()
	case !l.buried:
		d.closing = l.bury()
	}
}
