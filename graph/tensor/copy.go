package tensor

// uninterrupted is how many elements are copied or cleared at once. Go cannot preempt a goroutine in the middle of that. A garbage
// collection, which briefly stops all goroutines, would wait until gigabytes are copied, and every other goroutine of the process would
// wait with it.
const uninterrupted = 256 << 10

// Copy is like the builtin copy, but does not stall the process on very long slices.
func Copy[T any](dst, src []T) int {
	n := min(len(dst), len(src))
	at := 0
	for ; n-at > uninterrupted; at += uninterrupted {
		copyPiece(dst[at:], src[at:at+uninterrupted])
	}
	return at + copy(dst[at:n], src[at:n])
}

// copyPiece is not inlined: function entry is where Go can preempt a goroutine that only copies.
//
//go:noinline
func copyPiece[T any](dst, src []T) { copy(dst, src) }

// Clear is like the builtin clear, but does not stall the process on very long slices.
func Clear[T any](s []T) {
	for len(s) > uninterrupted {
		clearPiece(s[:uninterrupted])
		s = s[uninterrupted:]
	}
	clear(s)
}

//go:noinline
func clearPiece[T any](s []T) { clear(s) }
