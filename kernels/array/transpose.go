package array

import (
	"math/cmplx"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// transpose permutes the dimensions of input 0 as input 1 says.
func transpose(ctx *kernels.Context) error { return permute(ctx, nil) }

// conjugateTranspose also conjugates complex elements.
func conjugateTranspose(ctx *kernels.Context) error {
	return permute(ctx, conjugators[ctx.Input(0).DType()])
}

// conjugators holds functions that conjugate a tensor's elements, for the types that it changes.
var conjugators = map[tensor.DType]func(*tensor.Tensor){
	tensor.Complex64: conjugateElements[complex64], tensor.Complex128: conjugateElements[complex128],
}

func conjugateElements[T element.ComplexNum](t *tensor.Tensor) {
	for i, v := range tensor.Of[T](t) {
		tensor.Of[T](t)[i] = T(cmplx.Conj(complex128(v)))
	}
}

func permute(ctx *kernels.Context, after func(*tensor.Tensor)) error {
	t, permT := ctx.Input(0), ctx.Input(1)
	rank := t.Rank()
	if permT.Rank() != 1 {
		return status.InvalidArgumentf("perm must be rank 1, got shape %v", permT.Shape())
	}
	if permT.Len() != rank {
		return status.InvalidArgumentf("transpose expects a vector of size %d. But input(1) is a vector of size %d", rank, permT.Len())
	}
	var room [8]int64
	perm, err := smallInts(permT, room[:])
	if err != nil {
		return err
	}
	seen := make([]bool, rank)
	shape := make(tensor.Shape, rank)
	same := true
	for i, p := range perm {
		axis, ok := shapes.WrapAxis(p, rank)
		if !ok {
			return status.InvalidArgumentf("%d is out of range [0 .. %d)", p, rank)
		}
		seen[axis] = true
		perm[i], shape[i] = int64(axis), t.Shape()[axis]
		same = same && axis == i
	}
	for i, ok := range seen {
		if !ok {
			return status.InvalidArgumentf("%d is missing from {%s}.", i, strings.TrimSpace(shapes.JoinInts(perm)))
		}
	}
	if after == nil && (same || movesOnlyOnes(t.Shape(), perm)) {
		ctx.SetOutput(0, t.Reshaped(shape))
		return nil
	}
	out, err := ctx.Allocate(0, t.DType(), shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	own := shapes.StridesOf(t.Shape())
	src := make([]int, rank)
	for i, p := range perm {
		src[i] = own[p]
	}
	layout.Move(ctx, out, t, layout.NewNest(shapes.Ints(shape), shapes.StridesOf(shape), src, 0, 0))
	if after != nil {
		after(out)
	}
	return nil
}

// movesOnlyOnes reports whether a permutation keeps the order of the elements: it moves only dimensions of size 1.
func movesOnlyOnes(shape tensor.Shape, perm []int64) bool {
	last := int64(-1)
	for _, p := range perm {
		if shape[p] == 1 {
			continue
		}
		if p < last {
			return false
		}
		last = p
	}
	return true
}

// reverseV1 takes a bool for each dimension, reverseV2 a list of axes.
func reverseV1(ctx *kernels.Context) error {
	t, dims := ctx.Input(0), ctx.Input(1)
	if t.Rank() == 0 {
		ctx.Pass(0, 0)
		return nil
	}
	if dims.Rank() != 1 || dims.DType() != tensor.Bool {
		return status.InvalidArgumentf("'dims' must be 1-dimension, not %d", dims.Rank())
	}
	if dims.Len() != t.Rank() {
		return status.InvalidArgumentf("'dims' must have the same number of values as 'input' has dimensions. 'input' has %d'dims' has %d values", t.Rank(), dims.Len())
	}
	return reverse(ctx, t, tensor.Of[bool](dims))
}

func reverseV2(ctx *kernels.Context) error {
	t, axes := ctx.Input(0), ctx.Input(1)
	if t.Rank() == 0 {
		ctx.Pass(0, 0)
		return nil
	}
	if axes.Rank() != 1 {
		return status.InvalidArgumentf("'dims' must be 1-dimension, not %d", axes.Rank())
	}
	var room [8]int64
	list, err := smallInts(axes, room[:])
	if err != nil {
		return err
	}
	turned := make([]bool, t.Rank())
	for i, a := range list {
		axis, ok := shapes.WrapAxis(a, t.Rank())
		if !ok {
			return status.InvalidArgumentf("'axis'[%d] = %d is out of valid range [0, %d", i, a, t.Rank()-1)
		}
		if turned[axis] {
			return status.InvalidArgumentf("axis %d specified more than once.", axis)
		}
		turned[axis] = true
	}
	return reverse(ctx, t, turned)
}

func reverse(ctx *kernels.Context, t *tensor.Tensor, turned []bool) error {
	out, err := ctx.Allocate(0, t.DType(), t.Shape())
	if err != nil || out.Len() == 0 {
		return err
	}
	src, offset := shapes.StridesOf(t.Shape()), 0
	for i, turn := range turned {
		if turn {
			offset += src[i] * (t.Dim(i) - 1)
			src[i] = -src[i]
		}
	}
	layout.Move(ctx, out, t, layout.NewNest(shapes.Ints(t.Shape()), shapes.StridesOf(t.Shape()), src, 0, offset))
	return nil
}

// newReverseSequence returns the kernel that, for each position b of batch_dim, reverses the first seq_lengths[b] positions of seq_dim.
func newReverseSequence(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	batchDim, seqDim := a.Int("batch_dim"), a.Int("seq_dim")
	if err := a.Err(); err != nil {
		return nil, err
	}
	if batchDim < 0 {
		return nil, status.InvalidArgumentf("Invalid batch_dim %d", batchDim)
	}
	if seqDim < 0 {
		return nil, status.InvalidArgumentf("Invalid seq_dim %d", seqDim)
	}
	return kernels.Func(func(ctx *kernels.Context) error { return reverseSequence(ctx, int(batchDim), int(seqDim)) }), nil
}

func reverseSequence(ctx *kernels.Context, batch, seq int) error {
	t, lengthsT := ctx.Input(0), ctx.Input(1)
	rank := t.Rank()
	switch {
	case lengthsT.Rank() != 1:
		return status.InvalidArgumentf("seq_lengths must be 1-dim, not %d", lengthsT.Rank())
	case batch == seq:
		return status.InvalidArgumentf("batch_dim == seq_dim == %d", seq)
	case seq >= rank:
		return status.InvalidArgumentf("seq_dim must be < input rank ( %d vs. %d)", seq, rank)
	case batch >= rank:
		return status.InvalidArgumentf("batch_dim must be < input rank ( %d vs. %d)", batch, rank)
	case lengthsT.Len() != t.Dim(batch):
		return status.InvalidArgumentf("Length of seq_lengths != input.dims(%d), (%d vs. %d)", batch, lengthsT.Len(), t.Dim(batch))
	}
	if !t.OnHost() {
		return reverseSequenceOn(ctx, batch, seq)
	}
	lengths, err := ctx.Ints(1)
	if err != nil {
		return err
	}
	for i, n := range lengths {
		if n < 0 {
			return status.InvalidArgumentf("seq_lens(%d) < 0", i)
		}
		if n > t.Shape()[seq] {
			return status.InvalidArgumentf("seq_lens(%d) > input.dims(%d)", i, seq)
		}
	}
	out, err := ctx.Allocate(0, t.DType(), t.Shape())
	if err != nil || out.Len() == 0 {
		return err
	}
	strides, dims := shapes.StridesOf(t.Shape()), shapes.Ints(t.Shape())
	dims[batch] = 1
	for b, n := range lengths {
		at := b * strides[batch]
		part := func(from, count int, turn bool) {
			if count == 0 {
				return
			}
			dims[seq] = count
			src := append([]int(nil), strides...)
			d := at + from*strides[seq]
			s := d
			if turn {
				s += (count - 1) * strides[seq]
				src[seq] = -src[seq]
			}
			layout.Move(ctx, out, t, layout.NewNest(dims, strides, src, d, s))
		}
		part(0, int(n), true)
		part(int(n), t.Dim(seq)-int(n), false)
	}
	return nil
}
