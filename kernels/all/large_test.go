package all_test

import (
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/kernels"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// goOnAfterStep are ops that may compute for longer after their step has ended, with the reason.
var goOnAfterStep = map[string]string{
	"Apply":   "an update of a variable is finished: a variable of which a part was updated would be of two steps",
	"Softmax": "a row is computed in one piece, of which sixteen million elements take a quarter of a second",
}

// unrecorded are small inputs of ops without goldens, as these have them. An input that the op updates is the value of a variable.
func unrecorded() (list []golden) {
	add := func(op string, attrs kt.Attrs, inputs ...*tensor.Tensor) {
		list = append(list, golden{node: &nodepb.NodeDef{Op: op, Attr: attrs.Proto()}, inputs: inputs})
	}
	matrix, ids, numbers := kt.F32(kt.S(3, 2), 1, 2, 3, 4, 5, 6), kt.I32(kt.S(3), 0, 2, 1), kt.I32(kt.S(3), 1, 2, 3)
	add("TensorScatterAdd", nil, matrix, kt.I32(kt.S(3, 1), 0, 2, 1), matrix)
	add("Where", nil, matrix)
	add("ListDiff", nil, numbers, ids)
	add("ConcatV2", nil, matrix, matrix, kt.I32(nil, 0))
	add("ConcatV2", nil, matrix, matrix, kt.I32(nil, 1))
	add("Pack", nil, numbers, numbers)
	add("Diag", nil, numbers)
	add("Tile", nil, matrix, kt.I32(kt.S(2), 1, 2))
	add("ScalarSummary", nil, kt.Str(kt.S(2), "a", "b"), kt.F32(kt.S(2), 1, 2))
	add("TensorSummary", nil, kt.Str(kt.S(2), "a", "b"))
	add("HistogramSummary", nil, kt.Str(nil, "a"), numbers)
	add("DecodeCSV", kt.Attrs{"OUT_TYPE": []tensor.DType{tensor.Float32, tensor.String}}, kt.Str(kt.S(2), "1,x", "2,y"), kt.F32(kt.S(1), 0), kt.Str(kt.S(1), ""))
	add("ParseExample", kt.Attrs{"Nsparse": 2, "Ndense": 0, "sparse_types": []tensor.DType{tensor.Float32, tensor.Int64}, "Tdense": []tensor.DType{}, "dense_shapes": []tensor.Shape{}},
		kt.Str(kt.S(2), "", ""), kt.Str(kt.S(0)), kt.Str(nil, "a"), kt.Str(nil, "b"))
	add("RaggedRange", nil, ids, numbers, kt.I32(kt.S(3), 1, 1, 1))
	add("RaggedTensorToVariant", kt.Attrs{"RAGGED_RANK": 0, "batched_input": true, "Tvalues": tensor.Float32}, matrix)
	return list
}

// slow are inputs with which kernels took from half a second to a minute, and did not end with their steps.
func slow(t *testing.T) (list []golden) {
	t.Helper()
	sized := func(v *tensor.Tensor, shape ...int64) *tensor.Tensor { return repeated(v, shape) }
	add := func(op string, attrs kt.Attrs, inputs ...*tensor.Tensor) {
		list = append(list, golden{node: &nodepb.NodeDef{Op: op, Attr: attrs.Proto()}, inputs: inputs})
	}
	one, zero, text := kt.F32(nil, 1), kt.I32(nil, 0), kt.Str(nil, "")
	const m = 1 << 20
	add("InplaceAdd", nil, sized(one, 16*m), sized(zero, 16*m), sized(one, 16*m))
	add("UnravelIndex", nil, zero, sized(kt.I32(nil, 2), 4*m))
	add("RaggedTensorToVariant", kt.Attrs{"RAGGED_RANK": 0, "batched_input": true, "Tvalues": tensor.Float32}, sized(one, 4*m, 1))
	add("SparseSegmentSumGradV2", nil, sized(one, 2, m), sized(zero, 4096), sized(zero, 4096), kt.I32(nil, 1))
	add("SparseSegmentSum", nil, sized(one, 2, m), sized(zero, 65536), sized(zero, 65536))
	add("ParseExample", kt.Attrs{"Nsparse": 1, "Ndense": 0, "sparse_types": []tensor.DType{tensor.Int64}, "Tdense": []tensor.DType{}, "dense_shapes": []tensor.Shape{}},
		sized(text, m), kt.Str(kt.S(0)), kt.Str(nil, "a"))
	add("Where", nil, sized(one, 1, 16*m))
	add("ListDiff", nil, sized(zero, 65536), sized(kt.I32(kt.S(3), 1, 2, 3), 8*m))
	add("UnicodeScript", nil, sized(kt.I32(kt.S(4), 64, 0x3b1, 0x4e00, 0x10ffff), 8*m))
	add("DecodeCSV", kt.Attrs{"OUT_TYPE": []tensor.DType{tensor.Float32}}, sized(kt.Str(nil, "1.25"), m), kt.F32(kt.S(1), 0))
	add("ScalarSummary", nil, sized(text, m), sized(one, m))
	add("TensorSummary", nil, sized(text, 2*m))
	add("RandomIndexShuffle", kt.Attrs{"rounds": 65536}, sized(zero, 3), kt.I32(kt.S(3), 1, 2, 3), kt.I32(nil, 5))
	return list
}

// TestLargeKernelsEndWithTheirSteps is like TestKernelsEndWithTheirSteps, with several sizes and attributes of a record enlarged at once, at
// random, and with the ops that have no goldens.
func TestLargeKernelsEndWithTheirSteps(t *testing.T) {
	kt.CPUOnly(t) // the CPU's kernels check for the step's end themselves
	all := extent.Check() && !extent.RaceDetector
	rounds := 2
	if extent.Full() {
		rounds = 10
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 30)) // the inputs are garbage soon
	seen, ran := map[string]bool{}, 0
	try := func(g golden, rounds int) {
		rng := rand.New(rand.NewPCG(uint64(crc32.ChecksumIEEE([]byte(g.node.Op))), 3))
		for range rounds {
			attrs, inputs, ok := g.larger(t, rng)
			if !ok {
				continue
			}
			ran++
			if late, limit := lateness(t, g.node.Op, attrs, inputs); late > limit {
				t.Errorf("%s of %s goes on for %v after its step has ended\n%v", g.node.Op, shapesOf(inputs), late, attrs)
			}
			kernels.ReleaseTensors(inputs)
		}
	}
	for _, g := range goldens(t) {
		key := g.form()
		if g.code != status.OK || seen[key] || mayGoOn(g.node.Op) || !all && crc32.ChecksumIEEE([]byte(g.node.Op))%16 != 3 {
			continue
		}
		seen[key] = true
		try(g, rounds)
	}
	for _, g := range slow(t) {
		if late, limit := lateness(t, g.node.Op, g.node.Attr, g.inputs); late > limit {
			t.Errorf("%s of %s goes on for %v after its step has ended", g.node.Op, shapesOf(g.inputs), late)
		}
	}
	for _, g := range unrecorded() {
		try(g, 4*rounds)
	}
	if ran < 80 || all && ran < 600 {
		t.Errorf("only %d shapes were tried", ran)
	}
}

func mayGoOn(op string) bool {
	for name := range maps.Keys(goOnAfterStep) {
		if strings.Contains(op, name) {
			return true
		}
	}
	return false
}

// largeSizes replace sizes, elements and attributes of records.
var largeSizes = []int64{2, 3, 64, 1000, 4096, 1 << 16, 1 << 20, 1 << 22}

// larger returns attributes and inputs like those of a record, with several sizes enlarged; ok is false if they would be too large.
func (g golden) larger(t *testing.T, rng *rand.Rand) (attrs graph.Attrs, inputs []*tensor.Tensor, ok bool) {
	t.Helper()
	sizes := map[int64]int64{}
	changed := func(d int64, keep bool) int64 {
		n, known := sizes[d]
		if !known {
			if n = d; !keep {
				n = largeSizes[rng.IntN(len(largeSizes))]
			}
			sizes[d] = n
		}
		return n
	}
	most, kept := int64(1)<<(20+rng.IntN(4)), rng.IntN(3)
	for _, in := range g.inputs {
		shape := in.Shape().Clone()
		for axis, d := range shape {
			shape[axis] = changed(d, rng.IntN(3) < kept)
		}
		if n, err := shape.NumElements(); err != nil || n > most || in.DType() == tensor.String && n > 1<<20 {
			kernels.ReleaseTensors(inputs)
			return nil, nil, false
		}
		v := repeated(in, shape)
		inputs = append(inputs, v)
		if v.Len() > 8 || rng.IntN(2) == 0 {
			continue
		}
		for i := range v.Len() { // elements may be sizes, too
			switch v.DType() {
			case tensor.Int32:
				e := &tensor.Of[int32](v)[i]
				*e = int32(changed(int64(*e), rng.IntN(3) > 0))
			case tensor.Int64:
				e := &tensor.Of[int64](v)[i]
				*e = changed(*e, rng.IntN(3) > 0)
			}
		}
	}
	attrs = maps.Clone(graph.Attrs(g.node.Attr))
	def, err := graph.LookupOp(g.node.Op)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		counts := func(arg *oppb.OpDef_ArgDef) bool { return arg.NumberAttr == name }
		if attrs[name].GetI() <= 0 || slices.ContainsFunc(def.InputArg, counts) || slices.ContainsFunc(def.OutputArg, counts) || rng.IntN(3) > 0 {
			continue
		}
		attrs[name] = &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: largeSizes[rng.IntN(7)]}}
	}
	return attrs, inputs, true
}
