package kernels

import (
	"slices"
	"unsafe"
)

// How kernels end with their step. When a step is cancelled, passes its deadline or loses its session, its kernels release
// their processors within lookEvery grains of work, whatever they compute:
//
//   - Context.Allocate and Meter.Take fail once the step has ended. That ends kernels that make many outputs or many strings.
//   - Context.Parallel skips the parts that have not begun. Each, Clear and SortFunc stop in the middle.
//   - Updates of variables are finished, by Context.Finish: a variable with half an update would be of two steps.
//   - Loops that do neither, over batches or elements that may be many or slow, check the step themselves with Context.Ended, or
//     with a Lookout where an iteration is short.
//   - A single allocation is not interrupted: its memory is zeroed first, which takes up to a millisecond for four megabytes.
//
// The executor fails each kernel of a step that has ended, even one that reports success, so skipped work is never observed.

// Ended returns the error that the step has ended with, or nil if it has not ended.
func (s *Step) Ended() error {
	if s == nil || s.Cancellation == nil {
		return nil
	}
	return s.Cancellation.Err()
}

// Ended returns the error that the kernel's step has ended with, or nil if it has not ended or the kernel is finishing its work. It costs
// about a nanosecond.
func (c *Context) Ended() error {
	if c.finishing {
		return nil
	}
	return c.Step.Ended()
}

// Finish runs work that does not end with its step, since it changes state that outlives the step: a variable must not be left with half an
// update. Everything that work calls with this Context finishes, too.
func (c *Context) Finish(work func() error) error {
	c.finishing = true
	defer func() { c.finishing = false }()
	return work()
}

// lookEvery is the number of grains between Parallel's checks for the step's end. A grain is some tens of microseconds of work; kernels
// that stream through memory lose a few percent with shorter pieces.
const lookEvery = 64

// Parallel is the device's Parallel, except that it skips parts that have not begun when the step ends. A kernel that uses the results for
// more than arithmetic must check Ended first.
func (c *Context) Parallel(n, grain int, body func(lo, hi int)) {
	if c.Ended() != nil {
		return
	}
	if n < 2*grain {
		if n > 0 {
			body(0, n)
		}
		return
	}
	piece := lookEvery * max(grain, 1)
	c.Device.Parallel(n, grain, func(lo, hi int) {
		for ; lo < hi && c.Ended() == nil; lo += piece {
			body(lo, min(lo+piece, hi))
		}
	})
}

// eachPart is the time that a part of Each takes, in nanoseconds.
const eachPart = 1 << 20

// Each calls body for consecutive parts of a loop of n iterations, each of which takes about cost nanoseconds. It returns body's first error,
// or between two parts the step's error once that has ended.
func (c *Context) Each(n, cost int, body func(lo, hi int) error) error {
	part := max(1, eachPart/max(1, cost))
	for lo := 0; lo < n; lo += part {
		if err := c.Ended(); err != nil {
			return err
		}
		if err := body(lo, min(lo+part, n)); err != nil {
			return err
		}
	}
	return nil
}

// Lookout periodically checks for a step's end in a loop of short iterations. The zero value never reports one.
type Lookout struct {
	step *Step
	left int
}

// Lookout returns a Lookout for the kernel's step. It must be used by one goroutine only.
func (c *Context) Lookout() Lookout {
	if c.finishing {
		return Lookout{}
	}
	return Lookout{step: c.Step}
}

// glance is the work between two checks, in units of about a nanosecond.
const glance = 1 << 16

// After adds completed work, in units of about a nanosecond, and checks for the step's end once enough has accumulated. The error is the
// step's.
func (l *Lookout) After(work int) error {
	if l.left -= work; l.left > 0 {
		return nil
	}
	l.left = glance
	return l.step.Ended()
}

// cleared is the number of bytes between Clear's checks for the step's end. Memory that is used for the first time is cleared at about 1 GB/s.
const cleared = 4 << 20

// Clear sets the elements of dst to zero. It fails with the step's error once that has ended.
func Clear[T any](c *Context, dst []T) error {
	var zero T
	piece := cleared / max(1, int(unsafe.Sizeof(zero)))
	for len(dst) > 0 {
		if err := c.Ended(); err != nil {
			return err
		}
		n := min(piece, len(dst))
		clear(dst[:n])
		dst = dst[n:]
	}
	return nil
}

// comparison is the time that a comparison of a sort takes with its part of the moves, in nanoseconds.
const comparison = 16

// SortFunc is slices.SortFunc. It fails with the step's error once that has ended; the order of the elements is then undefined.
func SortFunc[T any](c *Context, list []T, compare func(a, b T) int) error {
	return sorted(c, compare, func(compare func(a, b T) int) { slices.SortFunc(list, compare) })
}

// SortStableFunc is slices.SortStableFunc, and ends like SortFunc.
func SortStableFunc[T any](c *Context, list []T, compare func(a, b T) int) error {
	return sorted(c, compare, func(compare func(a, b T) int) { slices.SortStableFunc(list, compare) })
}

// sorted runs sort with a comparison that takes all elements for equal once the step has ended. The sort then needs few further ones.
func sorted[T any](c *Context, compare func(a, b T) int, sort func(compare func(a, b T) int)) (err error) {
	l := c.Lookout()
	sort(func(a, b T) int {
		if err != nil {
			return 0
		}
		if err = l.After(comparison); err != nil {
			return 0
		}
		return compare(a, b)
	})
	return err
}
