package all_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

var denseTypes = []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16}

// whole returns a tensor of small integers, whose products and short sums are the same in all types.
func whole(r *rand.Rand, dtype tensor.DType, dims ...int64) *tensor.Tensor {
	t := zeros(dtype, dims...)
	for i := range t.Len() {
		set(t, i, float64(r.IntN(5)-2))
	}
	return t
}

// set sets element i of t to v, rounded to t's type.
func set(t *tensor.Tensor, i int, v float64) {
	switch t.DType() {
	case tensor.Float32:
		tensor.Of[float32](t)[i] = float32(v)
	case tensor.Float64:
		tensor.Of[float64](t)[i] = v
	case tensor.Float16:
		tensor.Of[uint16](t)[i] = halfOf(v)
	case tensor.BFloat16:
		b := math.Float32bits(float32(v))
		tensor.Of[uint16](t)[i] = uint16((b + 0x7fff + b>>16&1) >> 16)
	}
}

// halfOf converts an integer in half precision's range to an IEEE half.
func halfOf(v float64) uint16 {
	sign := uint16(0)
	if v < 0 {
		sign, v = 1<<15, -v
	}
	if v == 0 {
		return sign
	}
	frac, exp := math.Frexp(v)
	m := uint16(math.RoundToEven(frac * 2048)) // a carry goes into the exponent
	return sign | uint16(exp+13)<<10 + m
}

// product computes the expected product of matrices, as float64.
func product(a, b, out *tensor.Tensor, ta, tb bool) {
	n := len(out.Shape())
	m, cols := out.Dim(n-2), out.Dim(n-1)
	k := a.Dim(a.Rank() - 1)
	if ta {
		k = a.Dim(a.Rank() - 2)
	}
	batch := out.Shape()[:n-2]
	for z := range batch.Elements() {
		offsetA := index(batch, a.Shape()[:a.Rank()-2], z) * m * k
		offsetB := index(batch, b.Shape()[:b.Rank()-2], z) * k * cols
		for i := range m {
			for j := range cols {
				sum := 0.0
				for p := range k {
					x, y := i*k+p, p*cols+j
					if ta {
						x = p*m + i
					}
					if tb {
						y = j*k + p
					}
					sum += kt.Element(a, offsetA+x).(float64) * kt.Element(b, offsetB+y).(float64)
				}
				set(out, (z*m+i)*cols+j, sum)
			}
		}
	}
}

func flip(dims []int64, yes bool) []int64 {
	if n := len(dims); yes {
		dims[n-2], dims[n-1] = dims[n-1], dims[n-2]
	}
	return dims
}

// TestProductsOfManySizes covers the tiles' edges, several tiles, and divisions along k.
func TestProductsOfManySizes(t *testing.T) { checkProducts(t, denseTypes) }

func checkProducts(t *testing.T, types []tensor.DType) {
	t.Helper()
	r := rand.New(rand.NewPCG(11, 12))
	for _, dtype := range types {
		for _, s := range [][3]int64{{1, 1, 1}, {3, 5, 7}, {64, 64, 32}, {65, 66, 33}, {40, 72, 64}, {1, 70, 300}, {70, 1, 40}, {16, 24, 1100}, {5, 3, 777}, {130, 136, 48}} {
			for i := range 4 {
				ta, tb := i&1 != 0, i&2 != 0
				a, b := whole(r, dtype, flip([]int64{s[0], s[2]}, ta)...), whole(r, dtype, flip([]int64{s[2], s[1]}, tb)...)
				want := zeros(dtype, s[0], s[1])
				product(a, b, want, ta, tb)
				kt.Check(t, kt.Case{Name: fmt.Sprint(dtype, s, ta, tb), Op: "MatMul", Attrs: kt.Attrs{"T": dtype, "transpose_a": ta, "transpose_b": tb},
					Inputs: []any{a, b}, Want: []*tensor.Tensor{want}})
			}
		}
	}
}

// TestProductsOfBatches covers batches that are broadcast.
func TestProductsOfBatches(t *testing.T) { checkBatches(t, denseTypes) }

func checkBatches(t *testing.T, types []tensor.DType) {
	t.Helper()
	r := rand.New(rand.NewPCG(13, 14))
	for _, dtype := range types {
		for _, c := range [][3]tensor.Shape{
			{{2, 3}, {2, 3}, {2, 3}}, {{4}, {}, {4}}, {{}, {4}, {4}}, {{2, 1, 3}, {5, 1}, {2, 5, 3}}, {{3, 1}, {1, 2}, {3, 2}}, {{0}, {0}, {0}},
		} {
			a, b := whole(r, dtype, append(c[0].Clone(), 8, 16)...), whole(r, dtype, append(c[1].Clone(), 24, 16)...)
			want := zeros(dtype, append(c[2].Clone(), 8, 24)...)
			product(a, b, want, false, true)
			kt.Check(t, kt.Case{Name: fmt.Sprint(dtype, c), Op: "BatchMatMulV2", Attrs: kt.Attrs{"T": dtype, "adj_x": false, "adj_y": true},
				Inputs: []any{a, b}, Want: []*tensor.Tensor{want}})
		}
	}
}
