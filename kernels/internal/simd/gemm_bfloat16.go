package simd

import (
	"sync"
	"unsafe"
)

const (
	// tileBlock is the number of rows and columns of C that tiles compute together, and the number of steps of k that they process at once.
	tileBlock = 32
	// halfBlock is the number of rows and of columns of a tile.
	halfBlock = tileBlock / 2
	// mostDepth is the greatest k: a block of B has k rows and must stay in the second-level cache.
	mostDepth = 8192
	// packedOfB is the number of elements of B that are packed at once: they stay in the second-level cache. Those of A are read from
	// farther away, once for each such part of B.
	packedOfB = 1 << 19
	packedOfA = 1 << 21
	// rowsApart keeps packed rows of A in different cache sets.
	rowsApart = 32
)

// HasGemmBFloat16 reports whether the processor has bfloat16 matrix instructions and k, the number of products per sum, is supported.
func HasGemmBFloat16(k int) bool { return active.bfloatTiles != nil && k <= mostDepth }

// GemmBFloat16 is Gemm for the bits of bfloat16, without accumulation. Sums are float32 and rounded once. Subnormal numbers count as zeros.
// It needs HasGemmBFloat16(k).
func GemmBFloat16(par Parallel, transA, transB bool, m, n, k int, a []uint16, lda int, b []uint16, ldb int, c []uint16, ldc int) {
	checkOperands(transA, transB, m, n, k, len(a), lda, len(b), ldb, len(c), ldc)
	if m == 0 || n == 0 {
		return
	}
	if k == 0 {
		for i := range m {
			clear(c[i*ldc:][:n])
		}
		return
	}
	if par == nil {
		par = func(n, _ int, body func(lo, hi int)) { body(0, n) }
	}
	p := bfloatProduct{transA: transA, transB: transB, m: m, n: n, k: k, depth: roundUp(k, tileBlock), a: a, lda: lda, b: b, ldb: ldb, c: c, ldc: ldc}
	p.ld = p.depth + rowsApart
	w := bfloatWorkspaces.Get().(*bfloatWorkspace)
	defer bfloatWorkspaces.Put(w)
	p.rows = m
	if transA {
		p.rows = min(m, packedOfA/p.depth&^(tileBlock-1))
		w.a = grown(w.a, roundUp(p.rows, tileBlock)*p.ld)
		p.packedA = w.a
	}
	columns := max(tileBlock, packedOfB/p.depth&^(tileBlock-1))
	w.b = grown(w.b, roundUp(min(n, columns), tileBlock)*p.depth)
	p.packedB = w.b
	for ; p.top < m; p.top += p.rows {
		p.rows = min(p.rows, m-p.top)
		blocks := ceilDiv(p.rows, tileBlock)
		if transA {
			par(2*blocks, p.packGrain(), p.packA)
		}
		for p.left = 0; p.left < n; p.left += columns {
			p.columns = min(columns, n-p.left)
			par(2*ceilDiv(p.columns, tileBlock), p.packGrain(), p.packB)
			par(blocks, 1+(1<<19)/(p.depth*tileBlock*roundUp(p.columns, tileBlock)), p.compute)
		}
	}
}

// packGrain returns the minimum number of halves of blocks that are worth another processor.
func (p *bfloatProduct) packGrain() int { return 1 + (1<<14)/(p.depth*halfBlock) }

// bfloatProduct holds the operands of a product and the part of B that is currently packed.
type bfloatProduct struct {
	transA, transB bool
	m, n, k        int
	depth          int // k, padded with zeros to whole tiles
	a              []uint16
	lda            int
	b              []uint16
	ldb            int
	c              []uint16
	ldc            int
	top, rows      int // the current rows of A and C
	left, columns  int // the current columns of B and C
	packedA        []uint16
	ld             int // distance between packed rows of A
	packedB        []uint16
}

// bfloatWorkspace is memory for packed operands and sums.
type bfloatWorkspace struct {
	a, b, square []uint16
	sums         []float32
}

var bfloatWorkspaces = sync.Pool{New: func() any { return new(bfloatWorkspace) }}

// packB packs halves lo to hi of the blocks of B: see bfloatTiles.
func (p *bfloatProduct) packB(lo, hi int) {
	w := bfloatWorkspaces.Get().(*bfloatWorkspace)
	defer bfloatWorkspaces.Put(w)
	for ; lo < hi; lo++ {
		j := lo * halfBlock
		columns := max(0, min(halfBlock, p.columns-j))
		dst := p.packedB[j*p.depth:][:halfBlock*p.depth]
		if p.transB {
			w.packPairs(dst, p.b, (p.left+j)*p.ldb, p.ldb, columns, p.k, p.depth)
		} else {
			interleave(dst, p.b, p.left+j, p.ldb, columns, p.k, p.depth)
		}
	}
}

// interleave packs columns of a matrix with k rows, starting at v[at], as half a block of B, padded with zeros to depth rows.
func interleave(dst, v []uint16, at, ld, columns, k, depth int) {
	pairs := 0
	if columns == halfBlock && k > 1 {
		pairs = k / 2
		active.interleave(pairs, &v[at], 2*ld, &dst[0])
	}
	for x := 2 * pairs; x < depth; x += 2 {
		to := dst[x*halfBlock:][:2*halfBlock]
		clear(to)
		for y := range columns {
			if x < k {
				to[2*y] = v[at+x*ld+y]
			}
			if x+1 < k {
				to[2*y+1] = v[at+(x+1)*ld+y]
			}
		}
	}
}

// packPairs packs rows of a matrix with k columns, starting at v[at], as the columns of half a block of B. A pair of numbers is moved like
// a float32.
func (w *bfloatWorkspace) packPairs(dst, v []uint16, at, ld, rows, k, depth int) {
	whole := 0
	if rows == halfBlock {
		for ; whole+tileBlock <= k; whole += tileBlock {
			transposePairs(&v[at+whole], ld, &dst[whole*halfBlock], 2*halfBlock)
		}
	}
	if whole == depth {
		return
	}
	clear(dst[whole*halfBlock:])
	for y := range rows {
		for x, value := range v[at+y*ld:][whole:k] {
			x += whole
			dst[x/2*2*halfBlock+2*y+x%2] = value
		}
	}
}

// transposePairs transposes a square of 16 by 16 pairs of numbers. Rows are lds and ldd numbers apart.
func transposePairs(src *uint16, lds int, dst *uint16, ldd int) {
	active.tiles.transpose((*float32)(unsafe.Pointer(src)), 2*lds, (*float32)(unsafe.Pointer(dst)), 2*ldd)
}

// compute computes blocks lo to hi of the current rows and columns of C.
func (p *bfloatProduct) compute(lo, hi int) {
	w := bfloatWorkspaces.Get().(*bfloatWorkspace)
	defer bfloatWorkspaces.Put(w)
	blocks := ceilDiv(p.columns, tileBlock)
	w.sums = grown(w.sums, tileBlock*blocks*tileBlock)
	ldc := blocks * tileBlock
	for ; lo < hi; lo++ {
		i := lo * tileBlock
		rows := min(tileBlock, p.rows-i)
		a, lda := w.rowsOfA(p, i, rows)
		active.bfloatTiles(p.depth, rows, a, 2*lda, &p.packedB[0], blocks, &w.sums[0], 4*ldc)
		for y := range rows {
			NarrowBFloat16(p.c[(p.top+i+y)*p.ldc+p.left:][:p.columns], w.sums[y*ldc:][:p.columns])
		}
	}
}

// packA packs halves lo to hi of the current blocks of rows of a transposed A. Pairing the steps of k and transposing the pairs transposes
// the matrix.
func (p *bfloatProduct) packA(lo, hi int) {
	w := bfloatWorkspaces.Get().(*bfloatWorkspace)
	defer bfloatWorkspaces.Put(w)
	w.square = grown(w.square, halfBlock*p.depth)
	for ; lo < hi; lo++ {
		i := lo * halfBlock
		interleave(w.square, p.a, p.top+i, p.lda, max(0, min(halfBlock, p.rows-i)), p.k, p.depth)
		for x := 0; x < p.depth; x += tileBlock {
			transposePairs(&w.square[x*halfBlock], 2*halfBlock, &p.packedA[i*p.ld+x], p.ld)
		}
	}
}

// rowsOfA returns rows of A, starting with row i of the current ones, and the distance between them. They are either in place or padded
// with zeros to whole tiles.
func (w *bfloatWorkspace) rowsOfA(p *bfloatProduct, i, rows int) (*uint16, int) {
	switch {
	case p.transA:
		return &p.packedA[i*p.ld], p.ld
	case rows == tileBlock && p.k == p.depth:
		return &p.a[(p.top+i)*p.lda], p.lda
	}
	w.a = grown(w.a, tileBlock*p.ld)
	for y := range tileBlock {
		to, n := w.a[y*p.ld:][:p.depth], 0
		if y < rows {
			n = copy(to, p.a[(p.top+i+y)*p.lda:][:p.k])
		}
		clear(to[n:])
	}
	return &w.a[0], p.ld
}
