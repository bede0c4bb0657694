package queues

import "github.com/troupe-run/troupe/graph/tensor"

// batch is what one enqueue brought: an element, or many as the rows of the tensors. It holds
// the tensors until all its elements have left.
type batch struct {
	tensors []*tensor.Tensor
	many    bool
	live    int // elements that have not left
}

func one(tuple []*tensor.Tensor) run {
	return run{&batch{tensors: tuple, live: 1}, 0, 1}
}

func rows(tuple []*tensor.Tensor) run {
	n := tuple[0].Dim(0)
	return run{&batch{tensors: tuple, many: true, live: n}, 0, n}
}

// run is consecutive elements of a batch, from (inclusive) to to (exclusive).
type run struct {
	*batch
	from, to int
}

func (r run) len() int { return r.to - r.from }

// split cuts off the first n elements.
func (r run) split(n int) (first, rest run) {
	return run{r.batch, r.from, r.from + n}, run{r.batch, r.from + n, r.to}
}

// join is a and b as one run where b follows on a in the same batch.
func join(a, b run) (run, bool) {
	return run{a.batch, a.from, b.to}, a.batch == b.batch && a.to == b.from
}

// whole tells whether the run is all that the batch was.
func (r run) whole() bool { return !r.many || r.len() == r.tensors[0].Dim(0) }

// leave gives up the run's elements.
func (r run) leave() {
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

// element is the run's one element as a tuple. The run stays as it is; on an error (no memory)
// nothing is made.
func (r run) element(pool *tensor.Pool) ([]*tensor.Tensor, error) {
	return r.each(func(t *tensor.Tensor) (*tensor.Tensor, error) {
		if !r.many {
			return t.Retain(), nil
		}
		return rowOf(t, r, r.shape(t), pool)
	})
}

// copied is the run's one element in memory of its own.
func (r run) copied(pool *tensor.Pool) ([]*tensor.Tensor, error) {
	return r.each(func(t *tensor.Tensor) (*tensor.Tensor, error) {
		out, err := tensor.New(pool, t.DType(), r.shape(t))
		if err == nil {
			copyRows(out, 0, t, r)
		}
		return out, err
	})
}

// shape is the shape of the run's elements in t, a tensor of its batch.
func (r run) shape(t *tensor.Tensor) tensor.Shape {
	if r.many {
		return t.Shape()[1:]
	}
	return t.Shape()
}

// gather is the runs' elements, in order, as a tuple of their rows: in the memory that they lie
// in where that is one piece, else copied to one from pool. shapes are the elements' shapes; a size
// that is not known is the largest of all, and smaller elements are padded with zeros.
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

// each makes a tuple of what f makes of the batch's tensors; all or, on an error, none.
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

// rowOf is the elements that run r has in t, as a tensor of that shape. It shares t's memory,
// except for elements that are Go values: those know no owner that could tell who may write.
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

// copyRows copies the elements that run r has in src to dst, from element position at on, and
// gives the position after them.
func copyRows(dst *tensor.Tensor, at int, src *tensor.Tensor, r run) int {
	per := src.Len()
	if r.many {
		per /= src.Dim(0)
	}
	n := r.len() * per
	dst.CopyElements(at, src, r.from*per, n)
	return at + n
}

// collected is runs that left the order together, for a waiter that wants more.
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

// len is the number of elements.
func (c collected) len() (n int) {
	for _, r := range c {
		n += r.len()
	}
	return n
}

func (c collected) leave() {
	for _, r := range c {
		r.leave()
	}
}
