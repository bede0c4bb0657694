package ctc

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// maxClasses is the maximum number of classes, since labels are int32.
const maxClasses = math.MaxInt32 - 1

// lattice holds the probabilities of all alignments with a path. Its matrices have a row for each step.
type lattice[T element.Floating] struct {
	path
	classes int
	merge   bool
	// alpha holds the log probabilities of having reached a place of the path by a step, beta those of reaching the path's end from there.
	// y holds the probabilities of the classes, and sums the log probabilities of the alignments through each class.
	alpha, beta, y, sums []T
}

// workOf returns the number of elements that the largest lattice takes.
func workOf(paths []path, classes int) (int, error) {
	most := int64(0)
	for _, p := range paths {
		perStep := int64(2*len(p.labels) + classes)
		n, ok := shapes.MulSize(perStep, int64(p.steps))
		if n, ok2 := shapes.AddSize(n, int64(classes)); ok && ok2 {
			most = max(most, n)
		} else {
			return 0, status.Errorf(status.ResourceExhausted, "OOM when allocating the lattice of %d labels and %d steps", len(p.labels), p.steps)
		}
	}
	return int(most), nil
}

// newLattice returns a lattice that uses work as its memory.
func newLattice[T element.Floating](p path, classes int, merge bool, work []T) *lattice[T] {
	take := func(n int) []T {
		part := work[:n:n]
		work = work[n:]
		return part
	}
	l := &lattice[T]{path: p, classes: classes, merge: merge}
	l.alpha, l.beta = take(p.steps*len(p.labels)), take(p.steps*len(p.labels))
	l.y, l.sums = take(p.steps*classes), take(classes)
	return l
}

// loss returns the loss and sets the gradient of the logits. Steps lie stride elements apart in both.
func (l *lattice[T]) loss(logits, grad []T, stride int) T {
	for t := range l.steps {
		softmax(l.y[t*l.classes:][:l.classes], logits[t*stride:][:l.classes])
	}
	l.forward()
	l.backward()
	total := T(logZero)
	for u := range l.labels {
		total = logAdd(total, l.alpha[u]+l.beta[u])
	}
	for t := range l.steps {
		l.gradient(grad[t*stride:][:l.classes], t, total)
	}
	return -total
}

func softmax[T element.Floating](dst, logits []T) {
	most := logits[0]
	for _, v := range logits[1:] {
		most = max(most, v)
	}
	var sum T
	for i, v := range logits {
		dst[i] = exp(v - most)
		sum += dst[i]
	}
	for i := range dst {
		dst[i] /= sum
	}
}

// reach returns the range of places that can be reached by step t and from which the end can still be reached.
func (l *lattice[T]) reach(t int) (lo, hi int) {
	return max(0, len(l.labels)-2*(l.steps-t)), min(len(l.labels), 2*(t+1))
}

// skips reports whether an alignment may skip from a place to the next but one: between different labels, over the blank.
func (l *lattice[T]) skips(from int) bool {
	return l.labels[from] != l.blank() && !(l.merge && l.labels[from] == l.labels[from+2])
}

// stays reports whether an alignment may remain at a place.
func (l *lattice[T]) stays(u int) bool { return l.merge || l.labels[u] == l.blank() }

func (l *lattice[T]) blank() int32 { return int32(l.classes - 1) }

// output returns the log probability of the output of place u at step t.
func (l *lattice[T]) output(u, t int) T { return log(l.y[t*l.classes+int(l.labels[u])]) }

// forward fills alpha.
func (l *lattice[T]) forward() {
	n := len(l.labels)
	fill(l.alpha, T(logZero))
	for u := range min(n, 2) {
		l.alpha[u] = l.output(u, 0)
	}
	for t := 1; t < l.steps; t++ {
		before, now := l.alpha[(t-1)*n:][:n], l.alpha[t*n:][:n]
		lo, hi := l.reach(t)
		for u := lo; u < hi; u++ {
			sum := T(logZero)
			if l.stays(u) {
				sum = before[u]
			}
			if u > 0 {
				sum = logAdd(sum, before[u-1])
			}
			if u > 1 && l.skips(u-2) {
				sum = logAdd(sum, before[u-2])
			}
			now[u] = l.output(u, t) + sum
		}
	}
}

// backward fills beta.
func (l *lattice[T]) backward() {
	n := len(l.labels)
	fill(l.beta, T(logZero))
	for u := max(0, n-2); u < n; u++ {
		l.beta[(l.steps-1)*n+u] = 0
	}
	for t := l.steps - 2; t >= 0; t-- {
		after, now := l.beta[(t+1)*n:][:n], l.beta[t*n:][:n]
		lo, hi := l.reach(t)
		for u := lo; u < hi; u++ {
			sum := T(logZero)
			if l.stays(u) {
				sum = after[u] + l.output(u, t+1)
			}
			if u+1 < n {
				sum = logAdd(sum, after[u+1]+l.output(u+1, t+1))
			}
			if u+2 < n && l.skips(u) {
				sum = logAdd(sum, after[u+2]+l.output(u+2, t+1))
			}
			now[u] = sum
		}
	}
}

// gradient sets the gradient of a step's logits. If no alignment has a positive probability, it is the softmax.
func (l *lattice[T]) gradient(dst []T, t int, total T) {
	y := l.y[t*l.classes:][:l.classes]
	if math.IsInf(float64(total), -1) {
		copy(dst, y)
		return
	}
	fill(l.sums, T(logZero))
	n := len(l.labels)
	for u, label := range l.labels {
		l.sums[label] = logAdd(l.sums[label], l.alpha[t*n+u]+l.beta[t*n+u])
	}
	for i, sum := range l.sums {
		dst[i] = y[i] - T(exp32(sum-total))
	}
}

func fill[T element.Floating](dst []T, v T) {
	for i := range dst {
		dst[i] = v
	}
}
