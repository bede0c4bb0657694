package simd

import "unsafe"

// A tile computes rows x cols of C over pieces of k steps each, for tiles such blocks below one another; strides and steps are in bytes.
// See the generator.
type tile[T number] func(k int, a *T, lda int, b *T, ldb int, c *T, ldc int, cols int, store storing, next uintptr, pieces int, skip int, tiles int, stepA int, stepNext int)

// storing is how a tile stores its sums.
type storing = int

const (
	storeOnly   storing = iota
	storeSum            // added to the existing content
	storeStream         // past the caches, for tiles of whole, aligned vectors
)

// eachSize divides rows evenly among tiles: the first ones may have one row more than the rest. It calls visit once for the tiles of each
// size; the first of them is tile n and begins at row i.
func eachSize(rows, tiles int, visit func(n, i, size, count int)) {
	size, larger := rows/tiles, rows%tiles
	if larger > 0 {
		visit(0, 0, size+1, larger)
	}
	if size > 0 {
		visit(larger, larger*(size+1), size, tiles-larger)
	}
}

const maxTileRows = 14

// tileSet holds the tiles of one instruction set, indexed by layout of A (by rows, by columns), width in vectors minus one, and rows.
// Functions that pack transposed operands are nil, and tiles by columns or of one vector missing, where they do not pay off.
type tileSet[T number] struct {
	lanes, rows        int
	byRow, byColumn    [2][maxTileRows + 1]tile[T]
	transpose          func(src *T, lds int, dst *T, ldd int)
	transposeBlockSize int
	// streams reports that tiles can store past the caches.
	streams    bool
	gather     func(k int, src *T, lds int, dst *T, m int)
	pack       func(k int, src *T, lds int, dst *T, panels int, step int)
	packNarrow func(k int, src *T, lds int, dst *T, cols int)
}

// streamBytes is the size from which a result does not fit the caches along with its operands. Storing it past them saves reading it first.
const streamBytes = 16 << 20

// mayStream reports whether rows of the given number of columns, ld apart, can be stored past the caches.
func (t *tileSet[T]) mayStream(c []T, columns, ld int) bool {
	vector := t.lanes * sizeOf[T]()
	return t.streams && columns%(2*t.lanes) == 0 && ld%t.lanes == 0 && uintptr(unsafe.Pointer(unsafe.SliceData(c)))%uintptr(vector) == 0
}

// sized returns the tiles for the given number of columns.
func (t *tileSet[T]) sized(of *[2][maxTileRows + 1]tile[T], cols int) *[maxTileRows + 1]tile[T] {
	if cols > t.lanes || of[0][1] == nil {
		return &of[1]
	}
	return &of[0]
}

// Cache blocking, in elements: packed A (rows x depth) stays in the second-level cache. A tile reads a panel of packed B (depth x tile
// width) sequentially, which is as fast from the second level as from the first.
const (
	blockDepth   = 512
	blockRows    = 168
	blockColumns = 2048
)

// Heuristics for reading operands in place, measured on an AVX-512 server core. Rows a multiple of conflictStride apart share few cache
// sets.
const (
	conflictStride = 512
	largeA         = 256 << 10
	fewRows        = 256
	manyPanels     = 4
)

// workspace holds the packed operands of one running product.
type workspace[T number] struct{ packedA, packedB []T }

const cacheLine = 64

// sizeOf returns the size of an element in bytes.
func sizeOf[T number | uint16]() int { return int(unsafe.Sizeof(*new(T))) }

// grown returns s, or a new slice if s is too small, with n elements starting at a cache line.
func grown[T number | uint16](s []T, n int) []T {
	if cap(s) >= n {
		return s[:n]
	}
	line := cacheLine / sizeOf[T]()
	s = make([]T, n+line)
	skip := -int(uintptr(unsafe.Pointer(&s[0]))/uintptr(sizeOf[T]())) & (line - 1)
	return s[skip : skip+n]
}

func roundUp(n, multiple int) int { return (n + multiple - 1) / multiple * multiple }

func ceilDiv(n, d int) int { return (n + d - 1) / d }

// tiling is one computation of a product by tiles.
type tiling[T number] struct {
	*product[T]
	*tileSet[T]
	*workspace[T]
	width        int // of a tile
	depth        int // maximum number of steps of k per block
	packA        bool
	directB      bool
	strideA      int // between packed rows
	k0, depthNow int // the current block of k
	j0, colsNow  int // the current block of columns
	accumulating bool
}

// inPlace reports whether computeTiled would neither pack nor divide anything: B is a single panel of whole vectors.
func (p *product[T]) inPlace(t *tileSet[T]) bool {
	whole := p.n == 2*t.lanes || p.n == t.lanes && t.byRow[0][1] != nil
	return whole && !p.transA && !p.transB && p.k <= blockDepth && (p.m <= t.rows || p.m <= fewRows && p.ldb%conflictStride != 0)
}

// computeInPlace is computeTiled without planning, for products that need no packing: planning takes longer than a small product.
func (p *product[T]) computeInPlace(t *tileSet[T]) {
	store, size := storeOnly, sizeOf[T]()
	if p.accumulate {
		store = storeSum
	}
	kernels := t.sized(&t.byRow, p.n)
	eachSize(p.m, ceilDiv(p.m, t.rows), func(_, i, rows, count int) {
		kernels[rows](p.k, &p.a[i*p.lda], size*p.lda, &p.b[0], size*p.ldb, &p.c[i*p.ldc], size*p.ldc, p.n, store, address(&p.b[0]), 1, 0, count, size*rows*p.lda, 0)
	})
}

func (p *product[T]) computeTiled(set *tileSet[T]) {
	w := p.workspaces.Get().(*workspace[T])
	t := tiling[T]{product: p, tileSet: set, workspace: w, width: 2 * set.lanes}
	t.plan()
	for t.j0 = 0; t.j0 < p.n; t.j0 += blockColumns {
		t.colsNow = min(blockColumns, p.n-t.j0)
		for t.k0 = 0; t.k0 < p.k; t.k0 += t.depth {
			t.depthNow = min(t.depth, p.k-t.k0)
			t.accumulating = p.accumulate || t.k0 > 0
			t.prepareB()
			blocks := ceilDiv(p.m, blockRows)
			rows := ceilDiv(p.m, blocks)
			for i := 0; i < p.m; i += rows {
				t.rowBlock(i, min(rows, p.m-i))
			}
		}
	}
	p.workspaces.Put(w)
}

// plan decides which operands are packed and allocates memory for them.
func (t *tiling[T]) plan() {
	t.depth = roundUp(ceilDiv(t.k, ceilDiv(t.k, blockDepth)), 4)
	conflicts := t.lda%conflictStride == 0
	switch {
	case t.transA && t.byColumn[1][1] == nil:
		t.packA = true
	case t.n <= 2*t.width:
		// Too few panels would read the copy.
	case t.transA:
		t.packA = conflicts || t.n > manyPanels*t.width
	default:
		t.packA = conflicts || t.m*t.k > largeA
	}
	t.directB = !t.transB && (t.m <= t.rows || t.m <= fewRows && t.ldb%conflictStride != 0)

	panels := ceilDiv(min(t.n, blockColumns), t.width)
	t.packedB = grown(t.packedB, min(t.depth, roundUp(t.k, 4))*panels*t.width)
	if t.packA {
		t.strideA = t.depth + cacheLine/sizeOf[T]()
		t.packedA = grown(t.packedA, min(t.m, blockRows)*t.strideA)
	}
}

// whole reports whether there are tiles that read no more than the given number of columns.
func (t *tiling[T]) whole(cols int) bool {
	return cols == 0 || cols >= t.width || cols == t.lanes && t.byRow[0][1] != nil && !t.readsColumns()
}

// prepareB packs the current block of B, or only its last panel if that is narrow and the others are read in place.
func (t *tiling[T]) prepareB() {
	from := 0
	if t.directB {
		from = t.colsNow - t.colsNow%t.width
		if t.whole(t.colsNow - from) {
			return
		}
	}
	if !t.transB {
		for step := panelsAtOnce * t.width; from < t.colsNow; from += step {
			t.packPanels(from, min(step, t.colsNow-from))
		}
		return
	}
	for j := from; j < t.colsNow; j += t.width {
		t.packTransposed(t.packedB[j*t.depthNow:][:t.depthNow*t.width], t.j0+j, min(t.width, t.colsNow-j))
	}
}

// readsColumns reports whether tiles read A by columns, as it is stored.
func (t *tiling[T]) readsColumns() bool { return t.transA && t.byColumn[1][1] != nil }

// address returns an address that tiles only prefetch. It may be past the end of a matrix, so it must not be a pointer, which the garbage
// collector would follow.
func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// rowBlock computes rows i0 to i0+rows over the current block of B. Rows are distributed evenly among the tiles.
func (t *tiling[T]) rowBlock(i0, rows int) {
	tiles := ceilDiv(rows, t.rows)
	if t.packA {
		t.packRows(i0, rows, tiles)
	}
	store, size := t.storing(), sizeOf[T]()
	kernels := &t.byRow
	if t.readsColumns() {
		kernels = &t.byColumn
	}
	for j := 0; j < t.colsNow; j += t.width {
		cols := min(t.width, t.colsNow-j)
		b, ldb := t.panel(j)
		after := j + t.width
		if after >= t.colsNow {
			after = 0
		}
		next, stride := t.panel(after)
		stepNext := t.depthNow * stride / tiles // together, the tiles prefetch all of it
		sized := t.sized(kernels, cols)
		eachSize(rows, tiles, func(n, i, rows, count int) {
			a, lda, stepA := t.tileA(i0, i, rows)
			from, step := address(next)+uintptr(n*stepNext*size), stepNext
			if j == 0 && n+1 < tiles && !t.packA && !t.transA { // nothing has read the next tile yet
				from, step = address(a)+uintptr(stepA*size), stepA
			}
			sized[rows](t.depthNow, a, size*lda, b, size*ldb,
				&t.c[(i0+i)*t.ldc+t.j0+j], size*t.ldc, cols, store, from, 1, 0, count, size*stepA, size*step)
		})
	}
}

// storing returns how the sums of the current block of k are stored.
func (t *tiling[T]) storing() storing {
	switch {
	case t.accumulating:
		return storeSum
	case t.stream:
		return storeStream
	}
	return storeOnly
}

// panel returns the address of a panel of the current block of B, and its stride.
func (t *tiling[T]) panel(j int) (*T, int) {
	if t.directB && t.whole(t.colsNow-j) {
		return &t.b[t.k0*t.ldb+t.j0+j], t.ldb
	}
	return &t.packedB[j*t.depthNow], t.width
}

// tileA returns the address of A for the tile at row i of the block at i0, its stride, and the step to the tile below.
func (t *tiling[T]) tileA(i0, i, rows int) (a *T, lda, step int) {
	switch {
	case t.packA && t.readsColumns():
		return &t.packedA[i*t.depthNow], rows, rows * t.depthNow
	case t.packA:
		return &t.packedA[i*t.strideA], t.strideA, rows * t.strideA
	case t.transA:
		return &t.a[t.k0*t.lda+i0+i], t.lda, rows
	default:
		return &t.a[(i0+i)*t.lda+t.k0], t.lda, rows * t.lda
	}
}
