package ragged

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// raggedDense is RaggedTensorToTensor: it copies the values of a ragged tensor into a dense one.
type raggedDense struct {
	// types holds the form in which each partition describes its rows: FIRST_DIM_SIZE, ROW_SPLITS or VALUE_ROWIDS.
	types []string
	rank  int // number of ragged dimensions
	lead  int // index of the first ragged dimension's partition: 1 after a FIRST_DIM_SIZE
}

// firstPartition is the index of the first partition among the inputs of RaggedTensorToTensor: shape, values, default value, partitions.
const firstPartition = 3

func newRaggedDense(c *kernels.Construction) (any, error) {
	types, err := c.Attrs().StrList("row_partition_types")
	if err != nil {
		return nil, err
	}
	for _, t := range types {
		switch t {
		case "FIRST_DIM_SIZE", "VALUE_ROWIDS", "ROW_SPLITS":
		default:
			return nil, status.InvalidArgumentf("Unknown string for partition info type: %s", t)
		}
	}
	k := &raggedDense{types: types, rank: len(types)}
	if len(types) > 0 && types[0] == "FIRST_DIM_SIZE" {
		k.rank, k.lead = k.rank-1, 1
	}
	return k, nil
}

// Compute outputs a dense tensor of default values, with the values at their places.
func (k *raggedDense) Compute(ctx *kernels.Context) error {
	partitions := make([][]int64, len(ctx.Inputs)-firstPartition)
	for i := range partitions {
		if t := ctx.Input(firstPartition + i); t.Rank() > 1 {
			return status.InvalidArgumentf("Row partition %d must be a vector or a scalar, not %v", i, t.Shape())
		}
		var err error
		if partitions[i], err = ctx.Ints(firstPartition + i); err != nil {
			return err
		}
	}
	if len(k.types) == 0 {
		return status.InvalidArgumentf("No row_partition_types given.")
	}
	if len(partitions) < len(k.types) {
		return status.InvalidArgumentf("There are %d row partition types for %d tensors", len(k.types), len(partitions))
	}
	if len(partitions[0]) == 0 {
		return status.InvalidArgumentf("Invalid first partition input. Tensor requires at least one element.")
	}
	rows := partitions[0][0]
	switch k.types[0] {
	case "VALUE_ROWIDS":
		return status.InvalidArgumentf("Cannot handle VALUE_ROWIDS in first dimension.")
	case "ROW_SPLITS":
		rows = int64(len(partitions[0]) - 1)
	}
	shape, err := k.shape(ctx, rows, partitions)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, ctx.Input(1).DType(), shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	fillBroadcast(ctx, out, ctx.Input(2))
	return k.place(ctx, out, rows, partitions)
}

// shape returns the shape of the output. Sizes that input 0 leaves open are those that the values need.
func (k *raggedDense) shape(ctx *kernels.Context, rows int64, partitions [][]int64) (tensor.Shape, error) {
	values, fallback := ctx.Input(1).Shape(), ctx.Input(2).Shape()
	if len(fallback) >= len(values) {
		return nil, status.InvalidArgumentf("default_value.shape=%v and rt_input.flat_values.shape=%v are incompatible: default_value.rank = %d  must be less than rt_input.flat_values.rank = %d",
			fallback, values, len(fallback), len(values))
	}
	for i, d := range fallback {
		if v := values[i+1]; d != 1 && d != v {
			return nil, status.InvalidArgumentf("default_value.shape=%v and rt_input.flat_values.shape=%v are incompatible: default_value.shape[%d] = %d but rt_input.flat_values.shape[%d] = %d",
				fallback, values, i-len(fallback), d, i-len(fallback), v)
		}
	}
	given, err := shapes.PartialShapeInput(ctx, 0)
	if err != nil {
		return nil, err
	}
	shape := given.Dims.Clone()
	if !given.Known {
		shape = make(tensor.Shape, k.rank+len(values))
		for i := range shape {
			shape[i] = -1
		}
	}
	if len(shape) != k.rank+len(values) {
		return nil, status.InvalidArgumentf("rt_input.shape and shape=%v are incompatible: rt_input.rank = %d but shape.rank = %d", given, k.rank+len(values), len(shape))
	}
	for i, v := range values[1:] {
		switch at := k.rank + 1 + i; {
		case shape[at] < 0:
			shape[at] = v
		case shape[at] != v:
			return nil, status.InvalidArgumentf("rt_input.shape and shape=%v are incompatible: rt_input.shape[%d] = %d but shape[%d] = %d", given, at, v, at, shape[at])
		}
	}
	if shape[0] < 0 {
		shape[0] = rows
	}
	for i := 1; i <= k.rank; i++ {
		if shape[i] < 0 {
			p := k.lead + i - 1
			if k.types[p] == "FIRST_DIM_SIZE" {
				return nil, status.InvalidArgumentf("Cannot handle partition type FIRST_DIM_SIZE")
			}
			shape[i] = longestRow(k.types[p] == "ROW_SPLITS", partitions[p])
		}
	}
	return shapes.ShapeOf(shape)
}

// longestRow returns the length of the longest row.
func longestRow(splits bool, partition []int64) (width int64) {
	if splits {
		for i := 1; i < len(partition); i++ {
			width = max(width, partition[i]-partition[i-1])
		}
		return width
	}
	start := 0
	for i := range partition {
		if partition[i] != partition[start] {
			start = i
		}
		width = max(width, int64(i-start+1))
	}
	return width
}

// fillBroadcast sets all of out to a value, which is broadcast along the leading dimensions.
func fillBroadcast(ctx *kernels.Context, out, value *tensor.Tensor) {
	src, own, lead := make([]int, out.Rank()), shapes.StridesOf(value.Shape()), out.Rank()-value.Rank()
	for i, d := range value.Shape() {
		if d != 1 {
			src[lead+i] = own[i]
		}
	}
	layout.Move(ctx, out, value, layout.NewNest(shapes.Ints(out.Shape()), shapes.StridesOf(out.Shape()), src, 0, 0))
}

// maxRaggedRows bounds the rows of one dimension if there are fewer values. Partitions that do not match could describe more rows than fit
// in memory.
const maxRaggedRows = 1 << 26

// place copies the values into out.
func (k *raggedDense) place(ctx *kernels.Context, out *tensor.Tensor, rows int64, partitions [][]int64) error {
	values := ctx.Input(1)
	count := values.Dim(0)
	step := out.Shape()[1 : k.rank+1].Elements()
	// at holds the position in the output at which each row of a dimension starts; -1 for a row that has no place there.
	at := make([]int64, min(rows, out.Shape()[0]))
	for i := range at {
		at[i] = int64(i * step)
	}
	for i := 1; i <= k.rank; i++ {
		size := out.Dim(i)
		step /= max(size, 1)
		p := k.lead + i - 1
		var err error
		switch partition := partitions[p]; k.types[p] {
		case "ROW_SPLITS":
			if int64(len(partition)-1) > rows {
				return status.InvalidArgumentf("Row partition size is greater than output size: %d > %d", len(partition)-1, rows)
			}
			at, err = placeSplits(ctx, at, partition, step, size, max(count, maxRaggedRows))
		case "VALUE_ROWIDS":
			at, err = placeRowIDs(ctx, at, rows, partition, step, size)
		default:
			err = status.InvalidArgumentf("Unsupported partition type:%s", k.types[p])
		}
		if err != nil {
			return err
		}
		rows = int64(len(at))
	}
	if len(at) > count {
		return status.InvalidArgumentf("The row partitions tell of %d values, but there are %d", len(at), count)
	}
	var from, to []int64
	look := ctx.Lookout()
	for i, p := range at {
		if err := look.After(placeTime); err != nil {
			return err
		}
		if p >= 0 {
			from, to = append(from, int64(i)), append(to, p)
		}
	}
	return layout.MoveAt(ctx, out, values, to, from, values.Shape()[1:].Elements(), len(to))
}

// placeTime is the time in nanoseconds to find the place of a row.
const placeTime = 8

func placeSplits(ctx *kernels.Context, parents, splits []int64, step, size, most int) ([]int64, error) {
	if len(splits) == 0 {
		return nil, nil
	}
	end := splits[len(splits)-1]
	if end < 0 || end > int64(most) {
		return nil, status.InvalidArgumentf("Invalid row split size.")
	}
	at := make([]int64, 0, end)
	look := ctx.Lookout()
	for i, s := range splits[1:] {
		if err := look.After(placeTime); err != nil {
			return nil, err
		}
		parent := int64(-1)
		if i < len(parents) {
			parent = parents[i]
		}
		n := s - splits[i]
		if n > end-int64(len(at)) {
			return nil, status.InvalidArgumentf("Invalid row split size.")
		}
		err := ctx.Each(int(max(n, 0)), placeTime, func(lo, hi int) error {
			for j := lo; j < hi; j++ {
				if parent < 0 || j >= size {
					at = append(at, -1)
				} else {
					at = append(at, parent+int64(j*step))
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if int64(len(at)) != end {
		return nil, status.InvalidArgumentf("Invalid row split size.")
	}
	return at, nil
}

func placeRowIDs(ctx *kernels.Context, parents []int64, rows int64, ids []int64, step, size int) ([]int64, error) {
	at := make([]int64, len(ids))
	column := 0
	look := ctx.Lookout()
	for i, id := range ids {
		if err := look.After(placeTime); err != nil {
			return nil, err
		}
		if id < 0 || id >= rows {
			name := "next_value_rowid"
			if i == 0 {
				name = "current_value_rowid"
			}
			return nil, status.InvalidArgumentf("Got %s=%d which is not less than %d", name, id, rows)
		}
		column++
		if i == 0 || id != ids[i-1] {
			column = 0
		}
		at[i] = -1
		if id < int64(len(parents)) && parents[id] >= 0 && column < size {
			at[i] = parents[id] + int64(column*step)
		}
	}
	return at, nil
}
