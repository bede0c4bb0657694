package kernels

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// scatterRef makes the kernel of an op that updates rows of a reference variable, scatterVariable
// of one that updates rows of a resource variable. Updates of one variable exclude each other
// with and without use_locking.
func scatterRef(op updateOp) func(*Construction) (any, error) {
	return func(c *Construction) (any, error) {
		return Func(func(ctx *Context) error {
			v := ctx.Ref(0)
			if err := scatterTypes(v.DType(), ctx.Input(2)); err != nil {
				return err
			}
			err := updateVariable(ctx, v, func(t *tensor.Tensor) error {
				return scatterRows(ctx, op, t, false)
			})
			if err == nil {
				ctx.Pass(0, 0)
			}
			return err
		}), nil
	}
}

func scatterVariable(op updateOp) func(*Construction) (any, error) {
	return func(c *Construction) (any, error) {
		return Func(func(ctx *Context) error {
			v, err := ctx.Variable(0)
			if err != nil {
				return err
			}
			if err := scatterTypes(v.DType(), ctx.Input(2)); err != nil {
				return err
			}
			return updateVariable(ctx, v, func(t *tensor.Tensor) error {
				return scatterRows(ctx, op, t, true)
			})
		}), nil
	}
}

func scatterTypes(have tensor.DType, updates *tensor.Tensor) error {
	if have != updates.DType() {
		return status.InvalidArgumentf("DType of scatter resource and updates does not match.")
	}
	return nil
}

// scatterRows updates params[indices[i]] with updates[i], or with the one scalar that updates
// is, in the order of the indices; inputs 1 and 2 are the indices and the updates. strict is what
// TensorFlow's resource ops do: dividing floats by zero is forbidden too, and without an index updates may have
// any shape. All indices are checked before
// anything is written. Of values in an accelerator's memory only the shapes are checked.
func scatterRows(ctx *Context, op updateOp, params *tensor.Tensor, strict bool) error {
	indices, updates := ctx.Input(1), ctx.Input(2)
	if params.Rank() == 0 {
		return status.InvalidArgumentf("params must be at least 1-D, got shape %v", params.Shape())
	}
	inner := params.Shape()[1:]
	lead := indices.Rank()
	if strict && updates.Rank() != 0 && !startsWith(updates.Shape(), indices.Shape()) {
		if indices.Len() == 0 {
			return nil
		}
		return status.InvalidArgumentf("The shape of indices (%v) must be a prefix of the shape of updates (%v)", indices.Shape(), updates.Shape())
	}
	if updates.Rank() != 0 && !(updates.Rank() == lead+len(inner) && updates.Shape()[:lead].Equal(indices.Shape()) && updates.Shape()[lead:].Equal(inner)) {
		return status.InvalidArgumentf("Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got updates.shape %v, indices.shape %v, params.shape %v",
			updates.Shape(), indices.Shape(), params.Shape())
	}
	if !params.OnHost() {
		return scatterOn(ctx, op, params, indices, indices.Len(), params.Shape()[:1], updates)
	}
	at, err := readIndices(indices)
	if err != nil {
		return err
	}
	defer at.free()
	if err := at.within(indices.Shape(), params.Shape()[0]); err != nil {
		return err
	}
	if err := checkDivisors(op, updates, strict); err != nil {
		return err
	}
	updateRows(ctx.Device, op, params, at.v, inner.Elements(), updates)
	return nil
}

// startsWith tells whether the first dimensions of s are those of prefix.
func startsWith(s, prefix tensor.Shape) bool {
	return len(s) >= len(prefix) && s[:len(prefix)].Equal(prefix)
}

func checkDivisors(op updateOp, updates *tensor.Tensor, strict bool) error {
	if op == updateDiv && (strict || updates.DType().IsInteger()) && zeroIn[updates.DType()](updates.Data()) {
		return status.InvalidArgumentf("updates must not contain 0")
	}
	return nil
}

// updateRows is the loop of all scatter ops: row i of updates (its one element, where it is a
// scalar) goes to row at[i] of t; rows have n elements. Indices have been checked. A row may be named
// more than once: cores share out the columns.
func updateRows(dev Device, op updateOp, t *tensor.Tensor, at []int64, n int, updates *tensor.Tensor) {
	if n == 0 || len(at) == 0 {
		return
	}
	size := t.DType().Size()
	step := n
	if updates.Len() == 1 && updates.Rank() == 0 {
		step = 0
	}
	if size == 0 && op == updateAdd {
		appendRows(t.Strings(), at, n, updates.Strings(), step)
		return
	}
	if size == 0 {
		setRows(t, at, n, updates, step)
		return
	}
	dst, src, row := t.Data(), updates.Data(), n*size
	if step == 0 && n > 1 {
		src = repeated(src[:size], n)
	}
	update := updaters[op][t.DType()]
	dev.Parallel(n, max(leastColumns, cheapGrain/len(at)), func(lo, hi int) {
		for i, r := range at {
			to, with := dst[int(r)*row+lo*size:int(r)*row+hi*size], src[(i*step+lo)*size:(i*step+hi)*size]
			if op == updateSet {
				copy(to, with)
			} else {
				update(to, to, with)
			}
		}
	})
}

// leastColumns is how many columns of a scatter are worth a core: enough for long runs of memory.
const leastColumns = 256

func repeated(element []byte, n int) []byte {
	out := make([]byte, 0, n*len(element))
	for range n {
		out = append(out, element...)
	}
	return out
}

// setRows is updateRows for elements that are Go values, which can only be set.
func setRows(t *tensor.Tensor, at []int64, n int, updates *tensor.Tensor, step int) {
	switch t.DType() {
	case tensor.String:
		setCells(t.Strings(), at, n, updates.Strings(), step)
	case tensor.Resource:
		setCells(t.Handles(), at, n, updates.Handles(), step)
	default:
		for i, r := range at {
			for j := range n {
				setVariant(t.Variants(), int(r)*n+j, updates.Variants()[(i*n+j)*min(step, 1)])
			}
		}
	}
}

func setCells[E any](dst []E, at []int64, n int, src []E, step int) {
	for i, r := range at {
		row := dst[int(r)*n : (int(r)+1)*n]
		if step == 0 {
			for j := range row {
				row[j] = src[0]
			}
			continue
		}
		copy(row, src[i*n:])
	}
}

// appendRows is updateRows for strings that are added: what goes to one place is put together in order.
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
