package gradients

import (
	_ "embed"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/grad"
	"github.com/troupe-run/troupe/kernels"
	_ "github.com/troupe-run/troupe/kernels/all"
)

// registered lists the ops for which TensorFlow 2.21's Python registers a gradient, one per line.
//
//go:embed testdata/registered.txt
var registered string

// without lists those that have a kernel but no gradient here, by the reason.
var without = map[string]string{
	"the gradient is always zero or none":                         "ArgMax ArgMin Ceil Floor FloorDiv Rint Round Sign TruncateDiv",
	"parts of TensorFlow 1's loops and conditionals":              "Enter Exit LoopCond Merge NextIteration RefEnter RefExit RefMerge RefNextIteration RefSwitch Switch",
	"removed from TensorFlow's graphs, or part of its eager mode": "BatchNormWithGlobalNormalization QuantizeAndDequantize TopK _EagerConst",
	"older versions of ops on arrays of tensors": "TensorArrayConcat TensorArrayConcatV2 TensorArrayGather TensorArrayGatherV2 TensorArrayRead TensorArrayReadV2 " +
		"TensorArrayScatter TensorArrayScatterV2 TensorArraySplit TensorArraySplitV2 TensorArrayWrite TensorArrayWriteV2",
	"TensorFlow's refuses":            "SparseDenseCwiseAdd SparseSparseMaximum SparseSparseMinimum",
	"a function of a program":         "EagerPyFunc",
	"nothing is trained through them": "CompositeTensorVariantFromComponents CompositeTensorVariantToComponents TensorMapErase TensorMapInsert TensorMapLookup",
}

// TestRegistered checks that every op with a kernel here and a gradient in TensorFlow has a gradient, or a reason.
func TestRegistered(t *testing.T) {
	ops, have, names := kernels.Ops(), grad.Ops(), strings.Fields(registered)
	if len(names) < 300 {
		t.Fatalf("only %d ops are in the list", len(names))
	}
	reasons := map[string]string{}
	for reason, list := range without {
		for _, name := range strings.Fields(list) {
			reasons[name] = reason
		}
	}
	for _, name := range names {
		_, excused := reasons[name]
		runs, differentiated := slices.Contains(ops, name), slices.Contains(have, name)
		switch {
		case runs && !differentiated && !excused:
			t.Errorf("%s has a kernel, and a gradient in TensorFlow, but none here", name)
		case differentiated && excused:
			t.Errorf("%s has a gradient by now", name)
		}
	}
}
