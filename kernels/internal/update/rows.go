package update

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/layout"
)

// ScatterTypes rejects updates whose type differs from the variable's.
func ScatterTypes(have tensor.DType, updates *tensor.Tensor) error {
	if have != updates.DType() {
		return status.InvalidArgumentf("DType of scatter resource and updates does not match.")
	}
	return nil
}

// StartsWith reports whether the first dimensions of s are prefix.
func StartsWith(s, prefix tensor.Shape) bool {
	return len(s) >= len(prefix) && s[:len(prefix)].Equal(prefix)
}

// CheckDivisors rejects division by zero: of integers and, if strict, also of floats.
func CheckDivisors(op Op, updates *tensor.Tensor, strict bool) error {
	if op == Div && (strict || updates.DType().IsInteger()) && ZeroIn[updates.DType()](updates.Data()) {
		return status.InvalidArgumentf("updates must not contain 0")
	}
	return nil
}

// Rows is the common loop of all scatter ops: it applies row i of updates (or its one element, if it is a scalar) to row at[i] of t. Rows
// have n elements. The indices have already been checked. Since a row may occur more than once, the work is divided among cores by columns.
// Once the step has ended, Rows fails, after whole rows; rows of variables are updated in Context.Finish.
func Rows(ctx *kernels.Context, op Op, t *tensor.Tensor, at []int64, n int, updates *tensor.Tensor) error {
	if n == 0 || len(at) == 0 {
		return nil
	}
	size := t.DType().Size()
	step := n
	if updates.Len() == 1 && updates.Rank() == 0 {
		step = 0
	}
	if size == 0 && op == Add {
		appendRows(t.Strings(), at, n, updates.Strings(), step)
		return nil
	}
	if size == 0 {
		return setRows(ctx, t, at, n, updates, step)
	}
	dst, src := t.Data(), updates.Data()
	if step == 0 && n > 1 {
		src = repeated(src[:size], n)
	}
	update := Updaters[op][t.DType()]
	if cost := rowTime + n/rowSpeed; len(at) > fewRows/cost {
		return ctx.Each(len(at), cost, func(lo, hi int) error {
			updateRows(ctx, op, update, dst, src[lo*step*size:], at[lo:hi], n, step, size)
			return nil
		})
	}
	updateRows(ctx, op, update, dst, src, at, n, step, size)
	return nil
}

// updateRows applies row i of src to row at[i] of dst, on as many cores as it is worth. Rows have n elements of the given size; step is n, or 0
// if the same row of src is for all.
func updateRows(ctx *kernels.Context, op Op, update Func, dst, src []byte, at []int64, n, step, size int) {
	row := n * size
	ctx.Device.Parallel(n, max(leastColumns, element.CheapGrain/len(at)), func(lo, hi int) {
		for i, r := range at {
			to, with := dst[int(r)*row+lo*size:int(r)*row+hi*size], src[(i*step+lo)*size:(i*step+hi)*size]
			if op == Set {
				copy(to, with)
			} else {
				update(to, to, with)
			}
		}
	})
}

// fewRows is the time in nanoseconds that rows take which are updated at once.
const fewRows = 1 << 18

// rowTime is the time in nanoseconds to find a row, and rowSpeed the number of elements updated in a nanosecond.
const rowTime, rowSpeed = 8, 1

// leastColumns is the minimum number of columns of a scatter per core: enough for long runs of memory.
const leastColumns = 256

func repeated(element []byte, n int) []byte {
	out := make([]byte, 0, n*len(element))
	for range n {
		out = append(out, element...)
	}
	return out
}

// setRows is Rows for elements that are Go values, which can only be set.
func setRows(ctx *kernels.Context, t *tensor.Tensor, at []int64, n int, updates *tensor.Tensor, step int) error {
	m := layout.MoverOf(t.DType())
	return ctx.Each(len(at), rowTime*n, func(lo, hi int) error {
		if step > 0 {
			m.Rows(t, updates, at, nil, n, lo, hi)
			return nil
		}
		for _, r := range at[lo:hi] {
			m.Fill(t, updates, int(r)*n, (int(r)+1)*n)
		}
		return nil
	})
}

// appendRows is Rows for adding strings: those for one row are concatenated in order.
func appendRows(dst []string, at []int64, n int, src []string, step int) {
	sums := map[int][]byte{}
	for i, r := range at {
		for j := range n {
			to := int(r)*n + j
			from := i*step + j
			if step == 0 {
				from = 0
			}
			sum, ok := sums[to]
			if !ok {
				sum = []byte(dst[to])
			}
			sums[to] = append(sum, src[from]...)
		}
	}
	for to, sum := range sums {
		dst[to] = string(sum)
	}
}
