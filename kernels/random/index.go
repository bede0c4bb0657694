package random

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/permute"
)

// newIndexShuffle returns the kernel of RandomIndexShuffle.
func newIndexShuffle[T int32 | int64 | uint32 | uint64](c *kernels.Construction) (any, error) {
	rounds, err := c.Attrs().Int("rounds")
	if err != nil {
		return nil, err
	}
	if rounds < 4 || rounds%2 != 0 || rounds > 1<<16 {
		return nil, status.InvalidArgumentf("rounds must be even and at least 4, got %d", rounds)
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		index, seed, most := ctx.Input(0), ctx.Input(1), ctx.Input(2)
		if err := args.FirstError(args.CheckType(ctx, 0, element.DTypeOf[T]()), args.CheckType(ctx, 2, element.DTypeOf[T]())); err != nil {
			return err
		}
		n := max(index.Len(), most.Len(), seed.Len()/3)
		if index.Rank() != 0 && (index.Rank() != 1 || index.Len() != n) {
			return status.InvalidArgumentf("Index bust be a scalar or vector.")
		}
		if !(seed.Rank() == 1 && seed.Len() == 3) && !(seed.Rank() == 2 && seed.Dim(0) == n && seed.Dim(1) == 3) {
			return status.InvalidArgumentf("Seed must be a vector of size [3] or a matrix of size [%d, 3] but got %v.", n, seed.Shape())
		}
		if most.Rank() != 0 && (most.Rank() != 1 || most.Len() != n) {
			return status.InvalidArgumentf("Maxval must be a scalar or a vector of the same size as index but got %v", most.Shape())
		}
		shape := tensor.Shape{int64(n)}
		if index.Rank() == 0 && seed.Rank() == 1 && most.Rank() == 0 {
			shape = nil
		}
		out, err := ctx.Allocate(0, element.DTypeOf[T](), shape)
		if err != nil {
			return err
		}
		end := ctx.Lookout()
		words, ok := seedWords[seed.DType()]
		for i := range element.ViewOf[T](out) {
			at, limit := element.ViewOf[T](index)[min(i, index.Len()-1)], element.ViewOf[T](most)[min(i, most.Len()-1)]
			switch {
			case at < 0:
				return status.InvalidArgumentf("index must be >= 0 but was %d", at)
			case limit < 0:
				return status.InvalidArgumentf("max_index must be >= 0 but was %d", limit)
			case limit < at:
				return status.InvalidArgumentf("max_index must be >= index, but %d < %d", limit, at)
			}
			if !ok {
				return status.InvalidArgumentf("Invalid seed type: %v", seed.DType())
			}
			key := words(seed, i*(seed.Rank()-1))
			v, err := permute.Index(uint64(at), uint64(limit), key, int(rounds), end.After)
			if err != nil {
				return err
			}
			element.ViewOf[T](out)[i] = T(v)
		}
		return nil
	}), nil
}

// seedWords holds functions that read three numbers from row r of a seed.
var seedWords = map[tensor.DType]func(seed *tensor.Tensor, r int) [3]uint32{
	tensor.Int32: seedOf[uint32], tensor.Uint32: seedOf[uint32], tensor.Int64: seedOf[uint64], tensor.Uint64: seedOf[uint64],
}

func seedOf[T uint32 | uint64](seed *tensor.Tensor, r int) [3]uint32 {
	row := tensor.Of[T](seed)[3*r:][:3]
	return [3]uint32{uint32(row[0]), uint32(row[1]), uint32(row[2])}
}
