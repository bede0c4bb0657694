package variant

import (
	"encoding/binary"
	"math"
	"slices"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

const csrName = "tensorflow::CSRSparseMatrix"

// CSR is a variant element that holds a sparse matrix, or a batch of sparse matrices of one size, in compressed rows. It is immutable once
// built.
type CSR struct {
	refs atomic.Int32
	// Dims is [rows, columns] or [matrices, rows, columns]; Dense is the same as a vector of int64.
	Dims  tensor.Shape
	Dense *tensor.Tensor
	// Batches holds where each matrix's elements begin, and where the last one's end.
	Batches *tensor.Tensor
	// Rows holds, for each matrix, where each of its rows begins and where the last one ends, relative to the start of the matrix.
	Rows *tensor.Tensor
	// Columns and Values are the elements' columns and values. Batches, Rows and Columns are vectors of int32.
	Columns, Values *tensor.Tensor
}

// csrTypes are the allowed element types of a CSR.
var csrTypes = []tensor.DType{tensor.Float32, tensor.Float64, tensor.Complex64, tensor.Complex128}

// NewCSR allocates a matrix of n elements in a pool, with all rows still empty. It takes over the reference to values; if that is nil, it
// allocates values with undefined content. Sizes must fit int32.
func NewCSR(pool *tensor.Pool, dtype tensor.DType, dims tensor.Shape, n int, values *tensor.Tensor) (m *CSR, err error) {
	m = &CSR{Dims: dims.Clone(), Values: values}
	m.refs.Store(1)
	defer func() {
		if err != nil {
			m.Release()
			m = nil
		}
	}()
	rows, columns := dims[len(dims)-2], dims[len(dims)-1]
	pointers, ok := shapes.MulSize(int64(m.Matrices()), min(rows, math.MaxInt64-1)+1)
	switch {
	case m.Matrices() >= math.MaxInt32:
		return m, status.InvalidArgumentf("dense_shape batch_size must be < Int32Max, but the input value is %d", m.Matrices())
	case n > math.MaxInt32:
		return m, status.InvalidArgumentf("values number of elements must be <= Int32Max, but the input value is %d", n)
	case columns > math.MaxInt32:
		return m, status.InvalidArgumentf("dense_shape number of columns must be <= Int32Max, but the input value is %d", columns)
	case !ok || pointers > math.MaxInt32:
		return m, status.InvalidArgumentf("The csr row index size, computed based on the dense_shape, must be <= Int32Max, but is too large. Current value is %d", pointers)
	}
	if m.Dense, err = tensor.New(pool, tensor.Int64, tensor.Shape{int64(len(dims))}); err != nil {
		return m, err
	}
	copy(tensor.Of[int64](m.Dense), dims)
	if m.Batches, err = tensor.Zeros(pool, tensor.Int32, tensor.Shape{int64(m.Matrices()) + 1}); err != nil {
		return m, err
	}
	if m.Rows, err = tensor.Zeros(pool, tensor.Int32, tensor.Shape{pointers}); err != nil {
		return m, err
	}
	if m.Columns, err = tensor.New(pool, tensor.Int32, tensor.Shape{int64(n)}); err != nil || values != nil {
		return m, err
	}
	m.Values, err = tensor.New(pool, dtype, tensor.Shape{int64(n)})
	return m, err
}

// DType returns the type of the elements.
func (m *CSR) DType() tensor.DType { return m.Values.DType() }

// Matrices returns the number of matrices.
func (m *CSR) Matrices() int {
	if len(m.Dims) == 2 {
		return 1
	}
	return int(m.Dims[0])
}

// Size returns the size of each matrix.
func (m *CSR) Size() (rows, columns int) {
	last := len(m.Dims) - 1
	return int(m.Dims[last-1]), int(m.Dims[last])
}

// Like returns a matrix with the same structure as m and other values. It takes over the reference to the values.
func (m *CSR) Like(values *tensor.Tensor) *CSR {
	c := &CSR{Dims: m.Dims, Dense: m.Dense.Retain(), Batches: m.Batches.Retain(), Rows: m.Rows.Retain(), Columns: m.Columns.Retain(), Values: values}
	c.refs.Store(1)
	return c
}

// SetCounts sets the row starts of all matrices from the number of elements per row. It must be called once, by m's creator.
func (m *CSR) SetCounts(counts []int32) {
	rows, _ := m.Size()
	starts, from := tensor.Of[int32](m.Batches), tensor.Of[int32](m.Rows)
	for b := range m.Matrices() {
		at := from[b*(rows+1):][:rows+1]
		for i, n := range counts[b*rows:][:rows] {
			at[i+1] = at[i] + n
		}
		starts[b+1] = starts[b] + at[rows]
	}
}

// Retain adds a reference.
func (m *CSR) Retain() { m.refs.Add(1) }

// Release releases a reference; the last one releases the tensors.
func (m *CSR) Release() {
	if m.refs.Add(-1) == 0 {
		ReleaseSet([]*tensor.Tensor{m.Dense, m.Batches, m.Rows, m.Columns, m.Values})
		m.Dense, m.Batches, m.Rows, m.Columns, m.Values = nil, nil, nil, nil, nil
	}
}

// Portable returns the matrix in TensorFlow's form. Its metadata is a C structure: whether the matrix was validated, and the elements'
// type.
func (m *CSR) Portable() tensor.VariantData {
	data := binary.LittleEndian.AppendUint32([]byte{1, 0, 0, 0}, uint32(m.DType().Proto()))
	return tensor.VariantData{Type: csrName, Metadata: data, Tensors: []*tensor.Tensor{m.Dense, m.Batches, m.Rows, m.Columns, m.Values}}
}

var errBadCSR = status.InvalidArgumentf("The description of a sparse matrix is malformed")

// readCSR decodes a received matrix. It checks all indices, since ops rely on them.
func readCSR(d tensor.VariantData) (any, error) {
	if len(d.Metadata) != 8 || len(d.Tensors) != 5 {
		return nil, errBadCSR
	}
	want := []tensor.DType{tensor.Int64, tensor.Int32, tensor.Int32, tensor.Int32, d.Tensors[4].DType()}
	for i, t := range d.Tensors {
		if t.Rank() != 1 || t.DType() != want[i] {
			return nil, errBadCSR
		}
	}
	t := d.Tensors
	m := &CSR{Dims: slices.Clone(tensor.Of[int64](t[0])), Dense: t[0], Batches: t[1], Rows: t[2], Columns: t[3], Values: t[4]}
	m.refs.Store(1)
	if !slices.Contains(csrTypes, m.DType()) || binary.LittleEndian.Uint32(d.Metadata[4:]) != uint32(m.DType().Proto()) || !m.sound() {
		return nil, errBadCSR
	}
	return m, nil
}

// sound reports whether sizes and indices are consistent.
func (m *CSR) sound() bool {
	if len(m.Dims) != 2 && len(m.Dims) != 3 || slices.Min(m.Dims) < 0 || slices.Max(m.Dims) > math.MaxInt32 {
		return false
	}
	rows, columns := m.Size()
	if m.Batches.Len() != m.Matrices()+1 || m.Rows.Len() != m.Matrices()*(rows+1) || m.Columns.Len() != m.Values.Len() {
		return false
	}
	starts := tensor.Of[int32](m.Batches)
	if !rising(starts, m.Columns.Len()) {
		return false
	}
	for b := range m.Matrices() {
		if !rising(tensor.Of[int32](m.Rows)[b*(rows+1):][:rows+1], int(starts[b+1]-starts[b])) {
			return false
		}
	}
	for _, c := range tensor.Of[int32](m.Columns) {
		if c < 0 || int(c) >= columns {
			return false
		}
	}
	return true
}

// rising reports whether at starts at 0, ends at n and never decreases.
func rising(at []int32, n int) bool {
	return at[0] == 0 && int(at[len(at)-1]) == n && slices.IsSorted(at)
}

// CSRInput returns the matrix that input i holds.
func CSRInput(ctx *kernels.Context, i int) (*CSR, error) {
	t := ctx.Input(i)
	if t.Rank() != 0 {
		return nil, status.InvalidArgumentf("Invalid input matrix: Shape must be rank 0 but is rank %d", t.Rank())
	}
	if t.DType() != tensor.Variant {
		return nil, status.InvalidArgumentf("Could not retrieve Variant input %d", i)
	}
	m, ok := t.Variants()[0].(*CSR)
	if !ok {
		return nil, status.InvalidArgumentf("Could not retrieve Variant input %d", i)
	}
	if m.Matrices() == 0 {
		return nil, status.InvalidArgumentf("Variant input %d is not valid.", i)
	}
	return m, nil
}

// OutputCSR sets output 0 to m and takes over the reference.
func OutputCSR(ctx *kernels.Context, m *CSR) error {
	out, err := ctx.Allocate(0, tensor.Variant, nil)
	if err != nil {
		m.Release()
		return err
	}
	out.Variants()[0] = m
	return nil
}
