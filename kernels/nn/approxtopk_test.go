package nn_test

import (
	"math"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	_ "github.com/troupe-run/troupe/kernels/all"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// approx returns the attributes of ApproxTopK, with defaults for those that more does not set.
func approx(k int, more kt.Attrs) kt.Attrs {
	attrs := kt.Attrs{"k": k, "reduction_dimension": -1, "recall_target": float32(0.95), "is_max_k": true, "reduction_input_size_override": -1, "aggregate_to_topk": true}
	for name, v := range more {
		attrs[name] = v
	}
	return attrs
}

// TestApproxTopKAlongEachAxis compares the greatest and the least elements with those that k searches for the next one find, for each
// dimension, counted from both ends.
func TestApproxTopKAlongEachAxis(t *testing.T) {
	d := kt.NewDevice(t)
	nan := float32(math.NaN())
	in := kt.F32(kt.S(2, 3, 4), 3, 1, 2, 3, nan, -1, -1, 7, 0, 5, float32(math.Inf(1)), -8, 4, 4, 4, 4, 1, 2, 3, nan, float32(math.Inf(-1)), 0, -1, 9)
	strides := []int{12, 4, 1}
	for axis := -3; axis < 3; axis++ {
		at := (axis + 3) % 3
		size := in.Dim(at)
		for _, greatest := range []bool{true, false} {
			for k := range size + 1 {
				shape := in.Shape().Clone()
				shape[at] = int64(k)
				values, err := tensor.New(tensor.Host, tensor.Float32, shape)
				if err != nil {
					t.Fatal(err)
				}
				indices, err := tensor.New(tensor.Host, tensor.Int32, shape)
				if err != nil {
					t.Fatal(err)
				}
				x, inner := tensor.Of[float32](in), strides[at]
				for row := range in.Len() / size {
					first := row/inner*inner*size + row%inner
					taken := map[int]bool{}
					for j := range k {
						best := -1
						for i := range size {
							if taken[i] {
								continue
							}
							if best < 0 || before(x[first+i*inner], x[first+best*inner], greatest) {
								best = i
							}
						}
						taken[best] = true
						to := row/inner*inner*k + j*inner + row%inner
						tensor.Of[float32](values)[to], tensor.Of[int32](indices)[to] = x[first+best*inner], int32(best)
					}
				}
				got := d.Run(t, kt.Op{Type: "ApproxTopK", Attrs: approx(k, kt.Attrs{"reduction_dimension": axis, "is_max_k": greatest})}, in.Retain())
				kt.Expect(t, got, values, indices)
				if t.Failed() {
					t.Fatalf("axis %d, greatest %v, k %d", axis, greatest, k)
				}
			}
		}
	}
	in.Release()
}

// before reports whether a comes before b in the result. NaN is greater than all numbers.
func before(a, b float32, greatest bool) bool {
	if !greatest {
		a, b = b, a
	}
	return a > b || a != a && b == b
}

// TestApproxTopKCandidates checks that without aggregation there are as many results as the shape function says, except where TensorFlow
// has a kernel, which returns k.
func TestApproxTopKCandidates(t *testing.T) {
	d := kt.NewDevice(t)
	row := kt.Iota[float32](tensor.Float32, kt.S(2000))
	for _, c := range []struct {
		k     int
		attrs kt.Attrs
		want  int
	}{
		{2, kt.Attrs{"is_max_k": false}, 2},
		{2, kt.Attrs{"is_max_k": false, "aggregate_to_topk": false}, 2000},
		{1, kt.Attrs{"is_max_k": false, "aggregate_to_topk": false}, 1024},
		{1, kt.Attrs{"reduction_dimension": 0, "aggregate_to_topk": false}, 1024},
		{1, kt.Attrs{"aggregate_to_topk": false}, 1},
	} {
		out := d.Run(t, kt.Op{Type: "ApproxTopK", Attrs: approx(c.k, c.attrs)}, row.Retain())
		if got := out[0].Tensor.Len(); got != c.want || out[1].Tensor.Len() != c.want {
			t.Errorf("%v: %d results, not %d", c.attrs, got, c.want)
		}
		for _, v := range out {
			v.Release()
		}
	}
	for text, attrs := range map[string]kt.Attrs{
		"Invalid reduction dimension: 1. Must be within the range of [-1, 0]": approx(1, kt.Attrs{"reduction_dimension": 1}),
		"input must have last dimension >= k = 2001 but was 2000":             approx(2001, kt.Attrs{"is_max_k": false}),
		"Invalid recall target: 0.":                                           approx(1, kt.Attrs{"is_max_k": false, "recall_target": float32(0)}),
		"Need k >= 0, got -1":                                                 approx(-1, kt.Attrs{"is_max_k": false}),
	} {
		kt.Fails(t, d, status.InvalidArgument, text, kt.Op{Type: "ApproxTopK", Attrs: attrs}, row.Retain())
	}
	kt.Fails(t, d, status.InvalidArgument, "input must be >= 1-D", kt.Op{Type: "ApproxTopK", Attrs: approx(1, kt.Attrs{"is_max_k": false})}, kt.F32(nil, 1))
	row.Release()
}
