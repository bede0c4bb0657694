package kernels

import (
	"math/cmplx"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/simd"
)

// matmulRule is what operands the ops that multiply matrices take.
type matmulRule int

const (
	oneMatrix    matmulRule = iota // MatMul: matrices
	equalBatch                     // BatchMatMul: batches of the same shape
	stretchBatch                   // BatchMatMulV2: batches that are broadcast
)

// check refuses ranks and batches that the rule does not allow.
func (r matmulRule) check(a, b tensor.Shape) error {
	if r == stretchBatch {
		if len(a) < 2 {
			return status.InvalidArgumentf("In[0] ndims must be >= 2: %d", len(a))
		}
		if len(b) < 2 {
			return status.InvalidArgumentf("In[1] ndims must be >= 2: %d", len(b))
		}
		return nil
	}
	if len(a) != len(b) {
		return status.InvalidArgumentf("In[0] and In[1] has different ndims: %v vs. %v", a, b)
	}
	if r == oneMatrix && len(a) != 2 {
		return status.InvalidArgumentf("In[0] and In[1] ndims must be == 2: %d", len(a))
	}
	if len(a) < 2 {
		return status.InvalidArgumentf("In[0] and In[1] ndims must be >= 2: %d", len(a))
	}
	for i := range len(a) - 2 {
		if a[i] != b[i] {
			return status.InvalidArgumentf("In[0].dim(%d) and In[1].dim(%d) must be the same: %v vs %v", i, i, a, b)
		}
	}
	return nil
}

// matProduct is a batch of matrix products: the sizes of each, and which matrix of the operands
// goes into which result.
type matProduct struct {
	m, n, k int
	out     tensor.Shape
	batch   *walk // nil where matrix i of both goes into result i
	count   int
}

// plan works out the product of operands of these shapes.
func (r matmulRule) plan(a, b tensor.Shape, ta, tb bool) (p matProduct, err error) {
	if err := r.check(a, b); err != nil {
		return p, err
	}
	batchA, batchB := a[:len(a)-2], b[:len(b)-2]
	batch, ok := broadcastShape(batchA, batchB)
	if !ok {
		return p, status.InvalidArgumentf("In[0] and In[1] must have compatible batch dimensions: %v vs. %v", a, b)
	}
	m, ka := a[len(a)-2], a[len(a)-1]
	kb, n := b[len(b)-2], b[len(b)-1]
	if ta {
		m, ka = ka, m
	}
	if tb {
		kb, n = n, kb
	}
	if ka != kb {
		return p, status.InvalidArgumentf("Matrix size-incompatible: In[0]: %v, In[1]: %v", a, b)
	}
	p = matProduct{m: int(m), n: int(n), k: int(ka), out: append(batch, m, n), count: batch.Elements()}
	if p.count > 1 && !batchA.Equal(batchB) {
		p.batch = newWalk(batch, batchA, batchB)
	}
	return p, nil
}

// matmulKernel multiplies matrices of one element type.
type matmulKernel[T any] struct {
	rule   matmulRule
	dtype  tensor.DType
	ta, tb bool
	mul    gemm[T]
	// conj, where it is there, conjugates what is transposed.
	conj func(dst, a []T)
}

func (k *matmulKernel[T]) Compute(ctx *Context) error {
	a, b := ctx.Input(0), ctx.Input(1)
	if err := firstError(checkType(ctx, 0, k.dtype), checkType(ctx, 1, k.dtype)); err != nil {
		return err
	}
	p, err := k.rule.plan(a.Shape(), b.Shape(), k.ta, k.tb)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, p.out)
	if err != nil {
		return err
	}
	av, bv := viewOf[T](a), viewOf[T](b)
	if k.conj != nil && k.ta {
		c, release, err := scratch[T](ctx.Device, len(av))
		if err != nil {
			return err
		}
		defer release()
		k.conj(c, av)
		av = c
	}
	if k.conj != nil && k.tb {
		c, release, err := scratch[T](ctx.Device, len(bv))
		if err != nil {
			return err
		}
		defer release()
		k.conj(c, bv)
		bv = c
	}
	multiply(ctx.Device, &p, k.ta, k.tb, k.mul, av, bv, viewOf[T](out))
	return nil
}

// multiply computes a batch of products, in parallel within large matrices, else over the batch.
func multiply[T any](dev Device, p *matProduct, ta, tb bool, mul gemm[T], a, b, out []T) {
	if len(out) == 0 {
		return
	}
	if p.k == 0 {
		clear(out)
		return
	}
	lda, ldb := p.k, p.n
	if ta {
		lda = p.m
	}
	if tb {
		ldb = p.k
	}
	sizeA, sizeB, sizeC := p.m*p.k, p.k*p.n, p.m*p.n
	one := func(par simd.Parallel, i, ia, ib int) {
		mul(par, ta, tb, p.m, p.n, p.k, a[ia*sizeA:(ia+1)*sizeA], lda, b[ib*sizeB:(ib+1)*sizeB], ldb, out[i*sizeC:(i+1)*sizeC], p.n, false)
	}
	if p.count == 1 {
		one(dev.Parallel, 0, 0, 0)
		return
	}
	some := func(par simd.Parallel, lo, hi int) {
		if p.batch == nil {
			for i := lo; i < hi; i++ {
				one(par, i, i, i)
			}
			return
		}
		inner := p.batch.inner()
		sa, sb := p.batch.innerStride(0), p.batch.innerStride(1)
		p.batch.each(lo/inner, (hi+inner-1)/inner, func(r int, at []int) {
			for j := range inner {
				if i := r*inner + j; i >= lo && i < hi {
					one(par, i, at[0]+j*sa, at[1]+j*sb)
				}
			}
		})
	}
	if work := p.m * p.n * p.k; work < 1<<20 {
		dev.Parallel(p.count, max(1, (1<<17)/work), func(lo, hi int) { some(nil, lo, hi) })
	} else {
		some(dev.Parallel, 0, p.count)
	}
}

// matmulEntry makes kernels of an op for one element type.
type matmulEntry struct {
	dtype tensor.DType
	make  func(rule matmulRule, ta, tb bool) Kernel
}

func matmulOf[T any](mul gemm[T], conj func(dst, a []T)) matmulEntry {
	dtype := dtypeOf[T]()
	return matmulEntry{dtype, func(rule matmulRule, ta, tb bool) Kernel {
		k := &matmulKernel[T]{rule: rule, dtype: dtype, ta: ta, tb: tb, mul: mul}
		if rule != oneMatrix {
			k.conj = conj
		}
		return k
	}}
}

func conjugate[T complexNum](dst, a []T) {
	for i, v := range a {
		dst[i] = T(cmplx.Conj(complex128(v)))
	}
}

func init() {
	entries := []matmulEntry{
		matmulOf(simd.Gemm, nil), matmulOf(gemmPortable[float64], nil),
		matmulOf(gemmPortable[int8], nil), matmulOf(gemmPortable[int16], nil), matmulOf(gemmPortable[int32], nil), matmulOf(gemmPortable[int64], nil),
		matmulOf(gemmPortable[uint8], nil), matmulOf(gemmPortable[uint16], nil), matmulOf(gemmPortable[uint32], nil), matmulOf(gemmPortable[uint64], nil),
		matmulOf(gemmPortable[complex64], conjugate[complex64]), matmulOf(gemmPortable[complex128], conjugate[complex128]),
	}
	for _, half := range halfTypes {
		entries = append(entries, matmulEntry{half, func(rule matmulRule, ta, tb bool) Kernel {
			return &viaFloat{inner: entries[0].make(rule, ta, tb), half: half}
		}})
	}
	for _, e := range entries {
		if e.dtype == tensor.BFloat16 {
			mixedProducts(matmulOf(gemmPortable[int32], nil), e)
		}
		one, all := []tensor.DType{e.dtype}, map[string][]tensor.DType{"T": {e.dtype}}
		Register(
			Def{Op: "MatMul", Types: all, Expensive: true, New: e.constructor(oneMatrix, "transpose_a", "transpose_b")},
			Def{Op: "BatchMatMul", Types: all, Expensive: true, New: e.constructor(equalBatch, "adj_x", "adj_y")},
			Def{Op: "BatchMatMulV2", Types: all, Expensive: true, New: e.constructor(stretchBatch, "adj_x", "adj_y")},
			Def{Op: "BatchMatMulV3", Types: map[string][]tensor.DType{"Ta": one, "Tb": one, "Tout": one}, Expensive: true, New: e.constructor(stretchBatch, "adj_x", "adj_y")},
		)
	}
}

// constructor reads which operands are transposed.
func (e matmulEntry) constructor(rule matmulRule, attrA, attrB string) func(*Construction) (any, error) {
	return func(c *Construction) (any, error) {
		ta, errA := c.Attrs().Bool(attrA)
		tb, errB := c.Attrs().Bool(attrB)
		if err := firstError(errA, errB); err != nil {
			return nil, err
		}
		return e.make(rule, ta, tb), nil
	}
}
