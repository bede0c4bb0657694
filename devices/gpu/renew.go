package gpu

import (
	"errors"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
)

// retryAfter is how long a device that could not be started stays out of service before the next attempt.
const retryAfter = 3 * time.Second

// renew restarts a lost device, with another incarnation and empty containers. If that fails, the device stays out of service, and a later
// use tries again. It returns the device's current life.
func (d *core) renew(l *life) *life {
	d.announce(l)
	if !d.due() {
		d.tryLater()
		return l
	}
	if err := d.clear(l); err != nil {
		return d.outOfService(l, err)
	}
	n, err := d.start()
	if err != nil {
		return d.outOfService(l, err)
	}
	d.bindWaiters(n)
	d.life.Store(n)
	d.announce(n)
	d.opts.Log.Warn("a GPU was started anew: its variables are gone", "device", d.name)
	return n
}

// due reports whether it is time for an attempt, and if so records it.
func (d *core) due() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.tried.IsZero() && time.Since(d.tried) < d.opts.rest {
		return false
	}
	d.tried = time.Now()
	return true
}

// tryLater makes the device's thread try when it is time, even if the device is not used: until it has released the broken context, no
// other device on the card can be restarted.
func (d *core) tryLater() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waking {
		return
	}
	d.waking = true
	time.AfterFunc(time.Until(d.tried.Add(d.opts.rest)), contain.Func(d.opts.Log, "The start of a GPU", func() {
		d.mu.Lock()
		d.waking = false
		d.mu.Unlock()
		d.queue.wake()
	}, nil))
}

// Revive wakes the thread of a device that is out of service, if it is time to try again.
func (d *core) Revive() {
	d.mu.Lock()
	again := !d.tried.IsZero() && time.Since(d.tried) >= d.opts.rest
	d.mu.Unlock()
	if again {
		d.queue.wake()
	}
}

// clear ends what is left of a lost life, and empties the containers before the next one begins. After an error it must be called again.
func (d *core) clear(l *life) error {
	if l.buried {
		return nil
	}
	// The driver reports the broken context to the waiting threads.
	late := time.NewTimer(d.opts.grace)
	defer late.Stop()
	for _, w := range d.waiters() {
		if !w.reach(late.C) {
			return status.Errorf(status.Unavailable, "its work does not end")
		}
	}
	for _, m := range d.managers.All() {
		if err := m.Empty(); err != nil {
			return err
		}
	}
	return l.bury()
}

// bury closes the context of a lost life, once no thread waits in it.
func (l *life) bury() error {
	if err := errors.Join(l.memory.retire(), l.pinned.retire()); err != nil {
		return err
	}
	l.end()
	err := l.abandon()
	if err != nil && l.buried {
		l.device.opts.Log.Warn("a GPU's broken context was not closed as it should", "device", l.device.name, "error", err)
		return nil
	}
	return err
}

func (d *core) outOfService(l *life, err error) *life {
	l.lost.Store(&status.Error{Code: status.Unavailable, Message: d.name + " was lost, and cannot be started anew yet: " + err.Error()})
	d.opts.Log.Error("a GPU could not be started anew", "device", d.name, "error", err)
	d.announce(l)
	return l
}
