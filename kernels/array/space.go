package array

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/layout"
)

// blocks describes how SpaceToBatchND and BatchToSpaceND move pixels. A padded or cropped image is divided into blocks, and each offset
// within a block becomes a batch of smaller images.
type blocks struct {
	batch               int   // of the large images
	space, grid, before []int // sizes of the large and small images, and padding before
	block               []int
	pixel               int // bytes
}

// copy copies the pixels from src to dst, one of which holds the large images. Pixels in the padding are zero in small images and absent
// from large ones.
func (b *blocks) copy(dst, src []byte, toBatch bool) {
	if toBatch {
		clear(dst)
	}
	offsets := 1
	for _, n := range b.block {
		offsets *= n
	}
	cells := 1
	for _, n := range b.grid {
		cells *= n
	}
	at := 0
	for offset := range offsets {
		for n := range b.batch {
			for cell := range cells {
				if place, ok := b.place(n, offset, cell); ok {
					if toBatch {
						copy(dst[at:at+b.pixel], src[place*b.pixel:])
					} else {
						copy(dst[place*b.pixel:(place+1)*b.pixel], src[at:])
					}
				}
				at += b.pixel
			}
		}
	}
}

// place returns the index of the pixel in large image n that corresponds to a cell of the small image at offset. It returns false for
// padding.
func (b *blocks) place(n, offset, cell int) (int, bool) {
	at, step := 0, 1
	for d := len(b.space) - 1; d >= 0; d-- {
		x := cell%b.grid[d]*b.block[d] + offset%b.block[d] - b.before[d]
		if x < 0 || x >= b.space[d] {
			return 0, false
		}
		at += x * step
		step *= b.space[d]
		cell /= b.grid[d]
		offset /= b.block[d]
	}
	return n*step + at, true
}

// spaceBatch is SpaceToBatchND and BatchToSpaceND. It is also SpaceToBatch and BatchToSpace, whose block is square, two-dimensional and an
// attribute.
type spaceBatch struct {
	toBatch bool
	size    int64 // 0 if the block's shape is input 1
}

func (k *spaceBatch) Compute(ctx *kernels.Context) error {
	in := ctx.Input(0)
	block, margins, err := k.read(ctx)
	if err != nil {
		return err
	}
	if in.DType().Size() == 0 {
		return status.Unimplementedf("%s of type %v is not supported", ctx.Node.Op, in.DType())
	}
	if in.Rank() < 1+len(block) {
		return status.InvalidArgumentf("input rank should be >= %d instead of %d", 1+len(block), in.Rank())
	}
	product := int64(1)
	for i, n := range block {
		if n < 1 {
			return status.InvalidArgumentf("All values in block_shape must be positive, got value, %d at index %d.", n, i)
		}
		if product > (1<<40)/n {
			return status.InvalidArgumentf("Product of block sizes must be positive, got an overflow")
		}
		product *= n
	}
	shape := in.Shape().Clone()
	b := blocks{pixel: in.Shape()[1+len(block):].Elements() * in.DType().Size()}
	if k.toBatch {
		b.batch, shape[0] = in.Dim(0), shape[0]*product
	} else {
		if shape[0]%product != 0 {
			return status.InvalidArgumentf("Input batch dimension (%d) is not divisible by product of block sizes (%d)", shape[0], product)
		}
		shape[0] /= product
		b.batch = int(shape[0])
	}
	for i, n := range block {
		size, before, after := in.Shape()[i+1], margins[2*i], margins[2*i+1]
		if err := k.dimension(&b, i, size, n, before, after); err != nil {
			return err
		}
		if k.toBatch {
			shape[i+1] = int64(b.grid[i])
		} else {
			shape[i+1] = int64(b.space[i])
		}
	}
	out, err := ctx.Allocate(0, in.DType(), shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	if !out.OnHost() {
		return b.copyOn(ctx, out, in, k.toBatch)
	}
	b.copy(out.Data(), in.Data(), k.toBatch)
	return nil
}

// dimension computes a spatial dimension.
func (k *spaceBatch) dimension(b *blocks, i int, size, block, before, after int64) error {
	space, grid := size, size
	if before < 0 || after < 0 || before > 1<<40 || after > 1<<40 {
		if k.toBatch {
			return status.InvalidArgumentf("Paddings must be non-negative")
		}
		return status.InvalidArgumentf("Crops must be non-negative")
	}
	if k.toBatch {
		padded := size + before + after
		if padded%block != 0 {
			return status.InvalidArgumentf("padded_shape[%d]=%d is not divisible by block_shape[%d]=%d", i, padded, i, block)
		}
		grid = padded / block
	} else if space = size*block - before - after; space < 0 {
		return status.InvalidArgumentf("cropped_shape[%d]=%d must be non-negative", i, space)
	}
	b.space, b.grid, b.before, b.block = append(b.space, int(space)), append(b.grid, int(grid)), append(b.before, int(before)), append(b.block, int(block))
	return nil
}

// read returns the block's shape and the paddings or crops, two for each dimension of the block.
func (k *spaceBatch) read(ctx *kernels.Context) (block, margins []int64, err error) {
	at, name := 2, "paddings"
	if !k.toBatch {
		name = "crops"
	}
	if k.size != 0 {
		at, block = 1, []int64{k.size, k.size}
	} else {
		if t := ctx.Input(1); t.Rank() != 1 {
			return nil, nil, status.InvalidArgumentf("block_shape rank should be 1 instead of %d", t.Rank())
		}
		if block, err = ctx.Ints(1); err != nil {
			return nil, nil, err
		}
	}
	if s := ctx.Input(at).Shape(); !s.Equal(tensor.Shape{int64(len(block)), 2}) {
		return nil, nil, status.InvalidArgumentf("%s should have shape [%d, 2] instead of %v", name, len(block), s)
	}
	margins, err = ctx.Ints(at)
	return block, margins, err
}

// depthSpace is DepthToSpace and SpaceToDepth, which turn blocks of pixels into channels and channels into blocks.
type depthSpace struct {
	size    int
	toDepth bool
	first   bool // channels come before rows and columns
}

func (k *depthSpace) Compute(ctx *kernels.Context) error {
	in := ctx.Input(0)
	if in.Rank() != 4 {
		if k.toDepth {
			return status.InvalidArgumentf("Input rank should be 4 instead of %d", in.Rank())
		}
		return status.InvalidArgumentf("Input rank should be: 4 instead of: %d", in.Rank())
	}
	n, h, w, c, size := in.Dim(0), in.Dim(1), in.Dim(2), in.Dim(3), k.size
	if k.first {
		c, h, w = in.Dim(1), in.Dim(2), in.Dim(3)
	}
	var sizes [4]int
	if k.toDepth {
		if h%size != 0 || w%size != 0 {
			return status.InvalidArgumentf("Image width %d and height %d should be divisible by block_size: %d", w, h, size)
		}
		h, w = h/size, w/size
		sizes = [4]int{n, h, w, c * size * size}
	} else {
		if c%(size*size) != 0 {
			return status.InvalidArgumentf("Input depth dimension %d should be divisible by: %d", c, size*size)
		}
		c /= size * size
		sizes = [4]int{n, h * size, w * size, c}
	}
	shape := tensor.Shape{int64(sizes[0]), int64(sizes[1]), int64(sizes[2]), int64(sizes[3])}
	if k.first {
		shape[1], shape[2], shape[3] = shape[3], shape[1], shape[2]
	}
	out, err := ctx.Allocate(0, in.DType(), shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	switch {
	case k.first && k.toDepth:
		layout.Move(ctx, out, in, layout.Permuted([]int{n, c, h, size, w, size}, 0, 3, 5, 1, 2, 4))
	case k.first:
		layout.Move(ctx, out, in, layout.Permuted([]int{n, size, size, c, h, w}, 0, 3, 4, 1, 5, 2))
	case k.toDepth:
		layout.Move(ctx, out, in, layout.Permuted([]int{n, h, size, w, size, c}, 0, 1, 3, 2, 4, 5))
	default:
		layout.Move(ctx, out, in, layout.Permuted([]int{n, h, w, size, size, c}, 0, 1, 3, 2, 4, 5))
	}
	return nil
}

func newDepthSpace(toDepth bool) func(c *kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		size, err := c.Attrs().Int("block_size")
		first, err2 := args.ChannelsFirst(c)
		if err := args.FirstError(err, err2); err != nil {
			return nil, err
		}
		const limit = 46340 // its square fits 31 bits
		if !toDepth && (size <= 1 || size > limit) {
			return nil, status.InvalidArgumentf("Block size should be > 1 and <= %d but was: %d", limit, size)
		}
		if size <= 1 || size > limit {
			return nil, status.InvalidArgumentf("Block size should be > 1, but was: %d", size)
		}
		if first && c.Device.Type() == "CPU" {
			return nil, status.InvalidArgumentf("No OpKernel was registered to support Op '%s' used by {{node %s}}: Only NHWC data_format supported on CPU. Got NCHW", c.Node.Op, c.Node.Name)
		}
		return &depthSpace{int(size), toDepth, first}, nil
	}
}

// newSpaceBatchND and newSpaceBatch return the constructors of ops that move space to the batch, or back. The former ops have the block
// sizes as an input, the latter a single size as an attribute.
func newSpaceBatchND(toBatch bool) func(*kernels.Construction) (any, error) {
	return func(*kernels.Construction) (any, error) { return &spaceBatch{toBatch: toBatch}, nil }
}

func newSpaceBatch(toBatch bool) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		size, err := c.Attrs().Int("block_size")
		if err == nil && size <= 1 {
			err = status.InvalidArgumentf("Block size should be > 1, but was: %d", size)
		}
		return &spaceBatch{toBatch, size}, err
	}
}
