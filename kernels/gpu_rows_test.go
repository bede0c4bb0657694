package kernels

import (
	"slices"
	"testing"

	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
)

// TestGPURowsAreWellFormed: rows name arguments that their op has, and no two rows
// serve the same types, of which only one could ever run.
func TestGPURowsAreWellFormed(t *testing.T) {
	for _, op := range Ops() {
		rows := registry[op]["GPU"]
		def, err := graph.LookupOp(op)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range rows {
			for _, name := range r.HostInputs {
				if !hasArg(def.InputArg, name) {
					t.Errorf("%s has no input %s", op, name)
				}
			}
			for _, name := range r.HostOutputs {
				if !hasArg(def.OutputArg, name) {
					t.Errorf("%s has no output %s", op, name)
				}
			}
			for _, other := range rows[:i] {
				if overlap(r, other) {
					t.Errorf("%s has two GPU rows for the same types: %v and %v", op, r.Types, other.Types)
				}
			}
		}
	}
}

func hasArg(args []*oppb.OpDef_ArgDef, name string) bool {
	return name == everything || slices.ContainsFunc(args, func(a *oppb.OpDef_ArgDef) bool { return a.Name == name })
}

// overlap tells whether some types are served by both rows.
func overlap(a, b *Def) bool {
	for attr, list := range a.Types {
		if other, ok := b.Types[attr]; ok && !slices.ContainsFunc(list, func(d tensor.DType) bool { return slices.Contains(other, d) }) {
			return false
		}
	}
	return true
}

// TestSharedRows: what is said to be shared is, whatever the order of registration, and for the
// types of both.
func TestSharedRows(t *testing.T) {
	for op := range shared {
		if len(registry[op]["GPU"]) == 0 {
			t.Errorf("%s leads to no row", op)
		}
	}
	types := func(list ...tensor.DType) map[string][]tensor.DType { return map[string][]tensor.DType{"T": list} }
	before, after := Def{Op: "test before", Types: types(tensor.Int8, tensor.Int32), UninitializedOK: true}, Def{Op: "test after"}
	t.Cleanup(func() {
		for _, op := range []string{before.Op, after.Op} {
			delete(registry, op)
			delete(shared, op)
		}
	})
	Register(before)
	onHost("T", []tensor.DType{tensor.Int32, tensor.Int64}, before.Op, after.Op)
	Register(after, Def{Op: after.Op, Types: types(tensor.Float32)})
	for op, want := range map[string][]tensor.DType{before.Op: {tensor.Int32}, after.Op: {tensor.Int32, tensor.Int64}} {
		rows := registry[op]["GPU"]
		if len(rows) != 1 || !slices.Equal(rows[0].Types["T"], want) || rows[0].HostInputs[0] != everything || rows[0].HostOutputs[0] != everything {
			t.Errorf("%s: got rows %v, want one for %v", op, rows, want)
		}
	}
	if !registry[before.Op]["GPU"][0].UninitializedOK {
		t.Error("a row lost what its CPU row says")
	}
}
