package sdca_test

import (
	"math"
	"slices"
	"testing"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	_ "github.com/troupe-run/troupe/kernels/all"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// TestShrink shrinks the weights of two variables by an L1 over L2 of 0.5.
func TestShrink(t *testing.T) {
	d := kt.NewDevice(t)
	op := kt.Op{Type: "SdcaShrinkL1", Attrs: kt.Attrs{"num_features": 2, "l1": float32(1), "l2": float32(2)}}
	a, b := containers.NewVariable("a", tensor.Float32), containers.NewVariable("b", tensor.Float32)
	defer a.Close()
	defer b.Close()
	kt.Fails(t, d, status.FailedPrecondition, "Attempting to use uninitialized value a", op, a, b)
	a.Assign(kt.F32(kt.S(5), 2, -2, 0.25, -0.5, 0))
	b.Assign(kt.F32(nil, float32(math.Inf(-1))))
	d.Run(t, op, a, b)
	for v, want := range map[*containers.Variable][]float32{a: {1.5, -1.5, 0, 0, 0}, b: {float32(math.Inf(-1))}} {
		got := v.Read()
		if !slices.Equal(tensor.Of[float32](got), want) {
			t.Errorf("%s is %v, want %v", v.Name, tensor.Of[float32](got), want)
		}
		got.Release()
	}
}

// TestConverges fits a line to points on it, with and without adaptive sampling. It checks that all points are drawn eventually, and that
// the weights approach those that the points were made from.
func TestConverges(t *testing.T) {
	for _, adaptive := range []bool{false, true} {
		d := kt.NewDevice(t)
		op := kt.Op{Type: "SdcaOptimizerV2", Outputs: 2, Attrs: kt.Attrs{"loss_type": "squared_loss", "adaptive": adaptive, "num_sparse_features": 0,
			"num_sparse_features_with_values": 0, "num_dense_features": 1, "l1": float32(0), "l2": float32(0.01), "num_loss_partitions": 1, "num_inner_iterations": 1}}
		const n = 20
		points, labels, ones := make([]float32, 0, 2*n), make([]float32, n), make([]float32, n)
		for i := range n {
			x := float32(i)/n - 0.5
			points = append(points, x, 1)
			labels[i], ones[i] = 3*x-1, 1
		}
		weights, state := []float32{0, 0}, make([]float32, 4*n)
		for range 200 {
			out := d.Run(t, op, kt.F32(kt.S(n, 2), points...), kt.F32(kt.S(n), ones...), kt.F32(kt.S(n), labels...), kt.F32(kt.S(2), weights...), kt.F32(kt.S(n, 4), state...))
			state = slices.Clone(tensor.Of[float32](out[0].Tensor))
			for i, v := range tensor.Of[float32](out[1].Tensor) {
				weights[i] += v
			}
			out[0].Release()
			out[1].Release()
		}
		if math.Abs(float64(weights[0]-3)) > 0.05 || math.Abs(float64(weights[1]+1)) > 0.05 {
			t.Errorf("adaptive %v: the weights are %v, want about [3 -1]", adaptive, weights)
		}
	}
}
