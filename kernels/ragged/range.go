package ragged

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// steps returns the number of steps of delta from start to limit; ok is false if there are more than most.
type steps[T int32 | int64 | float32 | float64] func(start, limit, delta T, most int64) (n int64, ok bool)

// rangeOf returns the row of RaggedRange for one element type.
func rangeOf[T int32 | int64 | float32 | float64](count steps[T]) []kernels.Def {
	return kernels.ForType("T", element.DTypeOf[T](), func(c *kernels.Construction) (any, error) { return raggedRange(c, count) })
}

// raggedRange returns the kernel of RaggedRange, which outputs a ragged tensor whose rows are ranges.
func raggedRange[T int32 | int64 | float32 | float64](c *kernels.Construction, count steps[T]) (any, error) {
	dtype, err := args.IntAttr(c, "Tsplits")
	if err != nil {
		return nil, err
	}
	most := int64(math.MaxInt64)
	if dtype == tensor.Int32 {
		most = math.MaxInt32
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		rows := -1
		var limits [3]func(row int) T
		for i, name := range []string{"starts", "limits", "deltas"} {
			t := ctx.Input(i)
			if err := args.CheckType(ctx, i, element.DTypeOf[T]()); err != nil {
				return err
			}
			v := tensor.Of[T](t)
			switch {
			case t.Rank() > 1:
				return status.InvalidArgumentf("%s must be a scalar or vector", name)
			case t.Rank() == 0:
				limits[i] = func(int) T { return v[0] }
				continue
			case rows >= 0 && rows != len(v):
				return status.InvalidArgumentf("starts, limits, and deltas must have the same shape")
			}
			rows, limits[i] = len(v), func(row int) T { return v[row] }
		}
		if rows < 0 {
			rows = 1
		}
		splits := make([]int64, rows+1)
		end := ctx.Lookout()
		for row := range rows {
			if err := end.After(countTime); err != nil {
				return err
			}
			size, err := rangeRow(limits[0](row), limits[1](row), limits[2](row), most, count)
			if err != nil {
				return err
			}
			if size > most-splits[row] {
				return status.InvalidArgumentf("The total range size overflowed. Consider using int64 instead of int32 for row_splits_dtype.")
			}
			splits[row+1] = splits[row] + size
		}
		if err := args.OutputInts(ctx, 0, dtype, splits); err != nil {
			return err
		}
		out, err := ctx.Allocate(1, element.DTypeOf[T](), tensor.Shape{splits[rows]})
		if err != nil {
			return err
		}
		values := tensor.Of[T](out)
		for row := range rows {
			value, delta := limits[0](row), limits[2](row)
			if err := end.After(countTime); err != nil {
				return err
			}
			err := ctx.Each(int(splits[row+1]-splits[row]), 1, func(lo, hi int) error {
				for i := range values[int(splits[row])+lo : int(splits[row])+hi] {
					values[int(splits[row])+lo+i] = value
					value += delta
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	}), nil
}

// countTime is the time in nanoseconds to count the elements of a range.
const countTime = 16

// rangeRow returns the number of elements of a range, which must be at most most.
func rangeRow[T int32 | int64 | float32 | float64](start, limit, delta T, most int64, count steps[T]) (int64, error) {
	if delta == 0 {
		return 0, status.InvalidArgumentf("Requires delta != 0")
	}
	if delta > 0 && limit < start || delta < 0 && limit > start {
		return 0, nil
	}
	n, ok := count(start, limit, delta, most)
	if !ok {
		return 0, status.InvalidArgumentf("Requires ((limit - start) / delta) <= %d", most)
	}
	return n, nil
}

func floatSteps[T float32 | float64](start, limit, delta T, most int64) (n int64, ok bool) {
	size := math.Ceil(math.Abs(float64((limit - start) / delta)))
	if !(size <= float64(most)) {
		return 0, false
	}
	if size >= math.MaxInt64 {
		return math.MaxInt64, true
	}
	return int64(size), true
}

func intSteps[T int32 | int64](start, limit, delta T, most int64) (n int64, ok bool) {
	// The distance between two int64s fits in a uint64, whatever their signs.
	distance, step := uint64(int64(limit))-uint64(int64(start)), uint64(int64(delta))
	if delta < 0 {
		distance, step = -distance, -step
	}
	size := distance / step
	if distance%step != 0 {
		size++
	}
	return int64(size), size <= uint64(most)
}
