package all_test

import (
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

func TestMovesOnAcceleratorLikeCPU(t *testing.T) {
	var cases []like
	add := func(op string, attrs kt.Attrs, inputs ...*tensor.Tensor) {
		cases = append(cases, like{op: op, attrs: attrs, inputs: inputs})
	}
	for _, d := range sized {
		// Tiles, whole and partial, in batches and with loops between.
		add("Transpose", nil, quarters(d, 70, 45), axes(1, 0))
		add("Transpose", nil, quarters(d, 3, 33, 64), axes(0, 2, 1))
		add("Transpose", nil, quarters(d, 20, 3, 35), axes(2, 1, 0))
		add("Transpose", nil, quarters(d, 5, 4, 3, 7), axes(3, 1, 0, 2))
		add("Pad", nil, quarters(d, 9, 33), kt.I32(kt.S(2, 2), 1, 2, 3, 0))
		add("MirrorPad", kt.Attrs{"mode": "REFLECT"}, quarters(d, 9, 33), kt.I32(kt.S(2, 2), 3, 2, 4, 5))
		add("ConcatV2", nil, quarters(d, 5, 3), quarters(d, 5, 0), quarters(d, 5, 70), quarters(d, 5, 1), int1(1))
		add("ConcatV2", nil, quarters(d, 2, 16), quarters(d, 2, 32), quarters(d, 2, 48), int1(1))
		add("Slice", nil, quarters(d, 20, 33), axes(1, 2), axes(18, 30))
		add("StridedSlice", nil, quarters(d, 40, 33), axes(35, 30), axes(2, 1), axes(-3, -2))
		add("GatherV2", nil, quarters(d, 20, 8), indices(20, false, 50), int1(0))
		add("GatherV2", kt.Attrs{"batch_dims": 1}, quarters(d, 4, 3, 20, 5), indices(20, false, 4, 6), int1(2))
		add("GatherNd", nil, quarters(d, 7, 9, 4), indices(7, false, 90, 2))
		add("OneHot", nil, indices(40, true, 30), int1(40), quarters(d), quarters(d))
		add("OneHot", kt.Attrs{"axis": 0}, indices(4, true, 30, 5), int1(4), quarters(d), quarters(d))
		add("Tile", nil, quarters(d, 3, 40), axes(5, 2))
		add("Roll", nil, quarters(d, 7, 40, 3), axes(3, -17), axes(0, 1))
		add("ReverseSequence", kt.Attrs{"seq_dim": 2}, quarters(d, 3, 5, 30, 2), kt.I64(kt.S(3), 30, 0, 17))
		add("MatrixBandPart", nil, quarters(d, 2, 30, 25), int1(3), int1(-1))
		add("SpaceToBatchND", nil, quarters(d, 2, 9, 14, 5), axes(3, 2), kt.I32(kt.S(2, 2), 2, 1, 1, 1))
		add("BatchToSpaceND", nil, quarters(d, 12, 5, 8, 4), axes(3, 2), kt.I32(kt.S(2, 2), 2, 1, 1, 1))
		add("DynamicStitch", nil, axes(1, 5, 3, 1), axes(0, 2, 4, 1), quarters(d, 4, 70), quarters(d, 4, 70))
		add("DynamicPartition", kt.Attrs{"num_partitions": 3}, quarters(d, 6, 50), axes(2, 0, 2, 2, 0, 2))
		add("TensorScatterUpdate", nil, quarters(d, 9, 40), kt.I32(kt.S(3, 1), 8, 0, 4), quarters(d, 3, 40))
	}
	add("Concat", nil, int1(0), axes(1, 2), axes(3, 4)) // integers that describe shapes stay in host memory
	add("SplitV", kt.Attrs{"num_split": 2}, axes(1, 2, 3), axes(1, 2), int1(0))
	add("Reverse", nil, axes(1, 2, 3), kt.Bool(kt.S(1), true))
	many := []*tensor.Tensor{}
	for i := range int64(40) {
		many = append(many, quarters(tensor.Float32, 3, i%4))
	}
	add("ConcatV2", nil, append(many, int1(1))...)
	many = many[:0]
	for range 37 {
		many = append(many, quarters(tensor.Float32, 3, 2))
	}
	add("Pack", kt.Attrs{"axis": 1}, many...)
	deep := quarters(tensor.Float32, 2, 2, 2, 2, 2, 2, 2, 2, 2)
	add("Tile", nil, deep, axes(2, 1, 2, 1, 2, 1, 2, 1, 2))
	add("Tile", nil, deep, axes(2, 2, 2, 2, 2, 2, 2, 2, 2))
	likeCPU(t, cases...)
}

// For images with channels first, TensorFlow has kernels only for GPUs: their results follow from those for channels last, between
// transpositions.
func TestDepthAndSpaceWithChannelsFirst(t *testing.T) {
	if kt.Accelerate == nil {
		t.Skip("there is no accelerator")
	}
	first, last := axes(0, 3, 1, 2), axes(0, 2, 3, 1)
	for op, in := range map[string]*tensor.Tensor{"SpaceToDepth": quarters(tensor.Float32, 2, 6, 9, 5), "DepthToSpace": quarters(tensor.Float32, 2, 2, 3, 18)} {
		d := kt.NewDevice(t)
		run := func(op string, attrs kt.Attrs, inputs ...any) *tensor.Tensor {
			return d.Run(t, kt.Op{Type: op, Attrs: attrs}, inputs...)[0].Tensor
		}
		want := run("Transpose", nil, run(op, kt.Attrs{"block_size": 3}, in.Retain()), first.Retain())
		got := run(op, kt.Attrs{"block_size": 3, "data_format": "NCHW"}, run("Transpose", nil, in, first.Retain()))
		if diff := kt.Diff(got, want, 0); diff != "" {
			t.Errorf("%s: %s", op, diff)
		}
		if back := run("Transpose", nil, got, last.Retain()); back.Dim(0) != 2 {
			t.Errorf("%s: shape %v", op, back.Shape())
		} else {
			back.Release()
		}
		want.Release()
	}
}

// An accelerator does not check indices: reading one that is out of bounds yields zeros, and updating one is skipped.
func TestIndicesOutsideOnAccelerator(t *testing.T) {
	if kt.Accelerate == nil {
		t.Skip("there is no accelerator")
	}
	params := kt.F32(kt.S(3, 2), 1, 2, 3, 4, 5, 6)
	kt.Check(t,
		kt.Case{Op: "GatherV2", Inputs: []any{params, kt.I32(kt.S(3), 2, 3, -1), int1(0)}, Want: out(kt.F32(kt.S(3, 2), 5, 6, 0, 0, 0, 0))},
		kt.Case{Op: "GatherV2", Inputs: []any{kt.F32(kt.S(0, 2)), kt.I32(kt.S(1), 0), int1(0)}, Want: out(kt.F32(kt.S(1, 2), 0, 0))},
		kt.Case{Op: "GatherNd", Inputs: []any{params, kt.I64(kt.S(2, 2), 1, 1, 1, 2)}, Want: out(kt.F32(kt.S(2), 4, 0))},
		kt.Case{Op: "ScatterNd", Inputs: []any{kt.I64(kt.S(3, 1), 1, -1, 4), kt.F32(kt.S(3), 7, 8, 9), kt.I64(kt.S(1), 4)}, Want: out(kt.F32(kt.S(4), 0, 7, 0, 0))},
		kt.Case{Op: "TensorScatterAdd", Inputs: []any{params, kt.I32(kt.S(2, 1), 3, 1), kt.F32(kt.S(2, 2), 1, 1, 10, 10)}, Want: out(kt.F32(kt.S(3, 2), 1, 2, 13, 14, 5, 6))},
		kt.Case{Op: "UnsortedSegmentSum", Inputs: []any{params, kt.I32(kt.S(3), 1, 2, -1), int1(2)}, Want: out(kt.F32(kt.S(2, 2), 0, 0, 1, 2))},
		kt.Case{Op: "ReverseSequence", Attrs: kt.Attrs{"seq_dim": 1}, Inputs: []any{params, kt.I64(kt.S(3), 2, 3, -1)}, Want: out(kt.F32(kt.S(3, 2), 2, 1, 3, 4, 5, 6))},
	)
}
