package gpu

import (
	"sync"

	"github.com/troupe-run/troupe/devices"
)

var _ devices.Losable = (*Device)(nil)

// notices holds the last notification of the watchers. The device's thread sends them, so watchers learn of a loss before the next start.
type notices struct {
	mu       sync.Mutex // held while watchers are notified, so each is notified in order
	watchers map[*devices.Watcher]struct{}
	number   uint64 // the incarnation of the last start
	lost     error  // nil while the device serves
}

// same reports whether a life's state is unchanged. Each failed restart makes a new error, so the texts are compared.
func (n *notices) same(number uint64, lost error) bool {
	return n.number == number && (n.lost == nil) == (lost == nil) && (lost == nil || n.lost.Error() == lost.Error())
}

// Watch notifies w of the device's state now, and of losses and starts until stop is called.
func (d *core) Watch(w devices.Watcher) (stop func()) {
	n := &d.notices
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.watchers == nil {
		n.watchers = map[*devices.Watcher]struct{}{}
	}
	n.watchers[&w] = struct{}{}
	n.notify(w)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.watchers, &w)
	}
}

func (n *notices) notify(w devices.Watcher) {
	if n.lost != nil {
		w.DeviceLost(n.lost)
	} else {
		w.DeviceStarted(n.number)
	}
}

// announce notifies all watchers of the state of the device's present life, if it has changed. Only the device's thread calls it.
func (d *core) announce(l *life) {
	n, lost := &d.notices, l.over()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.same(l.number, lost) {
		return
	}
	n.number, n.lost = l.number, lost
	for w := range n.watchers {
		n.notify(*w)
	}
}
