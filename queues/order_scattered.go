package queues

import "github.com/troupe-run/troupe/graph/tensor"

// The orders of this file take elements apart: each run that they are given is one element and all of its batch.

// shuffle gives any of its elements next: which, a number says, of a source that a seed determines. How the
// others lie after that is TensorFlow's (RandomShuffleQueue::DequeueLocked), so that the same seed gives
// the same order.
type shuffle struct {
	elems  []run
	random func() uint32
}

func (s *shuffle) len() int { return len(s.elems) }

func (s *shuffle) push(r run) { s.elems = append(s.elems, r) }

func (s *shuffle) restore(r run) { s.push(r) }

func (s *shuffle) take(int) run {
	last := len(s.elems) - 1
	// The remainder is the lower's share by a little too often, as in TensorFlow.
	i := int(int64(s.random()) % int64(len(s.elems)))
	r := s.elems[i]
	s.elems[i], s.elems[last] = s.elems[last], run{}
	s.elems = s.elems[:last]
	if last == 0 && cap(s.elems) > maxIdleRing {
		s.elems = nil
	}
	return r
}

// heap gives the element of the least priority next. Elements of equal priority leave in the order in which
// C++'s heap functions bring them up, which TensorFlow's queue is made of: no promise of the op's, but what
// a program sees that runs on both.
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

// sink moves the hole at the top down to a leaf, the lesser child of each pair up, and gives the leaf.
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

// rise puts p into the hole, or above it where it goes before its parents.
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
