// Package live lists what is still in use, for the rare work that concerns all of it, such as taking back memory. A list does not keep its
// members alive, and members need not be removed.
package live

import (
	"slices"
	"sync"
	"weak"
)

// List is a list of pointers that are forgotten once nothing else refers to what they point to. The zero value is empty. All methods may be
// called concurrently.
type List[T any] struct {
	mu      sync.Mutex
	all     []weak.Pointer[T]
	next    int   // the length at which the list is pruned next
	scanned int64 // number of members that pruning looked at, for tests
}

// least is the length of a list that is not worth pruning.
const least = 8

// Add adds a pointer. A call takes constant time on average, however many members there are and however they come and go: the list is
// pruned only when it has doubled since. So it has at most about twice as many entries as were ever alive at once.
func (l *List[T]) Add(p *T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) >= max(l.next, least) {
		l.scanned += int64(len(l.all))
		l.all = slices.DeleteFunc(l.all, func(w weak.Pointer[T]) bool { return w.Value() == nil })
		l.next = 2 * len(l.all)
	}
	l.all = append(l.all, weak.Make(p))
}

// All returns the members that are still in use, in the order in which they were added.
func (l *List[T]) All() (all []*T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.all {
		if p := w.Value(); p != nil {
			all = append(all, p)
		}
	}
	return all
}
