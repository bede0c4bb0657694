package all_test

import (
	"math"
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

var gpuFloatTypes = []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16}

func TestReductionsOnAcceleratorLikeCPU(t *testing.T) {
	var cases []like
	tolerance := map[tensor.DType]float64{tensor.Float32: 1e-5, tensor.Float64: 1e-12, tensor.Float16: 2e-3, tensor.BFloat16: 2e-2}
	add := func(op string, attrs kt.Attrs, inputs ...*tensor.Tensor) {
		cases = append(cases, like{op, attrs, inputs, tolerance[inputs[0].DType()]})
	}
	for _, d := range append(gpuFloatTypes, tensor.Int64) {
		for _, op := range []string{"Sum", "Mean", "Max", "Min", "EuclideanNorm", "Prod"} {
			if op == "Prod" && d == tensor.Int64 {
				continue
			}
			add(op, nil, quarters(d, 300), axes(0))
			add(op, kt.Attrs{"keep_dims": true}, quarters(d, 3, 70), axes(1))
			add(op, nil, quarters(d, 70, 3), axes(0))
			add(op, nil, quarters(d, 4, 3, 5, 7), axes(0, 2))
			add(op, nil, quarters(d, 4, 3, 5, 7), axes(-1, 1))
			add(op, nil, quarters(d, 30, 1, 40), axes(1))
			add(op, nil, quarters(d, 2, 0), axes(0))
			if op != "Prod" {
				// Two launches, over rows and over columns.
				add(op, nil, quarters(d, 20000), axes(0))
				add(op, nil, quarters(d, 3, 9000, 2), axes(1))
				add(op, nil, quarters(d, 700, 40), axes(0))
			}
		}
	}
	for _, op := range []string{"Sum", "Prod", "Max", "Min"} {
		add(op, nil, quarters(tensor.Float32, 0, 3), axes(0))
	}
	add("Max", nil, kt.F32(kt.S(2, 3), 1, float32(math.NaN()), 2, 4, 5, 6), axes(1))
	for _, op := range []string{"All", "Any"} {
		add(op, nil, quarters(tensor.Bool, 40, 30), axes(1))
		add(op, nil, quarters(tensor.Bool, 9000), axes(0))
	}
	for _, d := range gpuFloatTypes {
		add("L2Loss", nil, quarters(d, 9000))
		add("L2Loss", nil, quarters(d, 0))
		for _, attrs := range []kt.Attrs{nil, {"exclusive": true}, {"reverse": true}, {"exclusive": true, "reverse": true}} {
			add("Cumsum", attrs, quarters(d, 3, 600), int1(1))
			add("Cumsum", attrs, quarters(d, 40, 5), int1(0))
			add("Cumsum", attrs, quarters(d, 20, 30), int1(1))
		}
		add("Cumprod", nil, quarters(d, 3, 40), int1(0))
		add("Cumprod", nil, quarters(d, 3, 40), int1(1))
	}
	for _, d := range append(gpuFloatTypes, tensor.Int32, tensor.Int64, tensor.Uint8, tensor.Bool) {
		for _, op := range []string{"ArgMax", "ArgMin"} {
			add(op, nil, quarters(d, 3, 600), int1(1))
			add(op, kt.Attrs{"output_type": tensor.Int32}, quarters(d, 90, 40), int1(0))
			add(op, nil, quarters(d, 7, 5, 3), int1(1))
		}
	}
	nan, inf := math.NaN(), math.Inf(1)
	for _, op := range []string{"ArgMax", "ArgMin"} {
		add(op, nil, kt.F64(kt.S(4, 3), nan, 1, 2, nan, nan, nan, -inf, nan, -inf, inf, inf, nan), int1(1))
	}
	likeCPU(t, cases...)
}

func TestRowsOnAcceleratorLikeCPU(t *testing.T) {
	var cases []like
	tolerance := map[tensor.DType]float64{tensor.Float32: 1e-5, tensor.Float64: 1e-12, tensor.Float16: 2e-3, tensor.BFloat16: 2e-2}
	add := func(op string, attrs kt.Attrs, inputs ...*tensor.Tensor) {
		cases = append(cases, like{op, attrs, inputs, tolerance[inputs[0].DType()]})
	}
	for _, d := range gpuFloatTypes {
		for _, columns := range []int64{1, 2, 5, 33, 64, 1500} {
			add("Softmax", nil, quarters(d, 20, columns))
			add("LogSoftmax", nil, quarters(d, 3, columns))
			add("SoftmaxCrossEntropyWithLogits", nil, quarters(d, 5, columns), quarters(d, 5, columns))
			add("SoftmaxCrossEntropyWithLogits", nil, quarters(d, 5, 1), quarters(d, 1, columns))
			add("SoftmaxCrossEntropyWithLogits", nil, quarters(d, 1, columns), quarters(d, 5, columns))
			add("SparseSoftmaxCrossEntropyWithLogits", nil, quarters(d, 9, columns), indices(columns, false, 9))
		}
		add("LogSoftmax", nil, quarters(d, 2, 3, 4))
	}
	for _, d := range append(gpuFloatTypes, tensor.Int32, tensor.Int64) {
		for _, k := range []int32{0, 3, 40} { // one after the other, and by rank
			add("TopKV2", nil, quarters(d, 3, 70), int1(k))
		}
		add("TopK", kt.Attrs{"k": 9}, quarters(d, 2, 2, 9))
	}
	nan := float32(math.NaN())
	for _, k := range []int32{2, 8} {
		add("TopKV2", kt.Attrs{"index_type": tensor.Int64}, kt.F32(kt.S(1, 9), 1, nan, 3, nan, 3, -1, 0, 3, -5), int1(k))
	}
	for _, columns := range []int64{10, 1500} {
		add("InTopKV2", nil, quarters(tensor.Float32, 20, columns), indices(columns, true, 20), kt.I64(nil, 3))
	}
	for _, d := range append(gpuFloatTypes, tensor.Int32, tensor.Int64) {
		for _, op := range []string{"Sum", "Prod", "Min", "Max"} {
			ids := kt.I32(kt.S(5), 0, 0, 2, 2, 3)
			add("Segment"+op, nil, quarters(d, 5, 70), ids)
			add("UnsortedSegment"+op, nil, quarters(d, 5, 2, 70), kt.I32(kt.S(5, 2), 0, 5, 0, 5, 2, -1, 2, 2, 1, 1), int1(7))
		}
		add("SegmentMean", nil, quarters(d, 5, 70), kt.I32(kt.S(5), 0, 0, 2, 2, 3))
	}
	likeCPU(t, cases...)
}

// An invalid label yields NaN on an accelerator, where labels are not checked beforehand.
func TestLabelsOutsideOnAccelerator(t *testing.T) {
	if kt.Accelerate == nil {
		t.Skip("there is no accelerator")
	}
	nan := float32(math.NaN())
	third, ln3 := float32(1.0/3), float32(math.Log(3))
	kt.Check(t, kt.Case{Op: "SparseSoftmaxCrossEntropyWithLogits", Tolerance: 1e-6,
		Inputs: []any{kt.F32(kt.S(3, 3), 1, 1, 1, 1, 1, 1, 1, 1, 1), kt.I64(kt.S(3), 3, 1, -1)},
		Want:   out(kt.F32(kt.S(3), nan, ln3, nan), kt.F32(kt.S(3, 3), nan, nan, nan, third, third-1, third, nan, nan, nan))})
}
