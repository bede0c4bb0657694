package image

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/philox"
)

// newRandomCrop returns the kernel of RandomCrop, which moves the pixels of a random part of an image as bytes.
func newRandomCrop(c *kernels.Construction) (any, error) {
	dtype, err1 := c.Attrs().Type("T")
	g, err2 := philox.NewGenerator(c)
	return kernels.Func(func(ctx *kernels.Context) error {
		if err := args.FirstError(args.CheckType(ctx, 0, dtype), args.CheckType(ctx, 1, tensor.Int64)); err != nil {
			return err
		}
		image, size := ctx.Input(0), ctx.Input(1)
		switch {
		case image.Rank() != 3:
			return status.InvalidArgumentf("input must be 3-dimensional%v", image.Shape())
		case size.Rank() != 1:
			return status.InvalidArgumentf("shape_t must be 1-dimensional%v", size.Shape())
		case size.Len() != 2:
			return status.InvalidArgumentf("shape_t must have two elements%v", size.Shape())
		}
		wanted := tensor.Of[int64](size)
		height, width, toHeight, toWidth := image.Dim(0), image.Dim(1), int(wanted[0]), int(wanted[1])
		switch {
		case toHeight < 0 || toWidth < 0:
			return status.InvalidArgumentf("Expected a non-negative size, got %d", min(toHeight, toWidth))
		case width < toWidth:
			return status.Errorf(status.FailedPrecondition, "width must be >= target_width: width = %d, target_width = %d", width, toWidth)
		case height < toHeight:
			return status.Errorf(status.FailedPrecondition, "height must be >= target_height: height = %d, target_height = %d", height, toHeight)
		}
		out, err := ctx.Allocate(0, dtype, tensor.Shape{int64(toHeight), int64(toWidth), image.Shape()[2]})
		if err != nil {
			return err
		}
		gen := g.Reserve(1)
		random := philox.OneAtATime(&gen)
		var y, x int
		if width > toWidth {
			x = int(random.Next() % uint32(width-toWidth+1))
		}
		if height > toHeight {
			y = int(random.Next() % uint32(height-toHeight+1))
		}
		if out.Len() == 0 {
			return nil
		}
		pixel := image.Dim(2) * dtype.Size()
		src, dst, row := image.Data(), out.Data(), toWidth*pixel
		ctx.Parallel(toHeight, max(1, element.CheapGrain/row), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				copy(dst[i*row:][:row], src[((y+i)*width+x)*pixel:])
			}
		})
		return nil
	}), args.FirstError(err1, err2)
}
