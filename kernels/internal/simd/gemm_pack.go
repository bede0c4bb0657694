package simd

// packRows copies a block of A: row by row or, if A is transposed and there are tiles for that layout, tile by tile with the rows of a tile
// side by side.
func (t *tiling[T]) packRows(i0, rows, tiles int) {
	dst, src := t.packedA, t.a
	if !t.transA {
		for i := range rows {
			copy(dst[i*t.strideA:][:t.depthNow], src[(i0+i)*t.lda+t.k0:])
		}
		return
	}
	if t.gather == nil {
		for k := range t.depthNow {
			for i, v := range src[(t.k0+k)*t.lda+i0:][:rows] {
				dst[i*t.strideA+k] = v
			}
		}
		return
	}
	eachSize(rows, tiles, func(_, i, size, count int) {
		for end := i + size*count; i < end; i += size {
			t.gather(t.depthNow, &src[t.k0*t.lda+i0+i], sizeOf[T]()*t.lda, &dst[i*t.depthNow], size)
		}
	})
}

// panelsAtOnce is the number of panels of B that are packed together: enough for the processor to prefetch stretches of its rows, few
// enough to write.
const panelsAtOnce = 4

// packPanels copies columns j to j+cols of the current block of B panel by panel, padding the last with zeros to its width.
func (t *tiling[T]) packPanels(j, cols int) {
	packPanels(t.tileSet, t.width, t.packedB[j*t.depthNow:], t.b[t.k0*t.ldb+t.j0+j:], t.ldb, t.depthNow, cols)
}

// packPanels copies a matrix of depth rows, ldb apart, panel by panel, padding the last with zeros to its width.
func packPanels[T number](set *tileSet[T], width int, dst, b []T, ldb, depth, cols int) {
	whole := cols / width
	step := depth * width
	if set != nil && set.pack != nil && whole > 0 {
		set.pack(depth, &b[0], sizeOf[T]()*ldb, &dst[0], whole, sizeOf[T]()*step)
		dst, b, cols = dst[whole*step:], b[min(whole*width, len(b)):], cols-whole*width
	}
	if cols == 0 {
		return
	}
	if set != nil && set.packNarrow != nil {
		set.packNarrow(depth, &b[0], sizeOf[T]()*ldb, &dst[0], cols)
		return
	}
	for k := range depth {
		src := b[k*ldb:][:cols]
		to := k * width
		for ; len(src) >= width; to += step {
			copy(dst[to:][:width], src)
			src = src[width:]
		}
		if len(src) > 0 {
			row := dst[to:][:width]
			clear(row[copy(row, src):])
		}
	}
}

// packTransposed packs one panel, from column j, of a B stored by columns.
func (t *tiling[T]) packTransposed(panel []T, j, cols int) {
	if t.transpose == nil {
		for y := range t.width {
			if y >= cols {
				for k := range t.depthNow {
					panel[k*t.width+y] = 0
				}
				continue
			}
			for k, v := range t.b[(j+y)*t.ldb+t.k0:][:t.depthNow] {
				panel[k*t.width+y] = v
			}
		}
		return
	}
	size := t.transposeBlockSize
	for x := 0; x < t.width; x += size {
		present := max(0, min(size, cols-x))
		k := 0
		if present == size {
			for ; k+size <= t.depthNow; k += size {
				src := t.b[(j+x)*t.ldb+t.k0+k:]
				t.transpose(&src[0], sizeOf[T]()*t.ldb, &panel[k*t.width+x], sizeOf[T]()*t.width)
			}
		}
		for ; k < t.depthNow; k++ {
			row := panel[k*t.width+x:][:size]
			for y := range present {
				row[y] = t.b[(j+x+y)*t.ldb+t.k0+k]
			}
			clear(row[present:])
		}
	}
}

// gatherRow copies a strided row vector op(A) into the workspace.
func (p *product[T]) gatherRow(w *workspace[T]) []T {
	w.packedA = grown(w.packedA, p.k)
	for i := range w.packedA {
		w.packedA[i] = p.a[i*p.lda]
	}
	return w.packedA
}
