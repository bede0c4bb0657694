package linalg

import (
	"math/cmplx"
	"runtime"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/gemm"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// matmulRule says which operands a matrix multiplication op takes.
type matmulRule int

const (
	oneMatrix    matmulRule = iota // MatMul: matrices
	equalBatch                     // BatchMatMul: batches of the same shape
	stretchBatch                   // BatchMatMulV2: batches that are broadcast
)

// check rejects ranks and batches that the rule does not allow.
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

// plan returns the product of operands of the given shapes.
func (r matmulRule) plan(a, b tensor.Shape, ta, tb bool) (p gemm.MatProduct, err error) {
	if err := r.check(a, b); err != nil {
		return p, err
	}
	batchA, batchB := a[:len(a)-2], b[:len(b)-2]
	batch, ok := shapes.BroadcastShape(batchA, batchB)
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
	p = gemm.MatProduct{M: int(m), N: int(n), K: int(ka), Out: append(batch, m, n), Count: batch.Elements()}
	if p.Count > 1 && !batchA.Equal(batchB) {
		p.Batch = elementwise.NewWalk(batch, batchA, batchB)
	}
	return p, nil
}

// matmulKernel multiplies matrices of one element type.
type matmulKernel[T any] struct {
	rule   matmulRule
	dtype  tensor.DType
	ta, tb bool
	mul    gemm.Gemm[T]
	// conj, if not nil, conjugates transposed operands.
	conj func(dst, a []T)
}

func (k *matmulKernel[T]) Compute(ctx *kernels.Context) error {
	a, b := ctx.Input(0), ctx.Input(1)
	if err := args.FirstError(args.CheckType(ctx, 0, k.dtype), args.CheckType(ctx, 1, k.dtype)); err != nil {
		return err
	}
	p, err := k.rule.plan(a.Shape(), b.Shape(), k.ta, k.tb)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, p.Out)
	if err != nil {
		return err
	}
	av, bv := element.ViewOf[T](a), element.ViewOf[T](b)
	if k.conj != nil && k.ta {
		c, release, err := element.Scratch[T](ctx.Device, len(av))
		if err != nil {
			return err
		}
		defer release()
		k.conj(c, av)
		av = c
	}
	if k.conj != nil && k.tb {
		c, release, err := element.Scratch[T](ctx.Device, len(bv))
		if err != nil {
			return err
		}
		defer release()
		k.conj(c, bv)
		bv = c
	}
	multiply(ctx, &p, k.ta, k.tb, k.mul, av, bv, element.ViewOf[T](out))
	return nil
}

// multiply computes a batch of products. It runs in parallel within the products if they are large and few, otherwise over the batch.
func multiply[T any](ctx *kernels.Context, p *gemm.MatProduct, ta, tb bool, mul gemm.Gemm[T], a, b, out []T) {
	if len(out) == 0 {
		return
	}
	if p.K == 0 {
		_ = kernels.Clear(ctx, out) // the executor fails the kernel of a step that has ended
		return
	}
	lda, ldb := p.K, p.N
	if ta {
		lda = p.M
	}
	if tb {
		ldb = p.K
	}
	if p.Count == 1 {
		mul(ctx.Parallel, ta, tb, p.M, p.N, p.K, a, lda, b, ldb, out, p.N, false)
		return
	}
	sizeA, sizeB, sizeC := p.M*p.K, p.K*p.N, p.M*p.N
	one := func(par simd.Parallel, i, ia, ib int) {
		mul(par, ta, tb, p.M, p.N, p.K, a[ia*sizeA:(ia+1)*sizeA], lda, b[ib*sizeB:(ib+1)*sizeB], ldb, out[i*sizeC:(i+1)*sizeC], p.N, false)
	}
	some := func(par simd.Parallel, lo, hi int) {
		if p.Batch == nil {
			for i := lo; i < hi; i++ {
				one(par, i, i, i)
			}
			return
		}
		inner := p.Batch.Inner()
		sa, sb := p.Batch.InnerStride(0), p.Batch.InnerStride(1)
		p.Batch.Each(lo/inner, (hi+inner-1)/inner, func(r int, at []int) {
			for j := range inner {
				if i := r*inner + j; i >= lo && i < hi {
					one(par, i, at[0]+j*sa, at[1]+j*sb)
				}
			}
		})
	}
	// A few large products are each divided.
	if work := p.M * p.N * p.K; work >= 1<<20 && p.Count < 4*runtime.GOMAXPROCS(0) {
		some(ctx.Parallel, 0, p.Count)
	} else {
		ctx.Parallel(p.Count, max(1, (1<<17)/work), func(lo, hi int) { some(nil, lo, hi) })
	}
}

// matmulEntry constructs the kernels of an op for one element type.
type matmulEntry struct {
	dtype tensor.DType
	make  func(rule matmulRule, ta, tb bool) kernels.Kernel
}

func matmulOf[T any](mul gemm.Gemm[T], conj func(dst, a []T)) matmulEntry {
	dtype := element.DTypeOf[T]()
	return matmulEntry{dtype, func(rule matmulRule, ta, tb bool) kernels.Kernel {
		k := &matmulKernel[T]{rule: rule, dtype: dtype, ta: ta, tb: tb, mul: mul}
		if rule != oneMatrix {
			k.conj = conj
		}
		return k
	}}
}

func conjugate[T element.ComplexNum](dst, a []T) {
	for i, v := range a {
		dst[i] = T(cmplx.Conj(complex128(v)))
	}
}

// bfloatKernel multiplies bfloat16 matrices natively if the processor supports it, otherwise as float32. Operands may already be float32.
type bfloatKernel struct{ tiles, viaFloat kernels.Kernel }

func (k *bfloatKernel) Compute(ctx *kernels.Context) error {
	a, b := ctx.Input(0), ctx.Input(1)
	tiles := a.DType() == tensor.BFloat16 && b.DType() == tensor.BFloat16
	for _, d := range a.Shape()[max(0, len(a.Shape())-2):] {
		tiles = tiles && simd.HasGemmBFloat16(int(d))
	}
	if tiles {
		return k.tiles.Compute(ctx)
	}
	return k.viaFloat.Compute(ctx)
}

func gemmBFloat16(par simd.Parallel, ta, tb bool, m, n, k int, a []element.BFloat16, lda int, b []element.BFloat16, ldb int, c []element.BFloat16, ldc int, _ bool) {
	simd.GemmBFloat16(par, ta, tb, m, n, k, element.Bits(a), lda, element.Bits(b), ldb, element.Bits(c), ldc)
}

// constructor returns a constructor that reads which operands are transposed.
func (e matmulEntry) constructor(rule matmulRule, attrA, attrB string) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		a := c.Attrs().Reader()
		ta, tb := a.Bool(attrA), a.Bool(attrB)
		if err := a.Err(); err != nil {
			return nil, err
		}
		return e.make(rule, ta, tb), nil
	}
}

// matmulEntries holds the products of all element types.
var matmulEntries = func() []matmulEntry {
	entries := []matmulEntry{
		matmulOf(simd.Gemm, nil), matmulOf(simd.Gemm64, nil),
		matmulOf(gemm.Portable[int8], nil), matmulOf(gemm.Portable[int16], nil), matmulOf(simd.GemmInt32, nil), matmulOf(gemm.Portable[int64], nil),
		matmulOf(gemm.Portable[uint8], nil), matmulOf(gemm.Portable[uint16], nil), matmulOf(gemm.Portable[uint32], nil), matmulOf(gemm.Portable[uint64], nil),
		matmulOf(gemm.Portable[complex64], conjugate[complex64]), matmulOf(gemm.Portable[complex128], conjugate[complex128]),
	}
	float := entries[0]
	tiles := matmulOf(gemmBFloat16, nil)
	for _, half := range halves.Types {
		entries = append(entries, matmulEntry{half, func(rule matmulRule, ta, tb bool) kernels.Kernel {
			viaFloat := &halves.ViaFloat{Inner: float.make(rule, ta, tb), Half: half}
			if half == tensor.BFloat16 {
				return &bfloatKernel{tiles: tiles.make(rule, ta, tb), viaFloat: viaFloat}
			}
			return viaFloat
		}})
	}
	return entries
}()

// matmulRows returns the rows of a product. attrA and attrB are the attributes that transpose the operands.
func matmulRows(rule matmulRule, attrA, attrB string) (rows []kernels.Def) {
	for _, e := range matmulEntries {
		rows = append(rows, kernels.Def{Types: dtypes.Only("T", e.dtype), Expensive: true, New: e.constructor(rule, attrA, attrB)})
	}
	return rows
}

// matmulV3Rows returns the rows of BatchMatMulV3, whose operands and results each have their own type.
func matmulV3Rows() (rows []kernels.Def) {
	for _, e := range matmulEntries {
		if e.dtype == tensor.BFloat16 {
			rows = append(rows, mixedProducts(matmulOf(simd.GemmInt32, nil), e)...)
		}
		one := []tensor.DType{e.dtype}
		rows = append(rows, kernels.Def{Types: map[string][]tensor.DType{"Ta": one, "Tb": one, "Tout": one}, Expensive: true, New: e.constructor(stretchBatch, "adj_x", "adj_y")})
	}
	return rows
}
