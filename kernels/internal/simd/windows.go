package simd

import "fmt"

// Windows describes a matrix whose rows are windows in a grid over an image, without storing it. A window is Pieces runs of Length numbers,
// PieceStep apart. Its right and lower neighbours begin ColumnStep and RowStep further. Windows may overlap.
type Windows struct {
	Rows, Columns             int
	RowStep, ColumnStep       int
	Pieces, Length, PieceStep int
}

// Depth returns the number of elements in a window, which is the number of columns of the matrix.
func (w *Windows) Depth() int { return w.Pieces * w.Length }

// check panics unless all windows are within n numbers.
func (w *Windows) check(n int) {
	last := (w.Rows-1)*w.RowStep + (w.Columns-1)*w.ColumnStep + (w.Pieces-1)*w.PieceStep + w.Length
	if min(w.Rows, w.Columns, w.Pieces, w.Length) < 1 || min(w.RowStep, w.ColumnStep, w.PieceStep) < 0 || last > n {
		panic(fmt.Sprintf("simd: windows %+v over %d numbers", *w, n))
	}
}

// Grid describes the destination of a product with windows: the row of C for each window, RowStep and ColumnStep apart like the windows.
type Grid struct {
	C                   []float32
	RowStep, ColumnStep int
	// Accumulate adds to the existing content.
	Accumulate bool
	// Stream stores past the caches where possible: see streamBytes.
	Stream bool
}

// ToStream reports whether a result of n numbers should be streamed.
func ToStream(n int) bool { return n >= streamBytes/4 }

// Panels is a matrix of Depth rows, packed for products with windows.
type Panels struct {
	depth, columns, width int
	v                     []float32
}

// panelWidth returns the number of columns in a panel.
func panelWidth() int {
	if t := active.tiles; t != nil {
		return 2 * t.lanes
	}
	return 16
}

// PanelsLen returns the length of the buffer that PackPanels needs.
func PanelsLen(depth, columns int) int { return depth * roundUp(columns, panelWidth()) }

// PackPanels packs the matrix b, whose rows are ldb apart, into dst. A matrix that already has the layout of one panel is used in place.
func PackPanels(dst, b []float32, ldb, depth, columns int) Panels {
	checkMatrix("B", depth, columns, ldb, len(b))
	p := Panels{depth: depth, columns: columns, width: panelWidth()}
	if columns == p.width && ldb == columns {
		p.v = b[:depth*columns]
		return p
	}
	p.v = dst[:PanelsLen(depth, columns)]
	packPanels(active.tiles, p.width, p.v, b, ldb, depth, columns)
	return p
}

// panel returns columns j to j+cols of p, from row k on.
func (p *Panels) panel(j, k int) (rows []float32, cols int) {
	return p.v[j*p.depth+k*p.width : (j+p.width)*p.depth], min(p.width, p.columns-j)
}

// mostWindowDepth is the number of rows of a panel that are read for all windows before the next ones: they stay in the second-level cache.
const mostWindowDepth = 1024

// TimesPanels multiplies the windows over image by a matrix with w.Depth() rows.
func (w Windows) TimesPanels(image []float32, b *Panels, c Grid) {
	w.check(len(image))
	last := (w.Rows-1)*c.RowStep + (w.Columns-1)*c.ColumnStep + b.columns
	if w.Depth() != b.depth || min(c.RowStep, c.ColumnStep) < 0 || last > len(c.C) {
		panic(fmt.Sprintf("simd: %+v times %d x %d numbers, of which results lie %d and %d apart in %d numbers", w, b.depth, b.columns, c.RowStep, c.ColumnStep, len(c.C)))
	}
	each := max(1, mostWindowDepth/w.Length)
	all := w.Pieces
	stream := c.Stream && !c.Accumulate && each >= all && active.tiles != nil &&
		active.tiles.mayStream(c.C, b.columns, c.RowStep) && active.tiles.mayStream(c.C, b.columns, c.ColumnStep)
	for piece := 0; piece < all; piece += each {
		w.Pieces = min(each, all-piece)
		for j := 0; j < b.columns; j += b.width {
			rows, cols := b.panel(j, piece*w.Length)
			to := c
			to.C, to.Accumulate, to.Stream = c.C[j:], c.Accumulate || piece > 0, stream
			if t := active.tiles; t != nil {
				windowsTimesPanel(t, &w, image[piece*w.PieceStep:], rows, cols, &to)
			} else {
				w.timesPanelPortable(image[piece*w.PieceStep:], rows, cols, &to)
			}
		}
	}
}

func asInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// windowsTimesPanel distributes the windows of each row evenly among tiles.
func windowsTimesPanel(t *tileSet[float32], w *Windows, image, panel []float32, cols int, c *Grid) {
	kernels, store := t.sized(&t.byRow, cols), storeOnly
	switch {
	case c.Accumulate:
		store = storeSum
	case c.Stream:
		store = storeStream
	}
	tiles, skip := ceilDiv(w.Columns, t.rows), 4*(w.PieceStep-w.Length)
	for y := range w.Rows {
		eachSize(w.Columns, tiles, func(n, x, size, count int) {
			from, step := y*w.RowStep+x*w.ColumnStep, size*w.ColumnStep
			next := from + step
			if n+1 == tiles {
				next = min(y+1, w.Rows-1) * w.RowStep
			}
			kernels[size](w.Length, &image[from], 4*w.ColumnStep, &panel[0], 4*2*t.lanes,
				&c.C[y*c.RowStep+x*c.ColumnStep], 4*c.ColumnStep, cols, store, address(&image[next]), w.Pieces, skip, count, 4*step, 4*step)
		})
	}
}

// TransposedTimesPanels multiplies the transposed matrix of the windows over image by a matrix with one row per window. The result is the
// w.Depth() rows of c, ldc apart. It adds to c if accumulate is set.
func (w Windows) TransposedTimesPanels(image []float32, b *Panels, c []float32, ldc int, accumulate bool) {
	w.check(len(image))
	checkMatrix("C", w.Depth(), b.columns, ldc, len(c))
	if w.Rows*w.Columns != b.depth || ldc < b.columns {
		panic(fmt.Sprintf("simd: %+v transposed times %d x %d numbers, into rows %d apart", w, b.depth, b.columns, ldc))
	}
	for j := 0; j < b.columns; j += b.width {
		rows, cols := b.panel(j, 0)
		for piece := range w.Pieces {
			from, to := image[piece*w.PieceStep:], c[piece*w.Length*ldc+j:]
			if t := active.tiles; t != nil {
				piecesTimesPanel(t, &w, from, rows, cols, to, ldc, asInt(accumulate))
			} else {
				w.piecesTimesPanelPortable(from, rows, cols, to, ldc, accumulate)
			}
		}
	}
}

// piecesTimesPanel distributes the numbers of the first piece of all windows evenly among tiles.
func piecesTimesPanel(t *tileSet[float32], w *Windows, image, panel []float32, cols int, c []float32, ldc, accumulate int) {
	kernels := t.sized(&t.byColumn, cols)
	tiles, skip := ceilDiv(w.Length, t.rows), 4*(w.RowStep-w.Columns*w.ColumnStep)
	eachSize(w.Length, tiles, func(_, i, size, count int) {
		kernels[size](w.Columns, &image[i], 4*w.ColumnStep, &panel[0], 4*2*t.lanes,
			&c[i*ldc], 4*ldc, cols, accumulate, address(&panel[0]), w.Rows, skip, count, 4*size, 0)
	})
}

// timesPanelPortable is windowsTimesPanel without tiles.
func (w *Windows) timesPanelPortable(image, panel []float32, cols int, c *Grid) {
	width := panelWidth()
	for y := range w.Rows {
		for x := range w.Columns {
			out := c.C[y*c.RowStep+x*c.ColumnStep:][:cols]
			if !c.Accumulate {
				clear(out)
			}
			for piece := range w.Pieces {
				for i, v := range image[y*w.RowStep+x*w.ColumnStep+piece*w.PieceStep:][:w.Length] {
					for j, b := range panel[(piece*w.Length+i)*width:][:cols] {
						out[j] += v * b
					}
				}
			}
		}
	}
}

// piecesTimesPanelPortable is piecesTimesPanel without tiles.
func (w *Windows) piecesTimesPanelPortable(image, panel []float32, cols int, c []float32, ldc int, accumulate bool) {
	width := panelWidth()
	for i := range w.Length {
		out := c[i*ldc:][:cols]
		if !accumulate {
			clear(out)
		}
		for y := range w.Rows {
			for x := range w.Columns {
				v := image[y*w.RowStep+x*w.ColumnStep+i]
				for j, b := range panel[(y*w.Columns+x)*width:][:cols] {
					out[j] += v * b
				}
			}
		}
	}
}
