package linalg

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// sparseMatMul is SparseMatMul, a product in which one or both matrices hold mostly zeros. It skips zeros, so infinities and NaNs that they
// would multiply have no effect.
type sparseMatMul struct {
	turnA, turnB     bool
	sparseA, sparseB bool
}

// sparseMatMulRows returns the rows of SparseMatMul, whose operands may have different types.
func sparseMatMulRows() []kernels.Def {
	types := []tensor.DType{tensor.Float32, tensor.BFloat16}
	return []kernels.Def{{Types: map[string][]tensor.DType{"Ta": types, "Tb": types}, Expensive: true, New: newSparseMatMul}}
}

func newSparseMatMul(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	return &sparseMatMul{a.Bool("transpose_a"), a.Bool("transpose_b"), a.Bool("a_is_sparse"), a.Bool("b_is_sparse")}, a.Err()
}

// Compute implements kernels.Kernel.
func (k *sparseMatMul) Compute(ctx *kernels.Context) error {
	a, b := ctx.Input(0), ctx.Input(1)
	if a.Rank() != 2 {
		return status.InvalidArgumentf("a is not a matrix")
	}
	if b.Rank() != 2 {
		return status.InvalidArgumentf("b is not a matrix")
	}
	rows, inner := a.Dim(element.OneIf(k.turnA)), a.Dim(1-element.OneIf(k.turnA))
	columns := b.Dim(1 - element.OneIf(k.turnB))
	if inner != b.Dim(element.OneIf(k.turnB)) {
		return status.InvalidArgumentf("Matrix size incompatible: a: %v, b: %v", a.Shape(), b.Shape())
	}
	out, err := ctx.Allocate(0, tensor.Float32, tensor.Shape{int64(rows), int64(columns)})
	if err != nil || out.Len() == 0 {
		return err
	}
	dst := tensor.Of[float32](out)
	if inner == 0 {
		return kernels.Clear(ctx, dst)
	}
	x, freeX, err := floatsOf(ctx, a)
	if err != nil {
		return err
	}
	defer freeX()
	y, freeY, err := floatsOf(ctx, b)
	if err != nil {
		return err
	}
	defer freeY()
	if !k.sparseA && !k.sparseB {
		simd.Gemm(ctx.Parallel, k.turnA, k.turnB, rows, columns, inner, x, a.Dim(1), y, b.Dim(1), dst, columns, false)
		return nil
	}
	left, right := matrixView{x, a.Dim(1), k.turnA}, matrixView{y, b.Dim(1), k.turnB}
	p := sparseProduct{left: left, right: right, rows: rows, inner: inner, columns: columns, dst: dst, lanes: lanesOf(b)}
	if !k.sparseA {
		// The product of the transposed operands is the transposed product.
		p = sparseProduct{left: right.turned(), right: left.turned(), rows: columns, inner: inner, columns: rows, dst: dst, turned: true, lanes: lanesOf(a)}
	}
	return p.compute(ctx)
}

// floatsOf returns the elements of a float32 or bfloat16 tensor. They must not be used after free is called.
func floatsOf(ctx *kernels.Context, t *tensor.Tensor) (list []float32, free func(), err error) {
	if t.DType() == tensor.Float32 {
		return tensor.Of[float32](t), func() {}, nil
	}
	list, free, err = element.Scratch[float32](ctx.Device, t.Len())
	if err == nil {
		element.Widen(list, element.ViewOf[element.BFloat16](t))
	}
	return list, free, err
}

// lanesOf returns the number of elements that TensorFlow multiplies at once if the right operand has the type of t.
func lanesOf(t *tensor.Tensor) int { return 32 / t.DType().Size() }

// matrixView is a matrix that may be read transposed.
type matrixView struct {
	v      []float32
	stride int
	turn   bool
}

func (m matrixView) turned() matrixView { return matrixView{m.v, m.stride, !m.turn} }

func (m matrixView) at(i, j int) float32 {
	if m.turn {
		i, j = j, i
	}
	return m.v[i*m.stride+j]
}

// sparseProduct multiplies left, whose zeros it skips, by right. It sums in TensorFlow's order: by blocks of sparseBlock elements of a row
// of left, and within a block, nonzero elements in groups of three, then the remaining ones.
type sparseProduct struct {
	left, right          matrixView
	rows, inner, columns int
	dst                  []float32
	turned               bool // dst is the transpose of the product
	lanes                int
}

// Block sizes of TensorFlow: elements of a row of the left operand, and of the right one.
const (
	sparseBlock  = 64
	sparseStripe = 128
)

func (p *sparseProduct) compute(ctx *kernels.Context) error {
	if p.right.turn {
		straight, free, err := element.Scratch[float32](ctx.Device, p.inner*p.columns)
		if err != nil {
			return err
		}
		defer free()
		simd.TransposeAny(straight, p.columns, p.right.v, p.right.stride, p.inner, p.columns)
		p.right = matrixView{v: straight, stride: p.columns}
	}
	grain := max(1, element.CheapGrain/max(1, p.inner*p.columns))
	return element.WithScratch(ctx, p.rows, grain, p.columns, func(sum []float32, lo, hi int) {
		for i := lo; i < hi; i++ {
			clear(sum)
			p.row(sum, i)
			if !p.turned {
				copy(p.dst[i*p.columns:], sum)
				continue
			}
			for j, v := range sum {
				p.dst[j*p.rows+i] = v
			}
		}
	})
}

// row adds row i of the product to sum.
func (p *sparseProduct) row(sum []float32, i int) {
	// After the last whole vector, TensorFlow sums three products before it adds them.
	whole := p.columns - p.columns%sparseStripe%p.lanes
	var factors [sparseBlock]float32
	var from [sparseBlock][]float32
	for first := 0; first < p.inner; first += sparseBlock {
		n := 0
		for k := first; k < min(first+sparseBlock, p.inner); k++ {
			if v := p.left.at(i, k); v != 0 {
				factors[n], from[n] = v, p.right.v[k*p.right.stride:][:p.columns]
				n++
			}
		}
		k := 0
		for ; k+3 <= n; k += 3 {
			addThree(sum, whole, [3]float32(factors[k:]), [3][]float32(from[k:]))
		}
		for last := n - 1; last >= k; last-- {
			addScaled(sum, factors[last], from[last])
		}
	}
}

func addThree(sum []float32, whole int, f [3]float32, x [3][]float32) {
	a, b, c := x[0][:len(sum)], x[1][:len(sum)], x[2][:len(sum)]
	for j := range whole {
		v := sum[j] + float32(f[0]*a[j])
		v += float32(f[1] * b[j])
		sum[j] = v + float32(f[2]*c[j])
	}
	for j := whole; j < len(sum); j++ {
		v := float32(f[0]*a[j]) + float32(f[1]*b[j])
		sum[j] += v + float32(f[2]*c[j])
	}
}

func addScaled(sum []float32, f float32, x []float32) {
	for j, v := range x {
		sum[j] += float32(f * v)
	}
}
