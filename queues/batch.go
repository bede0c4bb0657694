package queues

import "github.com/troupe-run/troupe/graph/tensor"

// batch is the input of one enqueue: an element, or many as the rows of the tensors. It holds the tensors until all its elements have left.
type batch struct {
	tensors []*tensor.Tensor
	many    bool
	live    int // elements that have not left
}

func one(tuple []*tensor.Tensor) run {
	return run{batch: &batch{tensors: tuple, live: 1}, to: 1}
}

func rows(tuple []*tensor.Tensor) run {
	n := tuple[0].Dim(0)
	return run{batch: &batch{tensors: tuple, many: true, live: n}, to: n}
}

// run is consecutive elements of a batch, from (inclusive) to to (exclusive), which have been delivered equally often.
type run struct {
	*batch
	from, to  int
	number    int64  // of the first element, in the order in which the queue took them; those that follow have the next numbers
	entry     *entry // where the elements are on disk; nil if the queue is not durable
	delivered int    // how often the elements have been leased and returned
}

func (r run) len() int { return r.to - r.from }

// split cuts off the first n elements.
func (r run) split(n int) (first, rest run) {
	first, rest = r, r
	first.to = r.from + n
	rest.from = first.to
	rest.number += int64(n)
	return first, rest
}

// join returns a and b as one run, and whether they are one: b follows a in the same batch, in the queue and on disk, and was delivered as often.
func join(a, b run) (run, bool) {
	joined := a
	joined.to = b.to
	return joined, a.batch == b.batch && a.to == b.from && a.number+int64(a.len()) == b.number && a.entry == b.entry && a.delivered == b.delivered
}

// whole reports whether the run covers its whole batch.
func (r run) whole() bool { return !r.many || r.len() == r.tensors[0].Dim(0) }

// release releases the run's elements.
func (r run) release() {
	r.live -= r.len()
	if r.live == 0 {
		release(r.tensors)
		r.tensors = nil
	}
}

func release(tuple []*tensor.Tensor) {
	for _, t := range tuple {
		t.Release()
	}
}

// element returns the run's one element as a tuple. It does not change the run. It fails only for lack of memory.
func (r run) element(pool *tensor.Pool) ([]*tensor.Tensor, error) {
	return r.each(func(t *tensor.Tensor) (*tensor.Tensor, error) {
		if !r.many {
			return t.Retain(), nil
		}
		return rowOf(t, r, r.shape(t), pool)
	})
}

// copied returns a copy of the run's one element.
func (r run) copied(pool *tensor.Pool) ([]*tensor.Tensor, error) {
	return r.each(func(t *tensor.Tensor) (*tensor.Tensor, error) {
		out, err := tensor.New(pool, t.DType(), r.shape(t))
		if err == nil {
			copyRows(out, 0, t, r)
		}
		return out, err
	})
}

// shape returns the shape of the run's elements in t, a tensor of its batch.
func (r run) shape(t *tensor.Tensor) tensor.Shape {
	if r.many {
		return t.Shape()[1:]
	}
	return t.Shape()
}

// gather returns the runs' elements, in order, as a tuple whose tensors have one row per element. It shares the elements' memory if they
// are contiguous, and otherwise copies them to memory from pool. shapes are the elements' shapes. An unknown size becomes the largest size
// among the elements, and smaller elements are padded with zeros.
func gather(runs []run, shapes []tensor.Shape, pool *tensor.Pool) ([]*tensor.Tensor, error) {
	n := 0
	for _, r := range runs {
		n += r.len()
	}
	component := -1
	return runs[0].each(func(t *tensor.Tensor) (*tensor.Tensor, error) {
		component++
		element, padded := largest(runs, component, shapes[component])
		shape := rowsOf(element, int64(n))
		if padded {
			return pad(runs, component, shape, pool)
		}
		if len(runs) == 1 {
			return rowOf(t, runs[0], shape, pool)
		}
		out, err := tensor.New(pool, t.DType(), shape)
		if err != nil {
			return nil, err
		}
		at := 0
		for _, r := range runs {
			at = copyRows(out, at, r.tensors[component], r)
		}
		return out, nil
	})
}

// each applies f to the batch's tensors and returns the results. After an error it releases them and returns the error.
func (b *batch) each(f func(*tensor.Tensor) (*tensor.Tensor, error)) ([]*tensor.Tensor, error) {
	tuple := make([]*tensor.Tensor, 0, len(b.tensors))
	for _, t := range b.tensors {
		made, err := f(t)
		if err != nil {
			release(tuple)
			return nil, err
		}
		tuple = append(tuple, made)
	}
	return tuple, nil
}

// rowOf returns the elements of run r in t, as a tensor of the given shape. It shares t's memory, unless the elements are Go values, which
// have no owner that tracks who may write.
func rowOf(t *tensor.Tensor, r run, shape tensor.Shape, pool *tensor.Pool) (*tensor.Tensor, error) {
	if r.whole() && t.Shape().Equal(shape) {
		return t.Retain(), nil
	}
	if t.DType().Size() == 0 {
		out, err := tensor.New(pool, t.DType(), shape)
		if err == nil {
			copyRows(out, 0, t, r)
		}
		return out, err
	}
	if !r.many {
		return t.Reshaped(shape), nil
	}
	part := t.Rows(r.from, r.to)
	if part.Shape().Equal(shape) {
		return part, nil
	}
	defer part.Release()
	return part.Reshaped(shape), nil
}

// copyRows copies the elements of run r in src to dst, starting at element at, and returns the position after them.
func copyRows(dst *tensor.Tensor, at int, src *tensor.Tensor, r run) int {
	per := src.Len()
	if r.many {
		per /= src.Dim(0)
	}
	n := r.len() * per
	dst.CopyElements(at, src, r.from*per, n)
	return at + n
}

// collected holds runs that have left the order, for a waiter that needs more.
type collected []run

func (c collected) add(r run) collected {
	if n := len(c); n > 0 {
		if joined, ok := join(c[n-1], r); ok {
			c[n-1] = joined
			return c
		}
	}
	return append(c, r)
}

// len returns the number of elements.
func (c collected) len() (n int) {
	for _, r := range c {
		n += r.len()
	}
	return n
}

func (c collected) release() {
	for _, r := range c {
		r.release()
	}
}
