package nn_test

import (
	"math"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	_ "github.com/troupe-run/troupe/kernels/all"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// TestRegionsThatBeginBeyondTheImage checks that a client may send regions with any borders.
func TestRegionsThatBeginBeyondTheImage(t *testing.T) {
	d := kt.NewDevice(t)
	for _, border := range []int64{4, 1 << 31, 1 << 62, math.MaxInt64 - 1, math.MaxInt64} {
		for at := range 3 {
			for _, overlapping := range []bool{false, true} {
				rows := []int64{0, 2, 4}
				rows[at] = border
				attrs := kt.Attrs{"overlapping": overlapping}
				in := func(n int64) *tensor.Tensor {
					v, err := tensor.Zeros(d.Pool(), tensor.Float32, kt.S(2, n, 4, 1))
					if err != nil {
						t.Fatal(err)
					}
					return v
				}
				in2 := func() *tensor.Tensor { return kt.F32(kt.S(2, 2, 1, 1), 0, 0, 0, 0) }
				out, err := d.Try(kt.Op{Type: "FractionalMaxPoolGrad", Attrs: attrs}, in(4), in2(), in2(), kt.I64(kt.S(3), rows...), kt.I64(kt.S(2), 0, 4))
				if code := status.CodeOf(err); code != status.OK && code != status.InvalidArgument {
					t.Errorf("borders %v: %v", rows, err)
				}
				for _, v := range out {
					v.Release()
				}
				grad := kt.F32(kt.S(2, 2, 1, 1), 1, 1, 1, 1)
				out, err = d.Try(kt.Op{Type: "FractionalAvgPoolGrad", Attrs: attrs}, kt.I64(kt.S(4), 2, 4, 4, 1), grad, kt.I64(kt.S(3), rows...), kt.I64(kt.S(2), 0, 4))
				if code := status.CodeOf(err); code != status.OK && code != status.InvalidArgument {
					t.Errorf("borders %v of an average: %v", rows, err)
				}
				for _, v := range out {
					v.Release()
				}
			}
		}
	}
}
