package sparse

import (
	"cmp"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// member is the element types of sets.
type member interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | string
}

// sets iterates over sets: the values that share all coordinates except the last, which are their key.
type sets[T member] interface {
	// next returns the key and the values of the next set, valid until the next call. It returns no key at the end.
	next() (key []int64, values []T, err error)
	// shape returns the tensor's shape.
	shape() []int64
}

// denseSets are the rows of a dense tensor.
type denseSets[T member] struct {
	dims   []int64
	values []T
	key    []int64
	width  int
}

func newDenseSets[T member](t *tensor.Tensor) (*denseSets[T], error) {
	dims := t.Shape()
	if len(dims) < 2 {
		return nil, status.InvalidArgumentf("Shape [%s] has rank %d < 2", shapes.JoinInts(dims), len(dims))
	}
	return &denseSets[T]{dims: dims, values: element.ViewOf[T](t), width: int(dims[len(dims)-1])}, nil
}

func (s *denseSets[T]) shape() []int64 { return s.dims }

func (s *denseSets[T]) next() ([]int64, []T, error) {
	if len(s.values) == 0 {
		return nil, nil, nil
	}
	if s.key == nil {
		s.key = make([]int64, len(s.dims)-1)
	} else {
		for d := len(s.key) - 1; d >= 0; d-- {
			if s.key[d]++; s.key[d] < s.dims[d] {
				break
			}
			s.key[d] = 0
		}
	}
	row := s.values[:s.width]
	s.values = s.values[s.width:]
	return s.key, row, nil
}

// sparseSets are the runs of values of a sparse tensor that share all coordinates except the last.
type sparseSets[T member] struct {
	sparse
	values []T
	at     int
}

// newSparseSets reads three inputs, starting at i.
func newSparseSets[T member](ctx *kernels.Context, i int, validate bool) (*sparseSets[T], error) {
	if shape := ctx.Input(i + 2); shape.Rank() != 1 {
		return nil, status.InvalidArgumentf("Shape must be a 1D tensor.")
	}
	s, err := sparseInput(ctx, i)
	if err != nil {
		return nil, err
	}
	if _, err := s.dense(); err != nil {
		return nil, err
	}
	if len(s.shape) < 2 {
		return nil, status.InvalidArgumentf("Invalid rank %d.", len(s.shape))
	}
	if err := s.fits(); err != nil {
		return nil, err
	}
	if validate {
		err = s.ordered()
	}
	return &sparseSets[T]{sparse: s, values: element.ViewOf[T](s.values)}, err
}

func (s *sparseSets[T]) shape() []int64 { return s.sparse.shape }

func (s *sparseSets[T]) next() ([]int64, []T, error) {
	lo, last := s.at, s.rank()-1
	if lo == s.count() {
		return nil, nil, nil
	}
	key := s.sparse.at(lo)[:last]
	for s.at < s.count() && slices.Equal(s.sparse.at(s.at)[:last], key) {
		at := s.sparse.at(s.at)
		for d, size := range s.sparse.shape {
			switch {
			case size <= 0:
				return nil, nil, status.Internalf("Invalid dim_size[%d] = %d.", d, size)
			case at[d] >= size:
				return nil, nil, status.Internalf("indices[%d, %d] expected < %d, got %d.", s.at-lo, d, size, at[d])
			case at[d] < 0:
				return nil, nil, status.InvalidArgumentf("indices[%d, %d] expected >= 0, got %d.", s.at-lo, d, at[d])
			}
		}
		s.at++
	}
	return key, s.values[lo:s.at], nil
}

// setSize counts the distinct values of each set.
func setSize[T member](ctx *kernels.Context, validate bool) error {
	s, err := newSparseSets[T](ctx, 0, validate)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, tensor.Int32, tensor.Shape(slices.Clone(s.shape()[:len(s.shape())-1])))
	if err != nil {
		return err
	}
	sizes := tensor.Of[int32](out)
	if err := kernels.Clear(ctx, sizes); err != nil {
		return err
	}
	m := ctx.Meter()
	defer m.Done()
	distinct := distinct[T]{ctx: ctx, meter: &m}
	for {
		key, values, err := s.next()
		if key == nil {
			return err
		}
		if values, err = distinct.of(values); err != nil {
			return err
		}
		at := int64(0)
		for d, x := range key {
			at = at*s.shape()[d] + x
		}
		sizes[at] = int32(len(values))
	}
}

// distinct sorts values and removes duplicates, in memory that it reuses.
type distinct[T member] struct {
	ctx    *kernels.Context
	meter  *kernels.Meter
	memory []T
}

// quickSort is the number of values from which a sort checks for the step's end, which costs time.
const quickSort = 1 << 12

// of returns the distinct values, valid until the next call.
func (d *distinct[T]) of(values []T) ([]T, error) {
	if cap(d.memory) < len(values) {
		memory, err := kernels.Scratch[T](d.meter, len(values))
		if err != nil {
			return nil, err
		}
		d.memory = memory
	}
	sorted := append(d.memory[:0], values...)
	if len(sorted) < quickSort {
		slices.Sort(sorted)
	} else if err := kernels.SortFunc(d.ctx, sorted, cmp.Compare[T]); err != nil {
		return nil, err
	}
	return slices.Compact(sorted), nil
}

// setOperation selects the values of two sets to keep: those in both, only in the first, or only in the second.
type setOperation struct{ both, first, second bool }

var setOperations = map[string]setOperation{
	"a-b":          {first: true},
	"b-a":          {second: true},
	"intersection": {both: true},
	"union":        {both: true, first: true, second: true},
}

// apply appends to dst the values that an operation keeps of two sorted sets without duplicates.
func apply[T member](o setOperation, dst, a, b []T) []T {
	for len(a) > 0 || len(b) > 0 {
		var order int
		switch {
		case len(b) == 0:
			order = -1
		case len(a) == 0:
			order = 1
		default:
			order = cmp.Compare(a[0], b[0])
		}
		switch {
		case order < 0:
			if o.first {
				dst = append(dst, a[0])
			}
			a = a[1:]
		case order > 0:
			if o.second {
				dst = append(dst, b[0])
			}
			b = b[1:]
		default:
			if o.both {
				dst = append(dst, a[0])
			}
			a, b = a[1:], b[1:]
		}
	}
	return dst
}

// results are the non-empty sets that result from an operation.
type results[T member] struct {
	keys    []int64
	values  []T
	ends    []int // end of each set in values
	largest int
}

// setsKernel applies an operation to the sets of two tensors, a and b, whose keys ascend. follow means that a is dense and has all keys,
// and that b's sets are read when a reaches their keys.
type setsKernel[T member] struct {
	setOperation
	validate, follow bool
	open             func(ctx *kernels.Context, validate bool) (a, b sets[T], values int, err error)
}

func (k *setsKernel[T]) Compute(ctx *kernels.Context) error {
	a, b, most, err := k.open(ctx, k.validate)
	if err != nil {
		return err
	}
	group := a.shape()[:len(a.shape())-1]
	other := b.shape()[:len(b.shape())-1]
	if !slices.Equal(group, other) {
		return status.InvalidArgumentf("Mismatched shapes [%s] vs [%s]", shapes.JoinInts(group), shapes.JoinInts(other))
	}
	m := ctx.Meter()
	defer m.Done()
	// Each result is one of the values, and each set has at least one.
	if err := m.TakeMany(most, 8*(len(group)+1)+element.SizeOf(element.DTypeOf[T]())); err != nil {
		return err
	}
	run := *k
	run.follow = k.follow && ctx.Input(0).Len() > 0
	r, err := run.compute(ctx, a, b, &m)
	if err != nil {
		return err
	}
	return r.write(ctx, group)
}

// compute iterates over the sets of both in the order of their keys.
func (k *setsKernel[T]) compute(ctx *kernels.Context, a, b sets[T], m *kernels.Meter) (*results[T], error) {
	r := &results[T]{}
	ofA, ofB := distinct[T]{ctx: ctx, meter: m}, distinct[T]{ctx: ctx, meter: m}
	keyA, valuesA, err := a.next()
	if err != nil {
		return nil, err
	}
	keyB, valuesB, err := b.next()
	for err == nil && (keyA != nil || keyB != nil) {
		order := k.order(keyA, keyB)
		if order == stuck {
			keyB, valuesB = nil, nil
			continue
		}
		var setA, setB []T
		key := keyA
		if order <= 0 {
			setA, err = ofA.of(valuesA)
		} else {
			key = keyB
		}
		if err == nil && order >= 0 {
			setB, err = ofB.of(valuesB)
		}
		if err != nil {
			break
		}
		r.add(key, apply(k.setOperation, r.values, setA, setB))
		if order <= 0 {
			keyA, valuesA, err = a.next()
		}
		if err == nil && order >= 0 {
			keyB, valuesB, err = b.next()
		}
	}
	return r, err
}

// stuck means that a has no more sets for a key of b: b's remaining sets are not matched.
const stuck = 2

// order reports whether the set of a (negative) or b is next; zero if both are.
func (k *setsKernel[T]) order(a, b []int64) int {
	switch {
	case b == nil:
		return -1
	case a == nil && k.follow:
		return stuck
	case a == nil:
		return 1
	}
	order := slices.Compare(a, b)
	if order > 0 && k.follow {
		return stuck
	}
	return order
}

// add ends a set; values holds those of all sets so far.
func (r *results[T]) add(key []int64, values []T) {
	if n := len(values) - len(r.values); n > 0 {
		r.keys, r.ends, r.largest = append(r.keys, key...), append(r.ends, len(values)), max(r.largest, n)
	}
	r.values = values
}

// write outputs the sparse tensor of the sets. The last coordinate of a value is its position in its set.
func (r *results[T]) write(ctx *kernels.Context, group []int64) error {
	rank := len(group) + 1
	indices, err := ctx.Allocate(0, tensor.Int64, tensor.Shape{int64(len(r.values)), int64(rank)})
	if err != nil {
		return err
	}
	values, err := ctx.Allocate(1, element.DTypeOf[T](), tensor.Shape{int64(len(r.values))})
	if err != nil {
		return err
	}
	copy(element.ViewOf[T](values), r.values)
	at, first := tensor.Of[int64](indices), 0
	for i, end := range r.ends {
		for n := range end - first {
			copy(at, r.keys[i*(rank-1):(i+1)*(rank-1)])
			at[rank-1] = int64(n)
			at = at[rank:]
		}
		first = end
	}
	return args.OutputInts(ctx, 2, tensor.Int64, append(slices.Clone(group), int64(r.largest)))
}

// setRow returns the row of an op on sets for a type. open reads its inputs.
func setRow[T member](open func(ctx *kernels.Context, validate bool) (a, b sets[T], values int, err error), follow bool) kernels.Def {
	return kernels.Def{Types: dtypes.Only("T", element.DTypeOf[T]()), New: func(c *kernels.Construction) (any, error) {
		a := c.Attrs().Reader()
		name, validate := a.Str("set_operation"), a.Bool("validate_indices")
		if err := a.Err(); err != nil {
			return nil, err
		}
		o, ok := setOperations[strings.ToLower(name)]
		if !ok {
			return nil, status.InvalidArgumentf("Invalid set_operation %s.", strings.ToLower(name))
		}
		return &setsKernel[T]{o, validate, follow, open}, nil
	}}
}

func denseToDense[T member](ctx *kernels.Context, _ bool) (sets[T], sets[T], int, error) {
	a, err := newDenseSets[T](ctx.Input(0))
	if err != nil {
		return nil, nil, 0, err
	}
	b, err := newDenseSets[T](ctx.Input(1))
	return a, b, ctx.Input(0).Len() + ctx.Input(1).Len(), err
}

func denseToSparse[T member](ctx *kernels.Context, validate bool) (sets[T], sets[T], int, error) {
	b, err := newSparseSets[T](ctx, 1, validate)
	if err != nil {
		return nil, nil, 0, err
	}
	a, err := newDenseSets[T](ctx.Input(0))
	return a, b, ctx.Input(0).Len() + b.count(), err
}

func sparseToSparse[T member](ctx *kernels.Context, validate bool) (sets[T], sets[T], int, error) {
	a, err := newSparseSets[T](ctx, 0, validate)
	if err != nil {
		return nil, nil, 0, err
	}
	b, err := newSparseSets[T](ctx, 3, validate)
	if err != nil {
		return nil, nil, 0, err
	}
	return a, b, a.count() + b.count(), nil
}

// setsOf returns the rows of ops for a type of members.
type setsOf interface {
	denseToDense() kernels.Def
	denseToSparse() kernels.Def
	sparseToSparse() kernels.Def
	size() kernels.Def
}

// members returns the rows for all types of members.
func members(row func(t setsOf) kernels.Def) []kernels.Def {
	return []kernels.Def{
		row(set[int8]{}), row(set[int16]{}), row(set[int32]{}), row(set[int64]{}), row(set[uint8]{}), row(set[uint16]{}), row(set[string]{}),
	}
}

type set[T member] struct{}

func (set[T]) denseToDense() kernels.Def   { return setRow(denseToDense[T], false) }
func (set[T]) denseToSparse() kernels.Def  { return setRow(denseToSparse[T], true) }
func (set[T]) sparseToSparse() kernels.Def { return setRow(sparseToSparse[T], false) }

func (set[T]) size() kernels.Def {
	return kernels.Def{Types: dtypes.Only("T", element.DTypeOf[T]()), New: func(c *kernels.Construction) (any, error) {
		validate, err := c.Attrs().Bool("validate_indices")
		return kernels.Func(func(ctx *kernels.Context) error { return setSize[T](ctx, validate) }), err
	}}
}
