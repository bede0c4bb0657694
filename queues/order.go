package queues

// order holds the elements of a queue and decides which of them leaves next. It is where the kinds of queues differ. Runs of length zero do
// not occur.
type order interface {
	// len returns the number of elements.
	len() int
	// push adds elements.
	push(r run)
	// take removes the elements that leave next, between one and n of them; n is at most len.
	take(n int) run
	// restore puts back the run that take returned last; it is the next to leave.
	restore(r run)
	// each calls visit with all runs, in no order. visit may change a run's entry.
	each(visit func(r *run))
}

// maxIdleRing is the longest ring or list that an empty queue keeps.
const maxIdleRing = 1024

// fifo is first in, first out: a ring of runs.
type fifo struct {
	ring  []run // its length is a power of two
	head  int
	runs  int
	elems int
}

func (f *fifo) len() int { return f.elems }

func (f *fifo) at(i int) *run { return &f.ring[(f.head+i)&(len(f.ring)-1)] }

func (f *fifo) each(visit func(r *run)) {
	for i := range f.runs {
		visit(f.at(i))
	}
}

func (f *fifo) push(r run) {
	f.elems += r.len()
	if f.runs > 0 {
		last := f.at(f.runs - 1)
		if joined, ok := join(*last, r); ok {
			*last = joined
			return
		}
	}
	f.grow()
	f.runs++
	*f.at(f.runs - 1) = r
}

func (f *fifo) take(n int) run {
	front := f.at(0)
	r := *front
	if r.len() > n {
		r, *front = r.split(n)
	} else {
		*front = run{}
		f.head = (f.head + 1) & (len(f.ring) - 1)
		f.runs--
	}
	f.elems -= r.len()
	if f.runs == 0 && len(f.ring) > maxIdleRing {
		f.ring, f.head = nil, 0
	}
	return r
}

func (f *fifo) restore(r run) {
	f.elems += r.len()
	if f.runs > 0 {
		if joined, ok := join(r, *f.at(0)); ok {
			*f.at(0) = joined
			return
		}
	}
	f.grow()
	f.head = (f.head - 1) & (len(f.ring) - 1)
	f.runs++
	*f.at(0) = r
}

// grow makes room for a run.
func (f *fifo) grow() {
	if f.runs < len(f.ring) {
		return
	}
	bigger := make([]run, max(8, 2*len(f.ring)))
	for i := range f.runs {
		bigger[i] = *f.at(i)
	}
	f.ring, f.head = bigger, 0
}
