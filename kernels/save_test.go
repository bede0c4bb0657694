package kernels_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

func TestSaveAndRestore(t *testing.T) {
	d := kt.NewDevice(t)
	dir := t.TempDir()
	prefix := func(name string) *tensor.Tensor { return kt.Str(nil, filepath.Join(dir, name)) }
	x, s := kt.Iota[float32](tensor.Float32, kt.S(4, 6)), kt.Str(kt.S(2), "", "héllo")
	vec := func(v ...string) *tensor.Tensor { return kt.Str(kt.S(int64(len(v))), v...) }
	restore := func(types ...tensor.DType) kt.Op {
		return kt.Op{Type: "RestoreV2", Attrs: kt.Attrs{"dtypes": types}}
	}
	f32 := tensor.Float32
	d.Run(t, kt.Op{Type: "SaveV2"}, prefix("a"), vec("x", "s"), vec("", ""), x.Retain(), s.Retain())
	expect(t, d.Run(t, restore(tensor.String, f32), prefix("a"), vec("s", "x"), vec("", "")), s, x)
	expect(t, d.Run(t, restore(f32), prefix("a"), vec("x"), vec("4 6 1,2:3,2")), kt.F32(kt.S(2, 2), 9, 10, 15, 16))
	fails(t, d, status.NotFound, "Key y not found in checkpoint", restore(f32), prefix("a"), vec("y"), vec(""))
	fails(t, d, status.NotFound, "Failed to find any matching files for", restore(f32), prefix("b"), vec("y"), vec(""))
	fails(t, d, status.InvalidArgument, "expected dtype int32 does not equal original dtype float", restore(tensor.Int32), prefix("a"), vec("x"), vec(""))
	fails(t, d, status.InvalidArgument, "does not match the shape stored", restore(f32), prefix("a"), vec("x"), vec("4 7 0,1:0,1"))

	// Two parts of one variable, saved by two tasks and merged.
	d.Run(t, kt.Op{Type: "SaveV2"}, prefix("tmp/p0"), vec("v"), vec("4 6 0,2:-"), kt.Iota[float32](f32, kt.S(2, 6)))
	d.Run(t, kt.Op{Type: "SaveV2"}, prefix("tmp/p1"), vec("v", "w"), vec("4 6 2,2:0,6", ""), kt.Iota[float32](f32, kt.S(2, 6)), s.Retain())
	d.Run(t, kt.Op{Type: "MergeV2Checkpoints", Attrs: kt.Attrs{"delete_old_dirs": true}}, vec(filepath.Join(dir, "tmp/p0"), filepath.Join(dir, "tmp/p1")), prefix("m"))
	if _, err := os.Stat(filepath.Join(dir, "tmp")); !os.IsNotExist(err) {
		t.Errorf("the folder of the parts is there still: %v", err)
	}
	expect(t, d.Run(t, restore(f32), prefix("m"), vec("v"), vec("4 6 1,2:4,2")), kt.F32(kt.S(2, 2), 10, 11, 4, 5))
	expect(t, d.Run(t, restore(f32), prefix("m"), vec("v"), vec("4 6 2,2:0,6")), kt.Iota[float32](f32, kt.S(2, 6)))
	expect(t, d.Run(t, restore(tensor.String), prefix("m"), vec("w"), vec("")), s)

	// Damage is noticed.
	data := filepath.Join(dir, "a.data-00000-of-00001")
	b, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	b[5]++
	if err := os.WriteFile(data, b, 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, d, status.DataLoss, "Checksum does not match", restore(f32), prefix("a"), vec("x"), vec(""))
	index := filepath.Join(dir, "m.index")
	whole, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if err := os.WriteFile(index, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		fails(t, d, status.DataLoss, "", restore(f32), prefix("m"), vec("v"), vec(""))
	}
}
