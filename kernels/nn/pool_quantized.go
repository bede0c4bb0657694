package nn

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// quantizedPool is QuantizedMaxPool and QuantizedAvgPool: pooling of quantized numbers, which keeps their range.
type quantizedPool struct{ inner kernels.Kernel }

func (k *quantizedPool) Compute(ctx *kernels.Context) error {
	for i, name := range []string{"min_input", "max_input"} {
		if err := args.CheckType(ctx, 1+i, tensor.Float32); err != nil {
			return err
		}
		if t := ctx.Input(1 + i); t.Rank() != 0 {
			return status.InvalidArgumentf("%s shape must be rank 0 but is rank %d, received shape: %v", name, t.Rank(), t.Shape())
		}
	}
	if err := k.inner.Compute(ctx); err != nil {
		return err
	}
	ctx.Pass(1, 1)
	ctx.Pass(2, 2)
	return nil
}

// quantizedPoolRows returns the rows for one type. make returns the pooling kernel.
func quantizedPoolRows(dtype tensor.DType, make func(p pooling) kernels.Kernel) []kernels.Def {
	return kernels.ForType("T", dtype, func(c *kernels.Construction) (any, error) {
		var p pooling
		ksize, err1 := c.Attrs().IntList("ksize")
		strides, err2 := c.Attrs().IntList("strides")
		if err := args.FirstError(err1, err2, p.readPadding(c)); err != nil {
			return nil, err
		}
		if err := p.setWindow(c.Node.Op, ksize, strides); err != nil {
			return nil, err
		}
		return &quantizedPool{make(p)}, nil
	})
}

func quantizedMaxPool[T int8 | uint8](dtype tensor.DType, m poolMath[T]) []kernels.Def {
	return quantizedPoolRows(dtype, func(p pooling) kernels.Kernel { return &maxPoolKernel[T]{p, m, dtype, false} })
}

func quantizedAvgPool[T int8 | uint8](dtype tensor.DType) []kernels.Def {
	return quantizedPoolRows(dtype, func(p pooling) kernels.Kernel { return &quantizedMean[T]{p, dtype} })
}

// quantizedMean is average pooling of integers, truncated to integers.
type quantizedMean[T int8 | uint8] struct {
	pooling
	dtype tensor.DType
}

func (k *quantizedMean[T]) Compute(ctx *kernels.Context) error {
	image := ctx.Input(0)
	if err := args.CheckType(ctx, 0, k.dtype); err != nil {
		return err
	}
	if k.sizeDepth <= 0 {
		return status.InvalidArgumentf("depth_window must not be 0 or less, but is %d", k.sizeDepth)
	}
	if k.sizeDepth != 1 {
		return status.Unimplementedf("Non-spatial pooling is not yet supported. Volunteers? :)")
	}
	p, err := k.planAvg(image.Shape())
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, p.outShape())
	if err != nil || out.Len() == 0 {
		return err
	}
	src, dst := tensor.Of[T](image), tensor.Of[T](out)
	return element.WithScratch(ctx, p.batch*p.rows.out, p.grain(), p.depth, func(sums []int32, lo, hi int) {
		p.eachPlace(lo, hi, func(place, image int, rows, cols [3]int) {
			clear(sums)
			for y := rows[0]; y < rows[1]; y++ {
				for x := cols[0]; x < cols[1]; x++ {
					for c, v := range src[image+((rows[2]+y)*p.cols.in+cols[2]+x)*p.depth:][:p.depth] {
						sums[c] += int32(v)
					}
				}
			}
			n := int32(max(1, (rows[1]-rows[0])*(cols[1]-cols[0])))
			for c, sum := range sums {
				dst[place*p.depth+c] = T(sum / n)
			}
		})
	})
}
