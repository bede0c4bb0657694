package containers

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"
)

// anonymous lists the resources of a device that no container holds, by the names in their handles. It does not keep them: a resource ends
// with the last handle that has it. A handle that another task has had has only the name.
type anonymous struct {
	mu   sync.Mutex // guards find, which cleanups change on the runtime's goroutine
	find map[string]func() any
}

// anonymousNames numbers the names.
var anonymousNames atomic.Int64

// NameAnonymous makes up a name for a resource that is in no container. Anonymous finds it by that name for as long as something refers to it.
// The name cannot be guessed, so only those who were given a handle can use the resource.
func NameAnonymous[R any](m *Manager, prefix string, resource *R) string {
	var secret [8]byte
	_, _ = rand.Read(secret[:]) // never fails
	name := fmt.Sprintf("%s-%d-%s", prefix, anonymousNames.Add(1), hex.EncodeToString(secret[:]))
	a, p := &m.anonymous, weak.Make(resource)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.find == nil {
		a.find = map[string]func() any{}
	}
	a.find[name] = func() any {
		if r := p.Value(); r != nil {
			return r
		}
		return nil
	}
	runtime.AddCleanup(resource, a.forget, name)
	return name
}

func (a *anonymous) forget(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.find, name)
}

// Anonymous returns the resource that NameAnonymous gave a name; nil if there is none, or none any more.
func (m *Manager) Anonymous(name string) any {
	a := &m.anonymous
	a.mu.Lock()
	find := a.find[name]
	a.mu.Unlock()
	if find == nil {
		return nil
	}
	return find()
}
