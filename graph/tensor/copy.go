package tensor

// uninterrupted is how many elements are copied or cleared at once. Go cannot interrupt a goroutine in the middle of that. A
// garbage collection, which interrupts all of them for a moment, would wait until gigabytes are copied, and every other
// goroutine of the process would wait for the collection.
const uninterrupted = 256 << 10

// Copy is the builtin copy for slices that may be very long: it does not hold the process up.
func Copy[T any](dst, src []T) int {
	n := min(len(dst), len(src))
	at := 0
	for ; n-at > uninterrupted; at += uninterrupted {
		copyPiece(dst[at:], src[at:at+uninterrupted])
	}
	return at + copy(dst[at:n], src[at:n])
}

// copyPiece is not inlined, since it is where a function is entered that Go interrupts a goroutine which only copies.
//
//go:noinline
func copyPiece[T any](dst, src []T) { copy(dst, src) }

// Clear is the builtin clear for slices that may be very long: it does not hold the process up.
func Clear[T any](s []T) {
	for len(s) > uninterrupted {
		clearPiece(s[:uninterrupted])
		s = s[uninterrupted:]
	}
	clear(s)
}

//go:noinline
func clearPiece[T any](s []T) { clear(s) }
