package live

import (
	"runtime"
	"sync"
	"weak"
)

// Names finds pointers by names, until nothing else refers to what they point to. The zero value is empty. All methods, and Put, may be called
// concurrently, and take constant time.
type Names struct {
	mu   sync.Mutex
	find map[string]func() any
}

// Put gives a pointer a name that no other one has.
func Put[T any](n *Names, name string, p *T) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.find == nil {
		n.find = map[string]func() any{}
	}
	w := weak.Make(p)
	n.find[name] = func() any {
		if p := w.Value(); p != nil {
			return p
		}
		return nil
	}
	runtime.AddCleanup(p, n.forget, name)
}

func (n *Names) forget(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.find, name)
}

// Get returns the pointer of a name; nil if there is none, or none any more.
func (n *Names) Get(name string) any {
	n.mu.Lock()
	find := n.find[name]
	n.mu.Unlock()
	if find == nil {
		return nil
	}
	return find()
}
