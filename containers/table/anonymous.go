package table

import "runtime"

// Collected makes a handle's share of a table that no container holds: the table is closed when
// the garbage collector finds that nobody has the result any more.
func Collected(t Table) *Anonymous {
	a := &Anonymous{t}
	runtime.AddCleanup(a, func(t Table) { t.Close() }, t)
	return a
}

// Anonymous is a table that only its handle leads to.
type Anonymous struct{ Table }
