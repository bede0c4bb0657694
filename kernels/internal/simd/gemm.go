package simd

import (
	"fmt"
	"runtime"
	"sync"
)

// Parallel calls body for ranges that cover 0 to n once, each at least grain long where n allows, possibly concurrently, and returns when
// all calls have returned. The caller supplies it, which allows one pool of workers to serve the whole process. A nil Parallel stands for a
// single call on the same goroutine.
type Parallel func(n, grain int, body func(lo, hi int))

// Gemm sets the m by n matrix C to op(A)·op(B), plus C's former value if accumulate is set, where op(A) is m by k and op(B) is k by n. All
// are stored by rows: row i of A starts at a[i*lda]; with transA, a holds k rows of m instead, and likewise for B. With k == 0 the product
// is zero.
//
// Rows of C must not overlap one another or the inputs. Rows of the inputs may overlap (lda < k): that makes a sliding window a matrix. It
// panics if a slice is too short for its matrix.
//
// A matrix with few rows is read in place; others are packed into buffers that are kept for reuse until the garbage collector frees them,
// at most about 2.5 MiB for each concurrent call of body.
func Gemm(par Parallel, transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, accumulate bool) {
	gemm(floats, par, transA, transB, m, n, k, a, lda, b, ldb, c, ldc, accumulate)
}

// Gemm64 is Gemm for float64.
func Gemm64(par Parallel, transA, transB bool, m, n, k int, a []float64, lda int, b []float64, ldb int, c []float64, ldc int, accumulate bool) {
	gemm(doubles, par, transA, transB, m, n, k, a, lda, b, ldb, c, ldc, accumulate)
}

// GemmInt32 is Gemm for int32, which wraps around.
func GemmInt32(par Parallel, transA, transB bool, m, n, k int, a []int32, lda int, b []int32, ldb int, c []int32, ldc int, accumulate bool) {
	gemm(integers, par, transA, transB, m, n, k, a, lda, b, ldb, c, ldc, accumulate)
}

// number is the set of element types of products.
type number interface{ float32 | float64 | int32 }

// engine computes the products of one element type.
type engine[T number] struct {
	// tiles returns the inner kernels of the kernel set in use, or nil for the portable ones.
	tiles func() *tileSet[T]
	// dot is the scalar product, if it is faster than tiles at multiplying one row by columns.
	dot func(a, b []T) T
	// jobs and workspaces are kept for reuse.
	jobs, workspaces sync.Pool
}

var (
	floats   = newEngine(func() *tileSet[float32] { return active.tiles }, dotProduct)
	doubles  = newEngine(func() *tileSet[float64] { return active.tiles64 }, nil)
	integers = newEngine(func() *tileSet[int32] { return active.tilesInt32 }, nil)
)

func newEngine[T number](tiles func() *tileSet[T], dot func(a, b []T) T) *engine[T] {
	e := &engine[T]{tiles: tiles, dot: dot}
	e.workspaces.New = func() any { return new(workspace[T]) }
	e.jobs.New = func() any {
		j := new(job[T])
		j.body = j.run
		return j
	}
	return e
}

func gemm[T number](e *engine[T], par Parallel, transA, transB bool, m, n, k int, a []T, lda int, b []T, ldb int, c []T, ldc int, accumulate bool) {
	p := product[T]{
		engine: e,
		transA: transA, transB: transB, m: m, n: n, k: k,
		a: a, lda: lda, b: b, ldb: ldb, c: c, ldc: ldc,
		accumulate: accumulate,
	}
	p.check()
	if m == 0 || n == 0 {
		return
	}
	if k == 0 {
		p.clear()
		return
	}
	p.preferRow()
	if t := p.tiles(); t != nil && !accumulate && p.k <= blockDepth && p.m*p.n >= streamBytes/sizeOf[T]() {
		p.stream = t.mayStream(p.c, p.n, p.ldc)
	}
	if par == nil {
		p.compute()
		return
	}
	p.divide(par)
}

// product holds the operands of one matrix product, or of a rectangle of it.
type product[T number] struct {
	*engine[T]
	transA, transB bool
	m, n, k        int
	a              []T
	lda            int
	b              []T
	ldb            int
	c              []T
	ldc            int
	accumulate     bool
	stream         bool // C is stored past the caches
}

func (p *product[T]) check() {
	checkOperands(p.transA, p.transB, p.m, p.n, p.k, len(p.a), p.lda, len(p.b), p.ldb, len(p.c), p.ldc)
}

// checkOperands panics if a matrix of a product does not fit its slice, or if C's rows overlap.
func checkOperands(transA, transB bool, m, n, k, lenA, lda, lenB, ldb, lenC, ldc int) {
	if m < 0 || n < 0 || k < 0 {
		panic(fmt.Sprintf("simd: product of negative size %d x %d x %d", m, n, k))
	}
	rows, cols := m, k
	if transA {
		rows, cols = cols, rows
	}
	checkMatrix("A", rows, cols, lda, lenA)
	rows, cols = k, n
	if transB {
		rows, cols = cols, rows
	}
	checkMatrix("B", rows, cols, ldb, lenB)
	checkMatrix("C", m, n, ldc, lenC)
	if m > 1 && ldc < n {
		panic(fmt.Sprintf("simd: rows of C are %d long and %d apart", n, ldc))
	}
}

func checkMatrix(name string, rows, cols, ld, length int) {
	if rows == 0 || cols == 0 {
		return
	}
	// These are divisions to avoid overflow.
	if ld < 0 || cols > length || (rows > 1 && ld > 0 && rows-1 > (length-cols)/ld) {
		panic(fmt.Sprintf("simd: %d numbers are too few for %s, %d x %d with rows %d apart", length, name, rows, cols, ld))
	}
}

func (p *product[T]) clear() {
	if p.accumulate {
		return
	}
	for i := range p.m {
		clear(p.c[i*p.ldc:][:p.n])
	}
}

// preferRow turns a product that is one dense column into its transpose, one row. The vector kernels are faster at rows, unless the column
// consists of very short dot products.
func (p *product[T]) preferRow() {
	const shortDot = 64
	if p.n != 1 || p.m == 1 || p.ldc != 1 || (p.k < shortDot && !p.transA) {
		return
	}
	p.m, p.n = 1, p.m
	p.a, p.b = p.b, p.a
	p.lda, p.ldb = p.ldb, p.lda
	p.transA, p.transB = !p.transB, !p.transA
}

// part returns the rectangle of rows i0 to i1 and columns j0 to j1.
func (p *product[T]) part(i0, i1, j0, j1 int) product[T] {
	q := *p
	q.m, q.n = i1-i0, j1-j0
	q.c = p.c[i0*p.ldc+j0:]
	if p.transA {
		q.a = p.a[i0:]
	} else {
		q.a = p.a[i0*p.lda:]
	}
	if p.transB {
		q.b = p.b[j0*p.ldb:]
	} else {
		q.b = p.b[j0:]
	}
	return q
}

const (
	// leastRows and leastColumns are the sides of the smallest part that a product is divided into for par: two of the widest tiles below
	// each other, and one beside another.
	leastRows    = 28
	leastColumns = 32
	// worthSplitting is the minimum number of multiplications in a part, some 40 µs of work: less is not worth waking another core.
	worthSplitting = 1 << 21
	// partsPerCore gives a core that starts late less work than the others.
	partsPerCore = 2
	// largeProduct is the number of multiplications, some 2 ms of work, from which each core gets one part: a late start then matters less.
	largeProduct = 1 << 27
)

// job is a product with its division into rows x columns parts. Jobs are reused together with their body function, so a call allocates
// nothing.
type job[T number] struct {
	product[T]
	rows, columns int
	body          func(lo, hi int)
}

// divide computes p in parts.
func (p *product[T]) divide(par Parallel) {
	rows, columns := p.cuts(runtime.GOMAXPROCS(0))
	if rows*columns == 1 {
		p.compute()
		return
	}
	j := p.jobs.Get().(*job[T])
	j.product, j.rows, j.columns = *p, rows, columns
	par(rows*columns, 1, j.body)
	j.product = product[T]{}
	p.jobs.Put(j)
}

// cuts returns the numbers of rows and columns of parts to divide p into for the given cores: as many parts as are worthwhile and, of the
// divisions with that number, the one that reads least. A is read, and packed if necessary, once for each column of parts, B once for each
// row.
func (p *product[T]) cuts(cores int) (rows, columns int) {
	// Neither m·n, which is at most the length of C, nor what follows overflows.
	parts := p.m * p.n / max(1, worthSplitting/p.k)
	if cores > 1 && p.m*p.n <= largeProduct/p.k {
		cores *= partsPerCore
	}
	parts = max(1, min(parts, cores))
	mostRows := min(parts, max(1, p.m/leastRows))
	mostColumns := min(parts, ceilDiv(p.n, leastColumns))
	rows, columns = 1, mostColumns
	for r := 2; r <= mostRows; r++ {
		c := min(parts/r, mostColumns)
		if more := r*c - rows*columns; more > 0 || more == 0 && c*p.m+r*p.n < columns*p.m+rows*p.n {
			rows, columns = r, c
		}
	}
	return rows, columns
}

func (j *job[T]) run(lo, hi int) {
	for ; lo < hi; lo++ {
		p := j.part(j.rectangle(lo))
		p.compute()
	}
}

// rectangle returns part i of the job, counted along the rows of parts: rows i0 to i1 and columns j0 to j1. Columns are divided at tile
// boundaries.
func (j *job[T]) rectangle(i int) (i0, i1, j0, j1 int) {
	row, column, strips := i/j.columns, i%j.columns, ceilDiv(j.n, leastColumns)
	return row * j.m / j.rows, (row + 1) * j.m / j.rows,
		column * strips / j.columns * leastColumns, min((column+1)*strips/j.columns*leastColumns, j.n)
}

// compute computes p on this goroutine.
func (p *product[T]) compute() {
	switch t := p.tiles(); {
	case t == nil:
		p.computePortable()
	case p.m == 1 && p.transB && p.dot != nil:
		p.computeDots()
	case p.inPlace(t):
		p.computeInPlace(t)
	default:
		p.computeTiled(t)
	}
}

// computeDots computes a single row of dot products.
func (p *product[T]) computeDots() {
	x := p.a[:p.k:p.k]
	if p.transA && p.lda != 1 {
		w := p.workspaces.Get().(*workspace[T])
		defer p.workspaces.Put(w)
		x = p.gatherRow(w)
	}
	for j := range p.n {
		v := p.dot(x, p.b[j*p.ldb:][:p.k])
		if p.accumulate {
			v += p.c[j]
		}
		p.c[j] = v
	}
}
