package linalg

import (
	"errors"
	"math/cmplx"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// matrix is a complex matrix in row-major order. Algorithms without a form for real numbers run in complex double precision. On real input,
// the imaginary parts stay zero.
type matrix struct {
	rows, cols int
	data       []complex128
	step       *kernels.Step // the step that computes it; nil if look is not called
}

func newMatrix(rows, cols int) *matrix {
	return &matrix{rows, cols, make([]complex128, rows*cols), nil}
}

// like returns a zero matrix of the same step.
func (m *matrix) like(rows, cols int) *matrix {
	n := newMatrix(rows, cols)
	n.step = m.step
	return n
}

// over returns a matrix of the same step, backed by data.
func (m *matrix) over(rows, cols int, data []complex128) *matrix {
	return &matrix{rows, cols, data, m.step}
}

// stepEnded is the panic value that ends a computation whose step has ended, at any depth. A decomposition has many functions, and no other
// errors.
type stepEnded struct{ err error }

// look ends the computation if its step has ended. Loops call it between pieces of work. A piece takes at least as long as a row of the
// matrix, and less than the number of its elements times the length of a row.
func (m *matrix) look() { lookAt(m.step) }

func lookAt(step *kernels.Step) {
	if err := step.Ended(); err != nil {
		panic(stepEnded{err})
	}
}

// endWithStep recovers a stepEnded and stores its error in err.
func endWithStep(err *error) {
	if p := recover(); p != nil {
		ended, ok := p.(stepEnded)
		if !ok {
			panic(p)
		}
		*err = ended.err
	}
}

func (m *matrix) at(i, j int) complex128 { return m.data[i*m.cols+j] }

func (m *matrix) set(i, j int, v complex128) { m.data[i*m.cols+j] = v }

func (m *matrix) row(i int) []complex128 { return m.data[i*m.cols : (i+1)*m.cols] }

func (m *matrix) swap(i, j int) {
	a, b := m.row(i), m.row(j)
	for k := range a {
		a[k], b[k] = b[k], a[k]
	}
}

func (m *matrix) clone() *matrix {
	c := m.like(m.rows, m.cols)
	copy(c.data, m.data)
	return c
}

// adjoint returns the conjugate transpose.
func (m *matrix) adjoint() *matrix {
	t := m.like(m.cols, m.rows)
	for i := range m.rows {
		for j, v := range m.row(i) {
			t.set(j, i, cmplx.Conj(v))
		}
	}
	return t
}

// times returns the product m·n.
func (m *matrix) times(n *matrix) *matrix {
	p := m.like(m.rows, n.cols)
	for i := range m.rows {
		m.look()
		to := p.row(i)
		for k, a := range m.row(i) {
			for j, b := range n.row(k) {
				to[j] += a * b
			}
		}
	}
	return p
}

// add adds factor·n to m.
func (m *matrix) add(n *matrix, factor complex128) {
	for i, v := range n.data {
		m.data[i] += factor * v
	}
}

// scale multiplies all elements by factor.
func (m *matrix) scale(factor complex128) {
	for i := range m.data {
		m.data[i] *= factor
	}
}

// norm returns the 1-norm: the greatest sum of magnitudes in a column.
func (m *matrix) norm() float64 {
	sums, most := make([]float64, m.cols), 0.0
	for i := range m.rows {
		for j, v := range m.row(i) {
			sums[j] += cmplx.Abs(v)
		}
	}
	for _, s := range sums {
		most = max(most, s) // NaN if any sum is
	}
	return most
}

// lower returns the lower triangle, with zeros above.
func (m *matrix) lower() *matrix {
	l := m.clone()
	for i := range l.rows {
		clear(l.row(i)[min(i+1, l.cols):])
	}
	return l
}

// identity returns an identity matrix of the same step.
func (m *matrix) identity(n int) *matrix {
	i := identityMatrix(n)
	i.step = m.step
	return i
}

// identityMatrix returns an identity matrix without a step.
func identityMatrix(n int) *matrix {
	m := newMatrix(n, n)
	for i := range n {
		m.set(i, i, 1)
	}
	return m
}

// result is the shape of an output for one matrix, and its element type if that differs from the op's. An output that was not requested is
// a scalar, whatever the batch.
type result struct {
	shape  tensor.Shape
	dtype  tensor.DType
	absent bool
}

// linalg is an op on batches of matrices.
type linalg struct {
	// inputs is the number of inputs that are batches of matrices.
	inputs int
	// check rejects matrices of wrong sizes. It runs before results, which returns the outputs.
	check   func(in []tensor.Shape) error
	results func(in []tensor.Shape) []result
	// run computes the outputs for one set of matrices. Each output has the number of elements that its shape has.
	run func(in []*matrix, out [][]complex128) error
	// real, if not nil, is a faster form of run for floats. If it returns errNotReal, run computes that set.
	real *realForms
	// broadcast allows batches to be broadcast.
	broadcast bool
	// work is the number of additional matrices, of the size of the first, that run needs at once.
	work int
}

func (l *linalg) Compute(ctx *kernels.Context) error {
	in := make([]tensor.Shape, l.inputs)
	batches := make([]tensor.Shape, l.inputs)
	for i := range in {
		s := ctx.Input(i).Shape()
		if i == 0 && len(s) < 2 {
			return status.InvalidArgumentf("Input tensor %d must have rank >= 2, got %d", i, len(s))
		}
		if !l.broadcast && len(s) != ctx.Input(0).Rank() {
			return status.InvalidArgumentf("All input tensors must have the same rank.")
		}
		if len(s) < 2 {
			return status.InvalidArgumentf("In[%d] ndims must be >= 2: %d", i, len(s))
		}
		in[i], batches[i] = s[len(s)-2:], s[:len(s)-2]
	}
	batch := batches[0]
	for i, b := range batches[1:] {
		var ok bool
		if l.broadcast {
			if batch, ok = shapes.BroadcastShape(batch, b); !ok {
				return status.InvalidArgumentf("In[0] and In[1] must have compatible batch dimensions: %v vs. %v", ctx.Input(0).Shape(), ctx.Input(i+1).Shape())
			}
		} else if !b.Equal(batch) {
			return status.InvalidArgumentf("All input tensors must have the same outer dimensions.")
		}
	}
	if err := l.check(in); err != nil {
		return err
	}
	results := l.results(in)
	outputs := make([]*tensor.Tensor, len(results))
	for i, r := range results {
		dtype := r.dtype
		if dtype == tensor.Invalid {
			dtype = ctx.Input(0).DType()
		}
		shape := append(batch.Clone(), r.shape...)
		if r.absent {
			shape = nil
		}
		out, err := ctx.Allocate(i, dtype, shape)
		if err != nil {
			return err
		}
		if err := kernels.Clear(ctx, out.Data()); err != nil {
			return err
		}
		outputs[i] = out
	}
	if !slices.ContainsFunc(outputs, func(out *tensor.Tensor) bool { return out.Len() > 0 }) {
		return nil
	}
	return l.each(ctx, in, results, outputs, elementwise.NewWalk(batch, batches...))
}

// takeMatrices reserves memory for one set of matrices: for inputs and outputs as complex numbers, and the same again for what run derives
// from them.
func takeMatrices(m *kernels.Meter, in []tensor.Shape, results []result) error {
	const numbers = 2 * 16
	for _, s := range in {
		if err := m.TakeMany(s.Elements(), numbers); err != nil {
			return err
		}
	}
	for _, r := range results {
		n, err := r.shape.NumElements()
		if err == nil {
			err = m.TakeMany(int(n), numbers)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// each runs the function on each set of the batch.
func (l *linalg) each(ctx *kernels.Context, in []tensor.Shape, results []result, outputs []*tensor.Tensor, w *elementwise.Walk) (err error) {
	defer endWithStep(&err)
	m := ctx.Meter()
	defer m.Done()
	if err := takeMatrices(&m, in, results); err != nil {
		return err
	}
	for range l.work {
		if err := m.TakeMany(in[0].Elements(), 16); err != nil {
			return err
		}
	}
	run := l.complexly(ctx, in, results, outputs)
	if l.real != nil && !ctx.Input(0).DType().IsComplex() {
		other := run
		shorter := l.really(ctx, in, results, outputs)
		run = func(from []int, to int) error {
			if err := shorter(from, to); !errors.Is(err, errNotReal) {
				return err
			}
			return other(from, to)
		}
	}
	var failed error
	end := ctx.Lookout()
	work := 1 // at least one per set
	for _, s := range in {
		work += s.Elements()
	}
	for _, r := range results {
		work += r.shape.Elements()
	}
	from := make([]int, l.inputs)
	one := func(r int, at []int) {
		for j := 0; j < w.Inner() && failed == nil; j++ {
			if failed = end.After(work); failed != nil {
				return
			}
			for i := range from {
				from[i] = at[i] + j*w.InnerStride(i)
			}
			failed = run(from, r*w.Inner()+j)
		}
	}
	const rows = 1 << 10 // between two checks of the error
	for lo := 0; lo < w.Rows() && failed == nil; lo += rows {
		w.Each(lo, min(lo+rows, w.Rows()), one)
	}
	return failed
}

// complexly returns a function that computes set to of the outputs from the sets from of the inputs.
func (l *linalg) complexly(ctx *kernels.Context, in []tensor.Shape, results []result, outputs []*tensor.Tensor) func(from []int, to int) error {
	var matrices []*matrix
	var parts [][]complex128
	return func(from []int, to int) error {
		if matrices == nil {
			for _, s := range in {
				m := newMatrix(int(s[0]), int(s[1]))
				m.step = ctx.Step
				matrices = append(matrices, m)
			}
			for _, r := range results {
				parts = append(parts, make([]complex128, r.shape.Elements()))
			}
		}
		for i, m := range matrices {
			if err := element.LoadNumbers(m.data, ctx.Input(i), from[i]*len(m.data)); err != nil {
				return err
			}
		}
		for _, p := range parts {
			clear(p)
		}
		if err := l.run(matrices, parts); err != nil {
			return err
		}
		for i, p := range parts {
			if !results[i].absent {
				element.StoreNumbers(outputs[i], to*len(p), p)
			}
		}
		return nil
	}
}

// really is complexly for floats.
func (l *linalg) really(ctx *kernels.Context, in []tensor.Shape, results []result, outputs []*tensor.Tensor) func(from []int, to int) error {
	if ctx.Input(0).DType() == tensor.Float64 {
		return really(ctx, l.real.double, in, results, outputs)
	}
	return really(ctx, l.real.single, in, results, outputs)
}

// Checks of sizes, with TensorFlow's error texts.

func anyMatrix([]tensor.Shape) error { return nil }

func squareMatrix(in []tensor.Shape) error {
	if in[0][0] != in[0][1] {
		return status.InvalidArgumentf("Input matrix must be square.")
	}
	return nil
}

func squarePair(in []tensor.Shape) error {
	if !in[0].Equal(in[1]) {
		return status.InvalidArgumentf("Inputs (L and grad) must have the same shape.")
	}
	if in[0][0] != in[0][1] {
		return status.InvalidArgumentf("Inputs must be a square matrices.")
	}
	return nil
}

func squareSystem(in []tensor.Shape) error {
	if in[0][0] != in[0][1] {
		return status.InvalidArgumentf("First input (lhs) must be a square matrix.")
	}
	return system(in)
}

func system(in []tensor.Shape) error {
	if in[0][0] != in[1][0] {
		return status.InvalidArgumentf("Input matrix and rhs are incompatible.")
	}
	return nil
}
