package tensor

// uninterrupted is how many elements are copied or cleared at once. Go cannot interrupt a goroutine in the middle of that. A
// garbage collection, which interrupts all of them for a moment, would wait until gigabytes are copied, and every other
// goroutine of the process would wait for the collection.
const uninterrupted = 256 << 10

// Copy is the builtin copy for slices that may be very long: it does not hold the process up.
func Copy[T any](dst, src []T) int {
	n := min(len(dst), len(src))
	for at := 0; at < n; at += uninterrupted {
		end := min(at+uninterrupted, n)
		copy(dst[at:end], src[at:end])
	}
	return n
}

// Clear is the builtin clear for slices that may be very long: it does not hold the process up.
func Clear[T any](s []T) {
	for len(s) > uninterrupted {
		clear(s[:uninterrupted])
		s = s[uninterrupted:]
	}
	clear(s)
}
