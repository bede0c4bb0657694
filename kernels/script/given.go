package script

import "sync/atomic"

// givenUp decides whether a call's end or its cancellation came first.
type givenUp struct{ over atomic.Bool }

// first reports whether this is its first call.
func (g *givenUp) first() bool { return g.over.CompareAndSwap(false, true) }
