package table

import "runtime"

// Collected returns a table for a handle; no container holds it. The table is closed when the garbage collector finds the result
// unreachable.
func Collected(t Table) *Anonymous {
	a := &Anonymous{t}
	runtime.AddCleanup(a, func(t Table) { t.Close() }, t)
	return a
}

// Anonymous is a table that is reachable only through its handle.
type Anonymous struct{ Table }
