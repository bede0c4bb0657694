package array

import (
	"math/bits"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/variable"
)

// sliceMasks holds the attributes of the strided slice ops, with one bit for each entry of begin, end and strides. begin and end mark
// entries whose begin or end is ignored, ellipsis the entry that stands for all remaining dimensions, newAxis entries that add a dimension,
// and shrink entries that pick one position and drop their dimension.
type sliceMasks struct{ begin, end, ellipsis, newAxis, shrink int64 }

func readSliceMasks(c *kernels.Construction) (m sliceMasks, err error) {
	for name, field := range map[string]*int64{"begin_mask": &m.begin, "end_mask": &m.end, "ellipsis_mask": &m.ellipsis, "new_axis_mask": &m.newAxis, "shrink_axis_mask": &m.shrink} {
		if *field, err = c.Attrs().Int(name); err != nil {
			return m, err
		}
	}
	if bits.OnesCount32(uint32(m.ellipsis)) > 1 {
		return m, status.InvalidArgumentf("Multiple ellipses in slice spec not allowed")
	}
	return m, nil
}

// stridedBlock is a slice specification applied to a shape.
type stridedBlock struct {
	block
	// final is the resulting shape. from holds, for each of its dimensions, the corresponding dimension of the block, or -1 for an added
	// one.
	final tensor.Shape
	from  []int
}

// resolve reads begin, end and strides from inputs first to first+2. The semantics are those of
// TensorFlow's ValidateStridedSliceOp.
func (m sliceMasks) resolve(ctx *kernels.Context, first int, shape tensor.Shape) (*stridedBlock, error) {
	beginT, endT, stridesT := ctx.Input(first), ctx.Input(first+1), ctx.Input(first+2)
	n := stridesT.Len()
	if beginT.Rank() != 1 || endT.Rank() != 1 || stridesT.Rank() != 1 || beginT.Len() != n || endT.Len() != n || n >= 32 {
		return nil, status.InvalidArgumentf("Expected begin, end, and strides to be 1D equal size tensors, but got shapes %v, %v, and %v instead.",
			beginT.Shape(), endT.Shape(), stridesT.Shape())
	}
	var room [3][8]int64
	begin, err1 := smallInts(beginT, room[0][:])
	end, err2 := smallInts(endT, room[1][:])
	strides, err3 := smallInts(stridesT, room[2][:])
	if err := args.FirstError(err1, err2, err3); err != nil {
		return nil, err
	}
	rank := len(shape)
	store := make([]int64, 3*rank+rank+n)
	b := &stridedBlock{block: block{begin: store[:rank:rank], step: store[rank : 2*rank : 2*rank], size: store[2*rank : 3*rank : 3*rank]},
		final: store[3*rank : 3*rank], from: make([]int, 0, rank+n)}
	ellipsis := n
	if m.ellipsis&(1<<n-1) != 0 {
		ellipsis = bits.TrailingZeros32(uint32(m.ellipsis))
	}
	added := bits.OnesCount32(uint32(m.newAxis) & (1<<n - 1) &^ (1<<(ellipsis+1) - 1))
	named := n - bits.OnesCount32(uint32(m.newAxis)&(1<<n-1)&^(1<<ellipsis))
	if ellipsis < n {
		named--
	}
	switch {
	case named > 0 && rank == 0:
		return nil, status.InvalidArgumentf("Attempting to slice scalar input.")
	case named > rank:
		return nil, status.InvalidArgumentf("Index out of range using input dim %d; input has only %d dims", rank, rank)
	}
	dim := 0
	take := func(lo, hi, step int64, openLo, openHi, shrink bool) error {
		if err := b.interval(dim, shape[dim], lo, hi, step, openLo, openHi, shrink); err != nil {
			return err
		}
		if !shrink {
			b.final, b.from = append(b.final, b.size[dim]), append(b.from, dim)
		}
		dim++
		return nil
	}
	for i := 0; i <= n; i++ {
		bit := int64(1) << i
		switch {
		case i == ellipsis:
			// The ellipsis covers the dimensions that the entries after it leave. New axes among those need none. Without an ellipsis, one
			// is implied at the end.
			rest := 0
			if i < n {
				rest = n - i - 1 - added
			}
			for dim < rank-rest {
				if err := take(0, 0, 1, true, true, false); err != nil {
					return nil, err
				}
			}
		case i == n:
		case m.newAxis&bit != 0:
			b.final, b.from = append(b.final, 1), append(b.from, -1)
		default:
			if err := take(begin[i], end[i], strides[i], m.begin&bit != 0, m.end&bit != 0, m.shrink&bit != 0); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

// interval applies an entry to dimension i of size d.
func (b *stridedBlock) interval(i int, d, lo, hi, step int64, openLo, openHi, shrink bool) error {
	switch {
	case step == 0:
		return status.InvalidArgumentf("strides[%d] must be non-zero", i)
	case shrink && step < 0:
		return status.InvalidArgumentf("only stride 1 allowed on non-range indexing.")
	case shrink:
		at := lo
		if at < 0 {
			at += d
		}
		if at < 0 || at >= d {
			return status.InvalidArgumentf("slice index %d of dimension %d out of bounds.", at, i)
		}
		b.begin[i], b.step[i], b.size[i] = at, 1, 1
		return nil
	}
	// The range of positions, from the first to one past the last, in the direction of the step.
	least, most := int64(0), d
	if step < 0 {
		least, most = -1, d-1
	}
	clamp := func(v int64) int64 {
		if v < 0 {
			v += d
		}
		return min(max(v, least), most)
	}
	from, to := clamp(lo), clamp(hi)
	if openLo {
		from = least
		if step < 0 {
			from = most
		}
	}
	if openHi {
		to = most
		if step < 0 {
			to = least
		}
	}
	length := to - from
	b.begin[i], b.step[i], b.size[i] = from, step, 0
	if length != 0 && length < 0 == (step < 0) {
		b.size[i] = length / step
		if length%step != 0 {
			b.size[i]++
		}
	}
	return nil
}

func newStridedSlice(c *kernels.Construction) (any, error) {
	m, err := readSliceMasks(c)
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		t := ctx.Input(0)
		b, err := m.resolve(ctx, 1, t.Shape())
		if err != nil {
			return err
		}
		return b.extract(ctx, 0, t, b.final)
	}), nil
}

// newStridedSliceGrad returns the kernel that stores a gradient in the slice that it belongs to, in a zero tensor with the shape in input
// 0.
func newStridedSliceGrad(c *kernels.Construction) (any, error) {
	m, err := readSliceMasks(c)
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		if s := ctx.Input(0); s.Rank() != 1 {
			return status.InvalidArgumentf("shape must be 1-D, got shape.shape = %v", s.Shape())
		}
		sizes, err := ctx.Ints(0)
		if err != nil {
			return err
		}
		shape, err := shapes.ShapeOf(sizes)
		if err != nil {
			return err
		}
		b, err := m.resolve(ctx, 1, shape)
		if err != nil {
			return err
		}
		dy := ctx.Input(4)
		if !dy.Shape().Equal(b.final) {
			return status.InvalidArgumentf("shape of dy was %v instead of %v", dy.Shape(), b.final)
		}
		if whole, _ := b.whole(shape); whole {
			ctx.SetOutput(0, dy.Reshaped(shape))
			return nil
		}
		out, err := ctx.Allocate(0, dy.DType(), shape)
		if err != nil {
			return err
		}
		layout.Zero(ctx, out)
		if dy.Len() > 0 {
			strides, offset := b.place(shape)
			layout.Move(ctx, out, dy, layout.NewNest(shapes.Ints(b.size), strides, shapes.StridesOf(b.size), offset, 0))
		}
		return nil
	}), nil
}

// assign writes value, broadcast to the slice's shape, to the slice of t that inputs 1 to 3 specify.
func (m sliceMasks) assign(ctx *kernels.Context, t, value *tensor.Tensor) error {
	if t.DType() != value.DType() {
		return status.InvalidArgumentf("l-value dtype %v does not match r-value dtype %v", t.DType(), value.DType())
	}
	b, err := m.resolve(ctx, 1, t.Shape())
	if err != nil {
		return err
	}
	if b.size.Elements() == 0 {
		return nil
	}
	src, ok := b.spread(value.Shape())
	if !ok {
		return status.InvalidArgumentf("Cannot broadcast input shape %v into final shape %v", value.Shape(), b.final)
	}
	strides, offset := b.place(t.Shape())
	layout.Move(ctx, t, value, layout.NewNest(shapes.Ints(b.size), strides, src, offset, 0))
	return nil
}

// spread returns the strides of a value that is broadcast to the final shape, in the dimensions of the block. They are 0 in dimensions in
// which the value is broadcast.
func (b *stridedBlock) spread(value tensor.Shape) (strides []int, ok bool) {
	strides = make([]int, len(b.size))
	own := shapes.StridesOf(value)
	lead := len(value) - len(b.final)
	for i, d := range value {
		k := i - lead
		switch {
		case k < 0 && d != 1, k >= 0 && d != 1 && d != b.final[k]:
			return nil, false
		case k >= 0 && d != 1 && b.from[k] >= 0:
			strides[b.from[k]] = own[i]
		}
	}
	return strides, true
}

// newStridedSliceAssign returns the kernel that assigns to a slice of a variable, which is a reference or a resource.
func newStridedSliceAssign(c *kernels.Construction) (any, error) {
	m, err := readSliceMasks(c)
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		v, byRef, err := variableOf(ctx)
		if err != nil {
			return err
		}
		err = variable.Update(ctx, v, func(t *tensor.Tensor) error { return m.assign(ctx, t, ctx.Input(4)) })
		if err == nil && byRef {
			ctx.Pass(0, 0)
		}
		return err
	}), nil
}

// variableOf returns the variable at input 0, given by reference or by handle.
func variableOf(ctx *kernels.Context) (v *containers.Variable, byRef bool, err error) {
	if v := ctx.Ref(0); v != nil {
		return v, true, nil
	}
	v, err = ctx.Variable(0)
	return v, false, err
}

// newTensorStridedSliceUpdate returns the kernel that copies a tensor and replaces a slice.
func newTensorStridedSliceUpdate(c *kernels.Construction) (any, error) {
	m, err := readSliceMasks(c)
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		out, err := writable(ctx)
		if err != nil {
			return err
		}
		return m.assign(ctx, out, ctx.Input(4))
	}), nil
}

// writable sets output 0 to a writable tensor with the elements of input 0: the input itself if nothing else refers to it, otherwise a
// copy.
func writable(ctx *kernels.Context) (*tensor.Tensor, error) {
	t := ctx.Input(0)
	out, err := forwardPlain(ctx, 0, 0, t.DType(), t.Shape())
	if err != nil || out == t || t.Len() == 0 {
		return out, err
	}
	layout.Move(ctx, out, t, layout.NewNest([]int{t.Len()}, []int{1}, []int{1}, 0, 0))
	return out, nil
}
