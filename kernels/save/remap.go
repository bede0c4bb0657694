package save

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/checkpoint"
	"github.com/troupe-run/troupe/kernels/internal/disk"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// remapMatrix holds the attributes of LoadAndRemapMatrix: the result's size, and the maximum number of rows of the checkpoint's matrix that
// may be in memory at once (unlimited if not positive).
type remapMatrix struct{ rows, cols, most int64 }

func newRemapMatrix(c *kernels.Construction) (any, error) {
	var m remapMatrix
	for name, p := range map[string]*int64{"num_rows": &m.rows, "num_cols": &m.cols, "max_rows_in_memory": &m.most} {
		v, err := c.Attrs().Int(name)
		if err != nil {
			return nil, err
		}
		*p = v
	}
	if m.rows < 0 || m.cols < 1 {
		return nil, status.InvalidArgumentf("num_rows %d must be >= 0 and num_cols %d >= 1", m.rows, m.cols)
	}
	return disk.Async(m.run), nil
}

// remapping maps each new row or column to an old one.
type remapping struct {
	old   []int64         // negative for none
	byOld map[int64]int64 // the inverse
}

func newRemapping(old []int64) (remapping, error) {
	r := remapping{old, map[int64]int64{}}
	for i, o := range old {
		if o < 0 {
			continue
		}
		if have, ok := r.byOld[o]; ok {
			return r, status.Unimplementedf("Old ID %d is mapped to both new ID %d and %d, which is not supported.", o, have, i)
		}
		r.byOld[o] = int64(i)
	}
	return r, nil
}

// present reports whether a new row or column is an old one. Without a remapping, all are.
func (r remapping) present(i int) bool { return r.byOld == nil || r.old[i] >= 0 }

// inputs reads the remappings. That of the columns may be empty, which keeps them unchanged.
func (m remapMatrix) inputs(ctx *kernels.Context) (rows, cols remapping, err error) {
	if err := stringInputs(ctx, 2); err != nil {
		return rows, cols, err
	}
	r, c := ctx.Input(2), ctx.Input(3)
	switch {
	case r.DType() != tensor.Int64 || c.DType() != tensor.Int64 || ctx.Input(4).DType() != tensor.Float32:
		err = status.InvalidArgumentf("LoadAndRemapMatrix needs remappings of type int64 and initializing values of type float, got %v, %v and %v",
			r.DType(), c.DType(), ctx.Input(4).DType())
	case r.Rank() != 1:
		err = status.InvalidArgumentf("The `row_remapping` tensor must be 1-D, got a tensor of shape %v", r.Shape())
	case int64(r.Len()) != m.rows:
		err = status.InvalidArgumentf("Size of row_remapping is %d instead of being equal to num_rows=%d", r.Len(), m.rows)
	}
	if err != nil {
		return rows, cols, err
	}
	if rows, err = newRemapping(tensor.Of[int64](r)); err != nil {
		return rows, cols, err
	}
	switch {
	case c.Rank() != 1:
		err = status.InvalidArgumentf("The `col_remapping` tensor must be 1-D, got a tensor of shape %v", c.Shape())
	case c.Len() > 0 && int64(c.Len()) != m.cols:
		err = status.InvalidArgumentf("Provided col_remapping, but its size is %d instead of being equal to num_cols=%d", c.Len(), m.cols)
	case c.Len() > 0:
		cols, err = newRemapping(tensor.Of[int64](c))
	}
	if err != nil {
		return rows, cols, err
	}
	switch path, name := ctx.Input(0), ctx.Input(1); {
	case path.Len() != 1:
		err = status.InvalidArgumentf("The `ckpt_path` tensor must have exactly one element, got tensor of shape %v", path.Shape())
	case name.Len() != 1:
		err = status.InvalidArgumentf("The `old_tensor_name` tensor must have exactly one element, got tensor of shape %v", name.Shape())
	}
	return rows, cols, err
}

func (m remapMatrix) run(ctx *kernels.Context) error {
	rows, cols, err := m.inputs(ctx)
	if err != nil {
		return err
	}
	prefix, err := pathOf(ctx, ctx.Input(0).Strings()[0])
	if err != nil {
		return err
	}
	r, err := checkpoint.Open(disk.Files(ctx), prefix, variant.Codec{Pool: ctx.Device.Pool()})
	if err != nil {
		return err
	}
	defer r.Close()
	name := ctx.Input(1).Strings()[0]
	dtype, shape, err := r.Lookup(name)
	switch {
	case err != nil:
		return err
	case dtype != tensor.Float32:
		return status.InvalidArgumentf("Tensor %s has invalid type %v instead of expected type float", name, dtype)
	case len(shape) != 2:
		return status.InvalidArgumentf("Tensor %s has shape %v of invalid rank %d instead of expected shape of rank 2.", name, shape, len(shape))
	case cols.byOld == nil && m.cols != shape[1]:
		return status.InvalidArgumentf("Tensor %s has shape %v, where the size of its 2nd dimension is %d instead of being equal to num_cols=%d", name, shape, shape[1], m.cols)
	}
	out, err := ctx.Allocate(0, tensor.Float32, tensor.Shape{m.rows, m.cols})
	if err != nil {
		return err
	}
	matrix := tensor.Of[float32](out)
	if err := kernels.Clear(ctx, matrix); err != nil { // a remapping may name columns that the old matrix lacks
		return err
	}
	if err := m.load(ctx, r, name, rows, cols, matrix); err != nil {
		return err
	}
	return m.fill(tensor.Of[float32](ctx.Input(4)), rows, cols, matrix)
}

// load copies the old rows that are mapped.
func (m remapMatrix) load(ctx *kernels.Context, r *checkpoint.Reader, name string, rows, cols remapping, matrix []float32) error {
	if len(rows.byOld) == 0 {
		return nil
	}
	first, last := int64(-1), slices.Max(rows.old)
	for _, o := range rows.old {
		if o >= 0 && (first < 0 || o < first) {
			first = o
		}
	}
	for first <= last {
		n := last - first + 1
		if m.most > 0 {
			n = min(n, m.most)
		}
		part, err := r.ReadSlice(ctx.Device.Pool(), name, checkpoint.Slice{{Start: first, Length: n}, {Length: -1}})
		if err != nil {
			return err
		}
		width := int64(part.Dim(1))
		for i := range n {
			if row, ok := rows.byOld[first+i]; ok {
				copyRow(matrix[row*m.cols:(row+1)*m.cols], tensor.Of[float32](part)[i*width:(i+1)*width], cols)
			}
		}
		part.Release()
		first += n
	}
	return nil
}

func copyRow(dst, src []float32, cols remapping) {
	if cols.byOld == nil {
		copy(dst, src)
		return
	}
	for i, o := range cols.old {
		if o >= 0 && o < int64(len(src)) {
			dst[i] = src[o]
		}
	}
}

// fill sets the elements that are not in the old matrix to the given values, in order.
func (m remapMatrix) fill(values []float32, rows, cols remapping, matrix []float32) error {
	used := 0
	for i := range int(m.rows) {
		for j := range int(m.cols) {
			if rows.present(i) && cols.present(j) {
				continue
			}
			if used == len(values) {
				return status.InvalidArgumentf("initializing_values contained %d elements, but more missing values remain.", len(values))
			}
			matrix[i*int(m.cols)+j] = values[used]
			used++
		}
	}
	if used < len(values) {
		return status.InvalidArgumentf("initializing_values contained %d elements, but only %d elements were used to fill in missing values.", len(values), used)
	}
	return nil
}
