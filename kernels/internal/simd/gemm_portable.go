package simd

// Blocking of the portable product: a block of B stays in the second-level cache while the rows of A are read.
const (
	portableDepth   = 128
	portableColumns = 256
)

// computePortable computes p in plain Go, four rows of A at once along contiguous rows of B.
func (p *product[T]) computePortable() {
	var w *workspace[T]
	if p.transB {
		w = p.workspaces.Get().(*workspace[T])
		defer p.workspaces.Put(w)
		w.packedB = grown(w.packedB, portableDepth*portableColumns)
	}
	p.clear()
	for j := 0; j < p.n; j += portableColumns {
		cols := min(portableColumns, p.n-j)
		for k := 0; k < p.k; k += portableDepth {
			depth := min(portableDepth, p.k-k)
			b, ldb := p.b, p.ldb
			if p.transB {
				p.untranspose(w.packedB, j, cols, k, depth)
				b, ldb = w.packedB, cols
			} else {
				b = b[k*ldb+j:]
			}
			for i := 0; i < p.m; i += 4 {
				p.rowsPortable(i, j, cols, k, depth, b, ldb)
			}
		}
	}
}

func (p *product[T]) untranspose(dst []T, j, cols, k, depth int) {
	for y := range cols {
		for x, v := range p.b[(j+y)*p.ldb+k:][:depth] {
			dst[x*cols+y] = v
		}
	}
}

// rowsPortable adds depth steps to up to four rows of C, starting at row i.
func (p *product[T]) rowsPortable(i, j, cols, k, depth int, b []T, ldb int) {
	if p.m-i < 4 {
		for ; i < p.m; i++ {
			c := p.c[i*p.ldc+j:][:cols]
			for x := range depth {
				a := p.at(i, k+x)
				for y, v := range b[x*ldb:][:cols] {
					c[y] += a * v
				}
			}
		}
		return
	}
	c0 := p.c[i*p.ldc+j:][:cols]
	c1 := p.c[(i+1)*p.ldc+j:][:cols]
	c2 := p.c[(i+2)*p.ldc+j:][:cols]
	c3 := p.c[(i+3)*p.ldc+j:][:cols]
	for x := range depth {
		a0, a1, a2, a3 := p.at(i, k+x), p.at(i+1, k+x), p.at(i+2, k+x), p.at(i+3, k+x)
		for y, v := range b[x*ldb:][:cols] {
			c0[y] += a0 * v
			c1[y] += a1 * v
			c2[y] += a2 * v
			c3[y] += a3 * v
		}
	}
}

// at returns an element of op(A).
func (p *product[T]) at(i, k int) T {
	if p.transA {
		return p.a[k*p.lda+i]
	}
	return p.a[i*p.lda+k]
}
