package simd

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/troupe-run/troupe/internal/extent"
)

// randomWindows returns windows over an image, and the length of the image.
func randomWindows(r *rand.Rand) (w Windows, length int) {
	w = Windows{
		Rows: 1 + r.IntN(4), Columns: 1 + r.IntN(33), RowStep: r.IntN(40), ColumnStep: r.IntN(9),
		Pieces: 1 + r.IntN(4), Length: 1 + r.IntN(37), PieceStep: r.IntN(50),
	}
	if r.IntN(8) == 0 {
		w.Length += 600 // more than one block of the depth
	}
	return w, (w.Rows-1)*w.RowStep + (w.Columns-1)*w.ColumnStep + (w.Pieces-1)*w.PieceStep + w.Length
}

// matrix returns the matrix that w describes.
func (w *Windows) matrix(image []float32) [][]float32 {
	rows := make([][]float32, 0, w.Rows*w.Columns)
	for y := range w.Rows {
		for x := range w.Columns {
			row := make([]float32, 0, w.Depth())
			for p := range w.Pieces {
				row = append(row, image[y*w.RowStep+x*w.ColumnStep+p*w.PieceStep:][:w.Length]...)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// nearProduct fails unless got is the scalar product of a and b, plus before.
func nearProduct(t *testing.T, what string, w Windows, got, before float32, a, b func(i int) float32, n int) {
	t.Helper()
	want, size := float64(before), math.Abs(float64(before))
	for i := range n {
		v := float64(a(i)) * float64(b(i))
		want += v
		size += math.Abs(v)
	}
	if math.Abs(float64(got)-want) > size*1e-6+1e-30 {
		t.Fatalf("%s with %+v: %v, want %v", what, w, got, want)
	}
}

func fill(r *rand.Rand, v []float32) []float32 {
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

// TestWindows compares both products with those of the matrix, over images that end at a guard page.
func TestWindows(t *testing.T) {
	n := 300
	if !extent.Check() {
		n = 60
	}
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		for range n {
			mem := &arena{r: r}
			w, length := randomWindows(r)
			image, columns, accumulate := fill(r, mem.floats(length)), 1+r.IntN(70), r.IntN(2) == 0
			rows := w.matrix(image)
			streams := r.IntN(3) == 0 // where possible
			if streams {
				columns = 32 * (1 + r.IntN(2))
			}

			b := fill(r, mem.floats(w.Depth()*columns))
			packed := PackPanels(mem.floats(PanelsLen(w.Depth(), columns)), b, columns, w.Depth(), columns)
			gap, gapRows := r.IntN(3), r.IntN(3)
			if streams {
				gap, gapRows = 16*gap, 16*gapRows
			}
			c := Grid{ColumnStep: columns + gap, RowStep: w.Columns*(columns+gap) + gapRows, Accumulate: accumulate, Stream: r.IntN(2) == 0}
			c.C = fill(r, mem.floats((w.Rows-1)*c.RowStep+(w.Columns-1)*c.ColumnStep+columns))
			before := append([]float32(nil), c.C...)
			w.TimesPanels(image, &packed, c)
			written := make([]bool, len(c.C))
			for i, row := range rows {
				for j := range columns {
					at := i/w.Columns*c.RowStep + i%w.Columns*c.ColumnStep + j
					written[at] = true
					was := before[at]
					if !accumulate {
						was = 0
					}
					nearProduct(t, "windows times panels", w, c.C[at], was, func(k int) float32 { return row[k] }, func(k int) float32 { return b[k*columns+j] }, len(row))
				}
			}
			for at, ok := range written {
				if !ok && c.C[at] != before[at] {
					t.Fatalf("%+v: number %d lies between the results and was written", w, at)
				}
			}

			grad := fill(r, mem.floats(len(rows)*columns))
			packed = PackPanels(mem.floats(PanelsLen(len(rows), columns)), grad, columns, len(rows), columns)
			sum := fill(r, mem.floats(w.Depth()*columns))
			before = append([]float32(nil), sum...)
			w.TransposedTimesPanels(image, &packed, sum, columns, accumulate)
			for i := range w.Depth() {
				for j := range columns {
					was := before[i*columns+j]
					if !accumulate {
						was = 0
					}
					nearProduct(t, "transposed windows times panels", w, sum[i*columns+j], was, func(k int) float32 { return rows[k][i] }, func(k int) float32 { return grad[k*columns+j] }, len(rows))
				}
			}
			mem.release()
		}
	})
}

func TestWindowsRefuseShortSlices(t *testing.T) {
	w := Windows{Rows: 2, Columns: 2, RowStep: 4, ColumnStep: 1, Pieces: 2, Length: 2, PieceStep: 4}
	b := PackPanels(make([]float32, PanelsLen(4, 3)), make([]float32, 12), 3, 4, 3)
	for name, f := range map[string]func(){
		"image": func() {
			w.TimesPanels(make([]float32, 10), &b, Grid{C: make([]float32, 12), RowStep: 6, ColumnStep: 3})
		},
		"result": func() {
			w.TimesPanels(make([]float32, 11), &b, Grid{C: make([]float32, 11), RowStep: 6, ColumnStep: 3})
		},
		"depth": func() {
			Windows{1, 1, 0, 0, 1, 3, 0}.TimesPanels(make([]float32, 11), &b, Grid{C: make([]float32, 12), RowStep: 6, ColumnStep: 3})
		},
		"sum":     func() { w.TransposedTimesPanels(make([]float32, 11), &b, make([]float32, 11), 3, false) },
		"overlap": func() { w.TransposedTimesPanels(make([]float32, 11), &b, make([]float32, 11), 2, false) },
		"no window": func() {
			Windows{0, 1, 0, 0, 1, 4, 0}.TimesPanels(make([]float32, 11), &b, Grid{C: make([]float32, 12), RowStep: 6, ColumnStep: 3})
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("did not panic")
				}
			}()
			f()
		})
	}
}
