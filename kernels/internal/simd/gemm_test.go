package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"unsafe"

	"github.com/troupe-run/troupe/internal/extent"
)

// matrix is a rows x cols matrix with rows ld apart and NaN between them.
type matrix struct {
	rows, cols, ld int
	v              []float32
}

func randomMatrix(mem *arena, rows, cols, gap int) matrix {
	ld := cols + gap
	m := matrix{rows, cols, ld, mem.floats(max(0, (rows-1)*ld+cols))}
	for i := range m.v {
		m.v[i] = float32(math.NaN())
	}
	for i := range rows {
		for j := range cols {
			m.v[i*ld+j] = float32(mem.r.NormFloat64())
		}
	}
	return m
}

// lines returns the rows, or the columns, in float64.
func (m matrix) lines(columns bool) [][]float64 {
	outer, inner, stepOuter, stepInner := m.rows, m.cols, m.ld, 1
	if columns {
		outer, inner, stepOuter, stepInner = inner, outer, stepInner, stepOuter
	}
	lines := make([][]float64, outer)
	for i := range lines {
		lines[i] = make([]float64, inner)
		for j := range lines[i] {
			lines[i][j] = float64(m.v[i*stepOuter+j*stepInner])
		}
	}
	return lines
}

// splitting is a Parallel that divides ranges finely and runs the pieces concurrently.
func splitting(n, grain int, body func(lo, hi int)) {
	var wg sync.WaitGroup
	for lo, step := 0, max(grain, n/3); lo < n; {
		hi := min(lo+step, n)
		if n-hi < grain {
			hi = n
		}
		from := lo
		wg.Go(func() { body(from, hi) })
		lo = hi
	}
	wg.Wait()
}

func checkProduct(t *testing.T, r *rand.Rand, par Parallel, m, n, k, gap int, transA, transB, accumulate bool) {
	t.Helper()
	mem := &arena{r: r}
	defer mem.release()
	a, b := randomMatrix(mem, m, k, gap), randomMatrix(mem, k, n, gap)
	if transA {
		a = randomMatrix(mem, k, m, gap)
	}
	if transB {
		b = randomMatrix(mem, n, k, gap)
	}
	c := randomMatrix(mem, m, n, gap)
	before := append([]float32(nil), c.v...)
	Gemm(par, transA, transB, m, n, k, a.v, a.ld, b.v, b.ld, c.v, c.ld, accumulate)
	where := func(i, j int) string {
		return fmt.Sprintf("%dx%dx%d transA=%v transB=%v gap=%d accumulate=%v: C[%d,%d]", m, n, k, transA, transB, gap, accumulate, i, j)
	}
	rows, columns := a.lines(transA), b.lines(!transB)
	for i := range m {
		for j := range n {
			var want, size float64
			if accumulate {
				want = float64(before[i*c.ld+j])
				size = math.Abs(want)
			}
			for x, y := range columns[j] {
				v := rows[i][x] * y
				want += v
				size += math.Abs(v)
			}
			if got := float64(c.v[i*c.ld+j]); !(math.Abs(got-want) <= size*1e-6+1e-30) {
				t.Fatalf("%s = %v, want %v", where(i, j), got, want)
			}
		}
		for j := n; j < c.ld && i*c.ld+j < len(c.v); j++ {
			if c.v[i*c.ld+j] == c.v[i*c.ld+j] {
				t.Fatalf("%s lies between the rows and was written", where(i, j))
			}
		}
	}
}

func TestGemmShapes(t *testing.T) {
	sizes := []int{0, 1, 2, 3, 5, 8, 13, 14, 15, 16, 17, 29, 31, 32, 33, 47, 65}
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, m := range sizes {
			for _, n := range sizes {
				for _, k := range []int{0, 1, 2, 3, 4, 7, 9, 64, 70} {
					f := r.IntN(16)
					checkProduct(t, r, nil, m, n, k, f>>3*3, f&1 != 0, f&2 != 0, f&4 != 0)
				}
			}
		}
	})
}

// TestCuts checks that the parts of a product cover it once, do not exceed the requested number, and read little.
func TestCuts(t *testing.T) {
	for _, s := range [][3]int{{1, 1, 1 << 30}, {128, 300, 784}, {784, 300, 128}, {1, 100000, 512}, {100000, 1, 512}, {29, 33, 1 << 20}, {5000, 40, 300}, {64, 64, 64}} {
		for _, cores := range []int{1, 2, 3, 4, 7, 16, 64} {
			j := job[float32]{product: product[float32]{m: s[0], n: s[1], k: s[2]}}
			j.rows, j.columns = j.cuts(cores)
			if n := j.rows * j.columns; n < 1 || n > cores*partsPerCore {
				t.Errorf("%v for %d cores: %d x %d parts", s, cores, j.rows, j.columns)
			}
			covered := 0
			for i := range j.rows * j.columns {
				i0, i1, j0, j1 := j.rectangle(i)
				if i0 >= i1 || j0 >= j1 {
					t.Errorf("%v for %d cores: part %d is empty", s, cores, i)
				}
				covered += (i1 - i0) * (j1 - j0)
				for i := range i {
					if a0, a1, b0, b1 := j.rectangle(i); a0 < i1 && i0 < a1 && b0 < j1 && j0 < b1 {
						t.Errorf("%v for %d cores: parts meet", s, cores)
					}
				}
			}
			if covered != j.m*j.n {
				t.Errorf("%v for %d cores: %d of %d covered", s, cores, covered, j.m*j.n)
			}
		}
	}
	for _, c := range []struct{ m, n, k, rows, columns int }{
		{128, 300, 784, 1, 4}, {784, 300, 128, 4, 1}, {1024, 1024, 1024, 1, 2}, {128, 300, 100, 1, 1}, {128, 300, 200, 1, 3},
	} {
		p := product[float32]{m: c.m, n: c.n, k: c.k}
		if rows, columns := p.cuts(2); rows != c.rows || columns != c.columns {
			t.Errorf("%d x %d x %d: %d x %d parts, not %d x %d", c.m, c.n, c.k, rows, columns, c.rows, c.columns)
		}
	}
}

// TestGemmLarge crosses every blocking boundary and takes every path of the
// plan: packed and in place, one column and one row.
func TestGemmLarge(t *testing.T) {
	shapes := [][3]int{
		{128, 10, 100}, {70, 97, 530}, {300, 1, 513}, {1, 300, 513}, {1, 3000, 40},
		{256, 130, 256}, {30, 256, 257}, {270, 66, 1010}, {20, 2100, 30}, {600, 33, 20},
	}
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for _, s := range shapes {
			for f := range 16 {
				if extent.RaceDetector && f != 8 && f != 15 {
					continue // the race detector sees nothing new in the others
				}
				if !extent.Check() && f%5 != 0 {
					continue // the remaining ones still have each flag both set and unset
				}
				var par Parallel
				if f&8 != 0 {
					par = splitting
				}
				checkProduct(t, r, par, s[0], s[1], s[2], r.IntN(2)*r.IntN(9), f&1 != 0, f&2 != 0, f&4 != 0)
			}
		}
	})
}

// TestGemmStreams checks results that are stored past the caches, and results that are not because of their alignment.
func TestGemmStreams(t *testing.T) {
	const n, k = 64, 3
	m := streamBytes/4/n + 5
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(19, 20))
		mem := &arena{r: r}
		defer mem.release()
		a, b := fill(r, mem.floats(m*k)), fill(r, mem.floats(k*n))
		for _, at := range []int{0, 1, 16} {
			for _, par := range []Parallel{nil, splitting} {
				c := mem.floats(m*n + 16)[at:][:m*n]
				Gemm(par, false, false, m, n, k, a, k, b, n, c, n, false)
				for i := range m {
					for j := range n {
						want := float64(a[i*k])*float64(b[j]) + float64(a[i*k+1])*float64(b[n+j]) + float64(a[i*k+2])*float64(b[2*n+j])
						if got := float64(c[i*n+j]); !(math.Abs(got-want) <= 1e-4) {
							t.Fatalf("from number %d: C[%d,%d] = %v, want %v", at, i, j, got, want)
						}
					}
				}
			}
		}
	})
}

// TestEachSize checks that tiles cover the rows once and in order, in at most two sizes.
func TestEachSize(t *testing.T) {
	for rows := range 40 {
		for tiles := 1; tiles < 8; tiles++ {
			next, tile := 0, 0
			eachSize(rows, tiles, func(n, i, size, count int) {
				if n != tile || i != next || size < 1 || count < 1 {
					t.Errorf("%d rows in %d tiles: %d of %d rows from tile %d and row %d", rows, tiles, count, size, n, i)
				}
				next, tile = next+size*count, tile+count
			})
			if next != rows || tile > tiles {
				t.Errorf("%d rows in %d tiles: %d tiles of %d rows", rows, tiles, tile, next)
			}
		}
	}
}

// inArena returns n numbers in memory that begins or ends at a guard page.
func inArena[T number](mem *arena, n int) []T {
	words := mem.floats(n * sizeOf[T]() / 4)
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(words))), n)
}

// checkWhole compares products of small integers, which are exact in all types.
func checkWhole[T number](t *testing.T, r *rand.Rand, e *engine[T], par Parallel, m, n, k int) {
	t.Helper()
	mem := &arena{r: r}
	defer mem.release()
	transA, transB, accumulate := r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(2) == 0
	lda, ldb, ldc := k+r.IntN(3), n+r.IntN(3), n+r.IntN(3)
	rowsA, rowsB, colsA, colsB := m, k, k, n
	if transA {
		lda, rowsA, colsA = m+r.IntN(3), k, m
	}
	if transB {
		ldb, rowsB, colsB = k+r.IntN(3), n, k
	}
	random := func(rows, cols, ld int) []T {
		v := inArena[T](mem, (rows-1)*ld+cols)
		for i := range v {
			v[i] = T(r.IntN(201) - 100)
		}
		return v
	}
	a, b, c := random(rowsA, colsA, lda), random(rowsB, colsB, ldb), random(m, n, ldc)
	want := append([]T(nil), c...)
	for i := range m {
		for j := range n {
			var sum T
			if accumulate {
				sum = want[i*ldc+j]
			}
			for x := range k {
				ai, bi := i*lda+x, x*ldb+j
				if transA {
					ai = x*lda + i
				}
				if transB {
					bi = j*ldb + x
				}
				sum += a[ai] * b[bi]
			}
			want[i*ldc+j] = sum
		}
	}
	gemm(e, par, transA, transB, m, n, k, a, lda, b, ldb, c, ldc, accumulate)
	for i, v := range c {
		if v != want[i] {
			t.Fatalf("%T, %dx%dx%d transA=%v transB=%v accumulate=%v: number %d is %v, want %v", v, m, n, k, transA, transB, accumulate, i, v, want[i])
		}
	}
}

// TestGemmTypes checks products of all element types, with sides around those of tiles and blocks.
func TestGemmTypes(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 10))
		side := func() int { return []int{1, 2, 5, 6, 7, 13, 14, 15, 16, 17, 31, 33, 70, 170}[r.IntN(14)] }
		for range 150 {
			m, n, k, par := side(), side(), side(), Parallel(nil)
			if r.IntN(8) == 0 {
				k += blockDepth
			}
			if r.IntN(4) == 0 {
				par = splitting
			}
			checkWhole(t, r, floats, par, m, n, k)
			checkWhole(t, r, doubles, par, m, n, k)
			checkWhole(t, r, integers, par, m, n, k)
		}
	})
}

// TestGemmInt32Wraps checks that int32 products wrap around.
func TestGemmInt32Wraps(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		c := []int32{0}
		GemmInt32(nil, false, false, 1, 1, 2, []int32{1 << 30, 3}, 2, []int32{4, 5}, 1, c, 1, false)
		if c[0] != 15 {
			t.Errorf("got %d", c[0])
		}
	})
}

func TestGemmSlidingWindow(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		x := []float32{1, 2, 3, 4, 5}
		w := []float32{1, 10, 100}
		c := make([]float32, 3)
		Gemm(nil, false, false, 3, 1, 3, x, 1, w, 1, c, 1, false)
		for i, want := range []float32{321, 432, 543} {
			if c[i] != want {
				t.Errorf("window %d = %v, want %v", i, c[i], want)
			}
		}
	})
}

func TestGemmWithoutDepth(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		c := []float32{1, 2, 3, 4}
		Gemm(nil, false, false, 2, 1, 0, nil, 0, nil, 1, c, 2, true)
		Gemm(nil, false, false, 2, 1, 0, nil, 0, nil, 1, c[1:], 2, false)
		if c[0] != 1 || c[1] != 0 || c[2] != 3 || c[3] != 0 {
			t.Errorf("got %v", c)
		}
	})
}

func TestGemmRefusesShortSlices(t *testing.T) {
	for name, f := range map[string]func(){
		"A": func() {
			Gemm(nil, false, false, 2, 2, 2, make([]float32, 3), 2, make([]float32, 4), 2, make([]float32, 4), 2, false)
		},
		"B": func() {
			Gemm(nil, false, false, 2, 2, 2, make([]float32, 4), 2, make([]float32, 4), 3, make([]float32, 4), 2, false)
		},
		"C": func() {
			Gemm(nil, false, false, 2, 2, 2, make([]float32, 4), 2, make([]float32, 4), 2, make([]float32, 4), 3, false)
		},
		"C overlaps": func() {
			Gemm(nil, false, false, 2, 2, 2, make([]float32, 4), 2, make([]float32, 4), 2, make([]float32, 4), 1, false)
		},
		"negative": func() { Gemm(nil, false, false, -1, 2, 2, nil, 2, make([]float32, 4), 2, nil, 2, false) },
		"overflow": func() {
			Gemm(nil, false, false, math.MaxInt, 2, 2, make([]float32, 4), math.MaxInt, make([]float32, 4), 2, make([]float32, 4), 2, false)
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

func TestGemmAllocatesNothing(t *testing.T) {
	if extent.RaceDetector {
		t.Skip("sync.Pool drops items at random under the race detector")
	}
	eachLevel(t, func(t *testing.T) {
		const n = 160
		a, b, c := make([]float32, n*n), make([]float32, n*n), make([]float32, n*n)
		serial := func(n, _ int, body func(lo, hi int)) { body(0, n/2); body(n/2, n) }
		for _, par := range []Parallel{nil, serial} {
			f := func() { Gemm(par, false, true, n, n, n, a, n, b, n, c, n, false) }
			f()
			if got := testing.AllocsPerRun(20, f); got >= 1 {
				t.Errorf("%v allocations a call", got)
			}
		}
	})
}

func BenchmarkGemm(b *testing.B) {
	for _, s := range []struct {
		name           string
		transA, transB bool
		m, n, k        int
	}{
		{"256", false, false, 256, 256, 256},
		{"512", false, false, 512, 512, 512},
		{"1024", false, false, 1024, 1024, 1024},
		{"2048", false, false, 2048, 2048, 2048},
		{"128x784x300", false, false, 128, 300, 784},
		{"784x128x300At", true, false, 784, 300, 128},
		{"128x300x784Bt", false, true, 128, 784, 300},
		{"128x100x10", false, false, 128, 10, 100},
		{"128x784x1", false, false, 128, 1, 784},
		{"1x784x300", false, false, 1, 300, 784},
	} {
		b.Run(s.name, func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			x, y, z := make([]float32, s.m*s.k), make([]float32, s.k*s.n), make([]float32, s.m*s.n)
			for i := range x {
				x[i] = float32(r.NormFloat64())
			}
			for i := range y {
				y[i] = float32(r.NormFloat64())
			}
			lda, ldb := s.k, s.n
			if s.transA {
				lda = s.m
			}
			if s.transB {
				ldb = s.k
			}
			for b.Loop() {
				Gemm(nil, s.transA, s.transB, s.m, s.n, s.k, x, lda, y, ldb, z, s.n, false)
			}
			b.ReportMetric(2*float64(s.m)*float64(s.n)*float64(s.k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
