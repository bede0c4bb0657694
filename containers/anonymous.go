package containers

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync/atomic"

	"github.com/troupe-run/troupe/internal/live"
)

// anonymousNames numbers the names.
var anonymousNames atomic.Int64

// NameAnonymous makes up a name for a resource that is in no container, and that ends with the last handle that has it. Anonymous finds it by
// that name until then: a handle that another task has had has only the name. The name cannot be guessed, so only those who were given a
// handle can use the resource.
func NameAnonymous[R any](m *Manager, prefix string, resource *R) string {
	var secret [8]byte
	_, _ = rand.Read(secret[:]) // never fails
	name := fmt.Sprintf("%s-%d-%s", prefix, anonymousNames.Add(1), hex.EncodeToString(secret[:]))
	live.Put(&m.anonymous, name, resource)
	return name
}

// Anonymous returns the resource that NameAnonymous gave a name; nil if there is none, or none any more.
func (m *Manager) Anonymous(name string) any { return m.anonymous.Get(name) }
