package sparse

import (
	"github.com/dgryski/go-farm"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/printing"
)

// sparseCross is SparseCross and its variants. Their inputs are lists of count indices, values and shapes, then dense tensors, and for some
// ops further inputs.
type sparseCross struct {
	count, more int
	// text rejects features that are not strings.
	text bool
	// typ is the type of the crosses; write computes them.
	typ   tensor.DType
	write func(ctx *kernels.Context, m *kernels.Meter, c *crosses, out *tensor.Tensor) error
}

// crossRows returns the rows of SparseCross for a type of crosses. internal_type is the type of features.
func crossRows(typ tensor.DType, construct func(c *kernels.Construction) (any, error)) []kernels.Def {
	var rows []kernels.Def
	for _, internal := range []tensor.DType{tensor.String, tensor.Int64} {
		types := map[string][]tensor.DType{"out_type": {typ}, "internal_type": {internal}}
		rows = append(rows, kernels.Def{Types: types, Expensive: true, New: construct})
	}
	return rows
}

// separator is what older ops put between features.
const separator = "_X_"

func newSparseCrossText(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	count, internal := a.Int("N"), a.Type("internal_type")
	return &sparseCross{count: int(count), text: internal == tensor.String, typ: tensor.String,
		write: func(ctx *kernels.Context, m *kernels.Meter, c *crosses, out *tensor.Tensor) error {
			return c.join(ctx, m, out, separator)
		}}, a.Err()
}

func newSparseCrossHash(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	count, internal, buckets := a.Int("N"), a.Type("internal_type"), a.Int("num_buckets")
	key := a.Int("hash_key")
	return &sparseCross{count: int(count), text: internal == tensor.String, typ: tensor.Int64,
		write: func(ctx *kernels.Context, _ *kernels.Meter, c *crosses, out *tensor.Tensor) error {
			c.hash(ctx, out, &hashing{features: c.byFeature(), keyed: true, key: uint64(key), buckets: buckets})
			return nil
		}}, a.Err()
}

func newSparseCrossV2(c *kernels.Construction) (any, error) {
	count, err := c.Attrs().Int("N")
	return &sparseCross{count: int(count), more: 1, typ: tensor.String,
		write: func(ctx *kernels.Context, m *kernels.Meter, c *crosses, out *tensor.Tensor) error {
			return c.join(ctx, m, out, ctx.Input(len(ctx.Inputs) - 1).Strings()[0])
		}}, err
}

func newSparseCrossHashed(c *kernels.Construction) (any, error) {
	count, err := c.Attrs().Int("N")
	return &sparseCross{count: int(count), more: 3, typ: tensor.Int64,
		write: func(ctx *kernels.Context, _ *kernels.Meter, c *crosses, out *tensor.Tensor) error {
			last := len(ctx.Inputs) - 1
			buckets, strong, salt := tensor.Of[int64](ctx.Input(last - 2))[0], tensor.Of[bool](ctx.Input(last - 1))[0], tensor.Of[int64](ctx.Input(last))
			c.hash(ctx, out, &hashing{features: saltedFeatures(c.columns, int(count), strong, salt), buckets: buckets})
			return nil
		}}, err
}

// saltedFeatures returns hash functions for columns, the first count of which are sparse. Strong ones use the salt as a key; others ignore
// it. As in TensorFlow, only int64s of dense columns are their own hashes there.
func saltedFeatures(columns []column, count int, strong bool, salt []int64) []func(i int64) uint64 {
	hash := bytesHash(farm.Fingerprint64)
	if strong {
		hash = strongHash(salt)
	}
	features := make([]func(i int64) uint64, len(columns))
	for i, column := range columns {
		if i < count || strong {
			features[i] = hashedBytes(column.values, hash)
		} else {
			features[i] = featureHashes[column.values.DType()](column.values)
		}
	}
	return features
}

// Compute implements kernels.Kernel.
func (k *sparseCross) Compute(ctx *kernels.Context) error {
	rows, err := k.check(ctx)
	if err != nil {
		return err
	}
	m := ctx.Meter()
	defer m.Done()
	var columns []column
	for i := range k.count {
		splits, err := splitsOf(&m, ctx.Input(i), rows, false)
		if err != nil {
			return err
		}
		columns = append(columns, column{values: ctx.Input(k.count + i), splits: splits})
	}
	for _, t := range args.Inputs(ctx, 3*k.count, len(ctx.Inputs)-k.more) {
		columns = append(columns, column{values: t, width: t.Shape()[1]})
	}
	c, err := newCrosses(ctx, &m, columns, rows)
	if err != nil {
		return err
	}
	indices, err := ctx.Allocate(0, tensor.Int64, tensor.Shape{c.total(), 2})
	if err != nil {
		return err
	}
	values, err := ctx.Allocate(1, k.typ, tensor.Shape{c.total()})
	if err != nil {
		return err
	}
	at := tensor.Of[int64](indices)
	for r := range c.rows() {
		from := int(c.starts[r])
		err := ctx.Each(int(c.starts[r+1])-from, 1, func(lo, hi int) error {
			for n := from + lo; n < from+hi; n++ {
				at[2*n], at[2*n+1] = int64(r), int64(n-from)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := k.write(ctx, &m, c, values); err != nil {
		return err
	}
	return args.OutputInts(ctx, 2, tensor.Int64, []int64{rows, c.most})
}

// splitsOf returns where the values of each row begin and end. Values after one of a later row belong to no row or, with upTo, to the row
// in which they appear.
func splitsOf(m *kernels.Meter, indices *tensor.Tensor, rows int64, upTo bool) ([]int64, error) {
	splits, err := rowEnds(m, rows)
	if err != nil {
		return nil, err
	}
	at, n, i := tensor.Of[int64](indices), indices.Dim(0), 0
	rank := indices.Dim(1)
	for r := range rows {
		for i < n && (at[i*rank] == r || upTo && at[i*rank] < r) {
			i++
		}
		splits[r+1] = int64(i)
	}
	return splits, nil
}

// check checks the inputs and returns the number of rows.
func (k *sparseCross) check(ctx *kernels.Context) (rows int64, err error) {
	n := k.count
	for i, t := range args.Inputs(ctx, 0, n) {
		switch {
		case t.Rank() != 2:
			return 0, status.InvalidArgumentf("Input indices should be a matrix but received shape %v at position %d", t.Shape(), i)
		case t.Dim(1) != 2:
			return 0, status.InvalidArgumentf("Expected D2 of index to be 2 got %d at position %d", t.Dim(1), i)
		}
	}
	for i, t := range args.Inputs(ctx, n, 2*n) {
		switch {
		case k.text && t.DType() == tensor.Int64:
			return 0, status.InvalidArgumentf("Input values should be of internal type %d but received %d", tensor.String.Proto(), t.DType().Proto())
		case t.Rank() != 1:
			return 0, status.InvalidArgumentf("Input values should be a vector but received shape %v at position %d", t.Shape(), i)
		case t.Len() != ctx.Input(i).Dim(0):
			return 0, status.InvalidArgumentf("Expected size of values to be %d got %d at position %d", ctx.Input(i).Dim(0), t.Len(), i)
		}
	}
	for i, t := range args.Inputs(ctx, 2*n, 3*n) {
		switch {
		case t.Rank() != 1:
			return 0, status.InvalidArgumentf("Input shapes should be a vector but received shape %v at position %d", t.Shape(), i)
		case t.Len() != 2:
			return 0, status.InvalidArgumentf("shape should imply a 2D tensor, but got %v at position %d", t.Shape(), i)
		}
	}
	dense := args.Inputs(ctx, 3*n, len(ctx.Inputs)-k.more)
	for i, t := range dense {
		switch {
		case k.text && t.DType() == tensor.Int64:
			return 0, status.InvalidArgumentf("Dense inputs should be of internal type %d but received %d", tensor.String.Proto(), t.DType().Proto())
		case t.Rank() != 2:
			return 0, status.InvalidArgumentf("Dense inputs should be a matrix but received shape %v at position %d", t.Shape(), i)
		}
	}
	if rows, err = crossedRows(args.Inputs(ctx, 2*n, 3*n), dense); err != nil {
		return 0, err
	}
	return rows, k.checkMore(ctx)
}

// crossedRows returns the number of rows that the columns share.
func crossedRows(shapes, dense []*tensor.Tensor) (rows int64, err error) {
	if len(shapes) > 0 {
		rows = tensor.Of[int64](shapes[0])[0]
	} else if len(dense) > 0 {
		rows = dense[0].Shape()[0]
	}
	for i, t := range shapes {
		if have := tensor.Of[int64](t)[0]; have != rows {
			return 0, status.InvalidArgumentf("Expected batch size %d got %d at position %d", rows, have, i)
		}
	}
	for i, t := range dense {
		if have := t.Shape()[0]; have != rows {
			return 0, status.InvalidArgumentf("Expected batch size %d got %d at dense tensor %d", rows, have, i)
		}
	}
	if rows < 0 {
		return 0, status.InvalidArgumentf("Expected shape dimensions to be non-negative, got %d", rows)
	}
	return rows, nil
}

// checkMore checks the inputs after the dense tensors: the separator of SparseCrossV2, or the numbers of SparseCrossHashed.
func (k *sparseCross) checkMore(ctx *kernels.Context) error {
	more := args.Inputs(ctx, len(ctx.Inputs)-k.more, len(ctx.Inputs))
	switch {
	case len(more) == 1 && more[0].Rank() != 0:
		return status.InvalidArgumentf("Input separator should be a scalar. Received: %s", printing.DebugText(more[0]))
	case len(more) < 3:
		return nil
	case more[0].Len() != 1:
		return status.InvalidArgumentf("Input \"num_buckets\" must be a scalar but has shape %v", more[0].Shape())
	case more[1].Len() != 1:
		return status.InvalidArgumentf("Input \"strong_hash\" must be a scalar but has shape %v", more[1].Shape())
	case more[2].Len() != 2:
		return status.InvalidArgumentf("Input \"salt\" must have length 2 but has length %d", more[2].Len())
	}
	return nil
}
