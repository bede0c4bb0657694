package sparse

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
)

// raggedCross is RaggedCross. Its inputs are lists: values and row splits of ragged tensors; indices, values and shapes of sparse
// ones; dense ones.
type raggedCross struct {
	ragged, sparse, dense int
	order                 string       // R, S or D for each column, in crossing order
	splitsType            tensor.DType // of the output
	typ                   tensor.DType
	write                 func(ctx *kernels.Context, m *kernels.Meter, c *crosses, out *tensor.Tensor) error
}

// raggedCrossRows returns the rows for a type of crosses.
func raggedCrossRows(typ tensor.DType, construct func(c *kernels.Construction) (any, error)) []kernels.Def {
	types := map[string][]tensor.DType{"out_values_type": {typ}, "out_row_splits_type": {tensor.Int32, tensor.Int64}}
	return []kernels.Def{{Types: types, Expensive: true, New: construct}}
}

func newRaggedCrossText(c *kernels.Construction) (any, error) {
	k, err := newRaggedCross(c, tensor.String)
	if err != nil {
		return nil, err
	}
	k.write = func(ctx *kernels.Context, m *kernels.Meter, c *crosses, out *tensor.Tensor) error {
		return c.join(ctx, m, out, separator)
	}
	return k, nil
}

func newRaggedCrossHash(c *kernels.Construction) (any, error) {
	k, err1 := newRaggedCross(c, tensor.Int64)
	a := c.Attrs().Reader()
	buckets, key := a.Int("num_buckets"), a.Int("hash_key")
	if err := args.FirstError(err1, a.Err()); err != nil {
		return nil, err
	}
	k.write = func(ctx *kernels.Context, _ *kernels.Meter, c *crosses, out *tensor.Tensor) error {
		c.hash(ctx, out, &hashing{features: c.byFeature(), keyed: true, key: uint64(key), buckets: buckets})
		return nil
	}
	return k, nil
}

func newRaggedCross(c *kernels.Construction, typ tensor.DType) (*raggedCross, error) {
	a := c.Attrs().Reader()
	values, splits := a.TypeList("ragged_values_types"), a.TypeList("ragged_splits_types")
	sparse, indices := a.TypeList("sparse_values_types"), a.Int("Nsparse")
	dense, order := a.TypeList("dense_types"), a.Str("input_order")
	out, err := args.IntAttr(c, "out_row_splits_type")
	if err := args.FirstError(a.Err(), err); err != nil {
		return nil, err
	}
	switch {
	case len(values) != len(splits):
		return nil, status.InvalidArgumentf("ragged values and splits must have the same length")
	case int(indices) != len(sparse):
		return nil, status.InvalidArgumentf("sparse indices and values must have the same length")
	case len(values)+len(sparse)+len(dense) != len(order):
		return nil, status.InvalidArgumentf("Invalid length for input_order")
	}
	return &raggedCross{ragged: len(values), sparse: len(sparse), dense: len(dense), order: order, splitsType: out, typ: typ}, nil
}

// values and the functions below return the lists of inputs.
func (k *raggedCross) values(ctx *kernels.Context) []*tensor.Tensor {
	return args.Inputs(ctx, 0, k.ragged)
}

func (k *raggedCross) splits(ctx *kernels.Context) []*tensor.Tensor {
	return args.Inputs(ctx, k.ragged, 2*k.ragged)
}

func (k *raggedCross) sparseList(ctx *kernels.Context, i int) []*tensor.Tensor {
	return args.Inputs(ctx, 2*k.ragged+i*k.sparse, 2*k.ragged+(i+1)*k.sparse)
}

func (k *raggedCross) denseList(ctx *kernels.Context) []*tensor.Tensor {
	return args.Inputs(ctx, 2*k.ragged+3*k.sparse, len(ctx.Inputs))
}

// Compute implements kernels.Kernel.
func (k *raggedCross) Compute(ctx *kernels.Context) error {
	m := ctx.Meter()
	defer m.Done()
	ragged, err := k.raggedColumns(ctx, &m)
	if err != nil {
		return err
	}
	rows, err := k.check(ctx, ragged)
	if err != nil {
		return err
	}
	columns, err := k.ordered(ctx, &m, ragged, rows)
	if err != nil {
		return err
	}
	c, err := newCrosses(ctx, &m, columns, rows)
	if err != nil {
		return err
	}
	if err := args.OutputInts(ctx, 1, k.splitsType, c.starts); err != nil {
		return err
	}
	values, err := ctx.Allocate(0, k.typ, tensor.Shape{c.total()})
	if err != nil {
		return err
	}
	return k.write(ctx, &m, c, values)
}

const rankTwo = "tf.ragged.cross only supports inputs with rank=2."

// raggedColumns reads and checks the ragged tensors.
func (k *raggedCross) raggedColumns(ctx *kernels.Context, m *kernels.Meter) ([]column, error) {
	var columns []column
	for i, values := range k.values(ctx) {
		given := k.splits(ctx)[i]
		if values.Rank() != 1 || given.Rank() != 1 {
			return nil, status.InvalidArgumentf(rankTwo)
		}
		splits, err := kernels.Scratch[int64](m, given.Len())
		if err != nil {
			return nil, err
		}
		for j := range splits {
			if splits[j], err = args.IntAt(given, j); err != nil {
				return nil, err
			}
		}
		if err := checkSplits(splits, int64(values.Len())); err != nil {
			return nil, err
		}
		columns = append(columns, column{values: values, splits: splits})
	}
	return columns, nil
}

// checkSplits checks that splits partition n values.
func checkSplits(splits []int64, n int64) error {
	if len(splits) == 0 {
		return status.InvalidArgumentf("Invalid ragged splits: ragged splits must have at least one splits, but is empty")
	}
	if splits[0] != 0 {
		return status.InvalidArgumentf("Invalid ragged splits: first element of ragged splits  must be 0 but is %d", splits[0])
	}
	last := int64(0)
	for i, split := range splits {
		if split < last {
			return status.InvalidArgumentf("Invalid ragged splits: ragged splits must be monotonically increasing, but ragged_splits[%d]=%d is smaller than row_splits[%d]=%d", i, split, i-1, last)
		}
		last = split
	}
	if last != n {
		return status.InvalidArgumentf("Invalid ragged splits: last element of ragged splits must be the number of ragged values(%d) but is %d", n, last)
	}
	return nil
}

// check checks the other tensors and returns the number of rows.
func (k *raggedCross) check(ctx *kernels.Context, ragged []column) (int64, error) {
	indices, values, shapes, dense := k.sparseList(ctx, 0), k.sparseList(ctx, 1), k.sparseList(ctx, 2), k.denseList(ctx)
	for i, shape := range shapes {
		switch {
		case indices[i].Rank() != 2 || values[i].Rank() != 1 || shape.Rank() != 1 || indices[i].Dim(0) != values[i].Len() || indices[i].Dim(1) == 0:
			return 0, status.InvalidArgumentf("Invalid SparseTensor %d", i)
		case shape.Len() != 2:
			return 0, status.InvalidArgumentf(rankTwo)
		}
	}
	for _, t := range dense {
		if t.Rank() != 2 {
			return 0, status.InvalidArgumentf(rankTwo)
		}
	}
	var all []int64
	for _, c := range ragged {
		all = append(all, int64(len(c.splits))-1)
	}
	for _, t := range dense {
		all = append(all, t.Shape()[0])
	}
	for _, t := range shapes {
		all = append(all, tensor.Of[int64](t)[0])
	}
	rows := append(all, 0)[0]
	for _, n := range all {
		if n != rows {
			return 0, status.InvalidArgumentf("inputs must all have the same batch dimension size.")
		}
	}
	if rows < 0 {
		return 0, status.InvalidArgumentf("Expected shape dimensions to be non-negative, got %d", rows)
	}
	return rows, nil
}

// ordered returns all columns in crossing order.
func (k *raggedCross) ordered(ctx *kernels.Context, m *kernels.Meter, ragged []column, rows int64) ([]column, error) {
	var columns []column
	indices, values, dense := k.sparseList(ctx, 0), k.sparseList(ctx, 1), k.denseList(ctx)
	next := map[rune]int{}
	have := map[rune]int{'R': len(ragged), 'S': len(values), 'D': len(dense)}
	named := map[rune]string{'R': "a ragged tensor value at index %d from a list of %d values.",
		'S': "a sparse tensor value at index %d from a list of %d values.", 'D': "a dense tensor at index %d from a list of %d tensors."}
	for _, kind := range k.order {
		i := next[kind]
		next[kind]++
		if _, ok := have[kind]; !ok {
			return nil, status.InvalidArgumentf("Unexpected input_order value.")
		}
		if i >= have[kind] {
			return nil, status.InvalidArgumentf("input_order \"%s\" specifies reading "+named[kind], k.order, i, have[kind])
		}
		switch kind {
		case 'R':
			columns = append(columns, ragged[i])
		case 'S':
			splits, err := splitsOf(m, indices[i], rows, true)
			if err != nil {
				return nil, err
			}
			columns = append(columns, column{values: values[i], splits: splits})
		case 'D':
			columns = append(columns, column{values: dense[i], width: dense[i].Shape()[1]})
		}
	}
	return columns, nil
}
