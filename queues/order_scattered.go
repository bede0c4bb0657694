package queues

import "github.com/troupe-run/troupe/graph/tensor"

// The orders in this file separate elements: each run that they receive is one element and its whole batch.

// shuffle returns a random element, chosen by a seeded source. The remaining elements are arranged as in TensorFlow
// (RandomShuffleQueue::DequeueLocked), so the same seed yields the same order.
type shuffle struct {
	elems  []run
	random func() uint32
}

func (s *shuffle) len() int { return len(s.elems) }

func (s *shuffle) push(r run) { s.elems = append(s.elems, r) }

func (s *shuffle) restore(r run) { s.push(r) }

func (s *shuffle) each(visit func(r *run)) {
	for i := range s.elems {
		visit(&s.elems[i])
	}
}

func (s *shuffle) take(int) run {
	last := len(s.elems) - 1
	// The remainder is slightly biased towards low indexes, as in TensorFlow.
	i := int(int64(s.random()) % int64(len(s.elems)))
	r := s.elems[i]
	s.elems[i], s.elems[last] = s.elems[last], run{}
	s.elems = s.elems[:last]
	if last == 0 && cap(s.elems) > maxIdleRing {
		s.elems = nil
	}
	return r
}

// heap returns the element with the lowest priority next. Elements of equal priority leave in the order of C++'s heap functions, which
// TensorFlow's queue uses. The op does not promise that order, but a program that runs on both sees the same.
type heap struct{ elems []prior }

// prior is an element and its priority.
type prior struct {
	priority int64
	run
}

func (h *heap) len() int { return len(h.elems) }

func (h *heap) push(r run) {
	p := prior{tensor.Of[int64](r.tensors[0])[0], r}
	h.elems = append(h.elems, p)
	h.rise(len(h.elems)-1, p)
}

func (h *heap) restore(r run) { h.push(r) }

func (h *heap) each(visit func(r *run)) {
	for i := range h.elems {
		visit(&h.elems[i].run)
	}
}

func (h *heap) take(int) run {
	top := h.elems[0].run
	n := len(h.elems) - 1
	last := h.elems[n]
	h.elems[n] = prior{}
	h.elems = h.elems[:n]
	if n > 0 {
		h.rise(h.sink(), last)
	} else if cap(h.elems) > maxIdleRing {
		h.elems = nil
	}
	return top
}

// sink moves the hole at the top down to a leaf, moving up the lesser child of each pair, and returns the leaf.
func (h *heap) sink() (hole int) {
	n := len(h.elems)
	for hole < (n-1)/2 {
		child := 2 * (hole + 1)
		if h.elems[child].priority > h.elems[child-1].priority {
			child--
		}
		h.elems[hole] = h.elems[child]
		hole = child
	}
	if n%2 == 0 && hole == (n-2)/2 { // an only child
		h.elems[hole] = h.elems[n-1]
		hole = n - 1
	}
	return hole
}

// rise moves the hole up past parents with a higher priority value, and puts p into it.
func (h *heap) rise(hole int, p prior) {
	for hole > 0 {
		parent := (hole - 1) / 2
		if h.elems[parent].priority <= p.priority {
			break
		}
		h.elems[hole] = h.elems[parent]
		hole = parent
	}
	h.elems[hole] = p
}
