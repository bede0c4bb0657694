package kernels

import (
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
)

// TestSharedRows checks that declared rows are shared, regardless of their order in the table, for the types of both.
func TestSharedRows(t *testing.T) {
	types := func(list ...tensor.DType) map[string][]tensor.DType { return map[string][]tensor.DType{"T": list} }
	before, after := Def{Op: "test before", Types: types(tensor.Int8, tensor.Int32), UninitializedOK: true}, Def{Op: "test after"}
	forget(t, before.Op, after.Op)
	table := &Table{}
	table.Add(before)
	table.OnHost("T", []tensor.DType{tensor.Int32, tensor.Int64}, before.Op, after.Op)
	table.Add(after, Def{Op: after.Op, Types: types(tensor.Float32)})
	Register(table)
	for op, want := range map[string][]tensor.DType{before.Op: {tensor.Int32}, after.Op: {tensor.Int32, tensor.Int64}} {
		rows := Rows(op, "GPU")
		if len(rows) != 1 || !slices.Equal(rows[0].Types["T"], want) || rows[0].HostInputs[0] != Everything || rows[0].HostOutputs[0] != Everything {
			t.Errorf("%s: got rows %v, want one for %v", op, rows, want)
		}
	}
	if !Rows(before.Op, "GPU")[0].UninitializedOK {
		t.Error("a row lost what its CPU row says")
	}
}

// TestSharingNeedsRows checks that sharing rows that do not exist panics.
func TestSharingNeedsRows(t *testing.T) {
	forget(t, "test nothing")
	defer func() {
		if text, ok := recover().(string); !ok || !strings.Contains(text, "test nothing") {
			t.Errorf("Register panics with %q, which does not name the op", text)
		}
	}()
	table := &Table{}
	table.Share(Sharing{}, "test nothing")
	Register(table)
	t.Error("Register takes a table that shares a row that is not there")
}

// TestNothingRegistered checks the panic of a process that registers no kernels.
func TestNothingRegistered(t *testing.T) {
	defer func() {
		if text, ok := recover().(string); !ok || !strings.Contains(text, "kernels/all") {
			t.Errorf("Ops panics with %q, which does not name the package to import", text)
		}
	}()
	Ops()
	t.Error("Ops answers without any kernels")
}

// forget removes rows from the registry when the test ends.
func forget(t *testing.T, ops ...string) {
	t.Cleanup(func() {
		for _, op := range ops {
			delete(registry, op)
		}
	})
}
