package save_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	_ "github.com/troupe-run/troupe/kernels/all"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

func TestSaveAndRestore(t *testing.T) {
	d := kt.NewDevice(t)
	dir := t.TempDir()
	prefix := func(name string) *tensor.Tensor { return kt.Str(nil, filepath.Join(dir, name)) }
	x, s := kt.Iota[float32](tensor.Float32, kt.S(4, 6)), kt.Str(kt.S(2), "", "héllo")
	restore := func(types ...tensor.DType) kt.Op {
		return kt.Op{Type: "RestoreV2", Attrs: kt.Attrs{"dtypes": types}}
	}
	f32 := tensor.Float32
	d.Run(t, kt.Op{Type: "SaveV2"}, prefix("a"), vec("x", "s"), vec("", ""), x.Retain(), s.Retain())
	kt.Expect(t, d.Run(t, restore(tensor.String, f32), prefix("a"), vec("s", "x"), vec("", "")), s, x)
	kt.Expect(t, d.Run(t, restore(f32), prefix("a"), vec("x"), vec("4 6 1,2:3,2")), kt.F32(kt.S(2, 2), 9, 10, 15, 16))
	kt.Fails(t, d, status.NotFound, "Key y not found in checkpoint", restore(f32), prefix("a"), vec("y"), vec(""))
	kt.Fails(t, d, status.NotFound, "Failed to find any matching files for", restore(f32), prefix("b"), vec("y"), vec(""))
	kt.Fails(t, d, status.InvalidArgument, "expected dtype int32 does not equal original dtype float", restore(tensor.Int32), prefix("a"), vec("x"), vec(""))
	kt.Fails(t, d, status.InvalidArgument, "does not match the shape stored", restore(f32), prefix("a"), vec("x"), vec("4 7 0,1:0,1"))

	// Two parts of one variable, saved by two tasks and merged.
	d.Run(t, kt.Op{Type: "SaveV2"}, prefix("tmp/p0"), vec("v"), vec("4 6 0,2:-"), kt.Iota[float32](f32, kt.S(2, 6)))
	d.Run(t, kt.Op{Type: "SaveV2"}, prefix("tmp/p1"), vec("v", "w"), vec("4 6 2,2:0,6", ""), kt.Iota[float32](f32, kt.S(2, 6)), s.Retain())
	d.Run(t, kt.Op{Type: "MergeV2Checkpoints", Attrs: kt.Attrs{"delete_old_dirs": true}}, vec(filepath.Join(dir, "tmp/p0"), filepath.Join(dir, "tmp/p1")), prefix("m"))
	if _, err := os.Stat(filepath.Join(dir, "tmp")); !os.IsNotExist(err) {
		t.Errorf("the folder of the parts is there still: %v", err)
	}
	kt.Expect(t, d.Run(t, restore(f32), prefix("m"), vec("v"), vec("4 6 1,2:4,2")), kt.F32(kt.S(2, 2), 10, 11, 4, 5))
	kt.Expect(t, d.Run(t, restore(f32), prefix("m"), vec("v"), vec("4 6 2,2:0,6")), kt.Iota[float32](f32, kt.S(2, 6)))
	kt.Expect(t, d.Run(t, restore(tensor.String), prefix("m"), vec("w"), vec("")), s)

	// Corruption is detected.
	data := filepath.Join(dir, "a.data-00000-of-00001")
	b, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	b[5]++
	if err := os.WriteFile(data, b, 0o600); err != nil {
		t.Fatal(err)
	}
	kt.Fails(t, d, status.DataLoss, "Checksum does not match", restore(f32), prefix("a"), vec("x"), vec(""))
	index := filepath.Join(dir, "m.index")
	whole, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if err := os.WriteFile(index, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		kt.Fails(t, d, status.DataLoss, "", restore(f32), prefix("m"), vec("v"), vec(""))
	}
}

func vec(v ...string) *tensor.Tensor { return kt.Str(kt.S(int64(len(v))), v...) }

func TestSaveAndRestoreV1(t *testing.T) {
	d := kt.NewDevice(t)
	dir := t.TempDir()
	path := func(name string) *tensor.Tensor { return kt.Str(nil, filepath.Join(dir, name)) }
	f32 := tensor.Float32
	x, s := kt.Iota[float32](f32, kt.S(4, 6)), kt.Str(kt.S(2), "", "héllo")
	restore := func(dtype tensor.DType) kt.Op { return kt.Op{Type: "Restore", Attrs: kt.Attrs{"dt": dtype}} }
	slice := kt.Op{Type: "RestoreSlice", Attrs: kt.Attrs{"dt": f32, "preferred_shard": 1}}
	d.Run(t, kt.Op{Type: "Save"}, path("a"), vec("x", "s"), x.Retain(), s.Retain())
	kt.Expect(t, d.Run(t, restore(f32), path("a"), kt.Str(nil, "x")), x)
	kt.Expect(t, d.Run(t, restore(tensor.String), path("a"), kt.Str(nil, "s")), s)
	top, bottom := kt.Iota[float32](f32, kt.S(2, 6)), kt.F32(kt.S(2, 6), 9, 9, 9, 9, 9, 9, 8, 8, 8, 8, 8, 8)
	d.Run(t, kt.Op{Type: "SaveSlices"}, path("b-00000-of-00002"), vec("v"), vec("4 6 0,2:-"), top)
	d.Run(t, kt.Op{Type: "SaveSlices"}, path("b-00001-of-00002"), vec("v", "w"), vec("4 6 2,2:-", ""), bottom, x.Retain())
	kt.Expect(t, d.Run(t, slice, path("b-?????-of-00002"), kt.Str(nil, "v"), kt.Str(nil, "4 6 1,2:0,1")), kt.F32(kt.S(2, 1), 6, 9))
	// RestoreV2 reads the old format if there are no files in the new one.
	v2 := kt.Op{Type: "RestoreV2", Attrs: kt.Attrs{"dtypes": []tensor.DType{f32, f32}}}
	kt.Expect(t, d.Run(t, v2, path("b-*"), vec("w", "v"), vec("", "4 6 3,1:-")), x, kt.F32(kt.S(1, 6), 8, 8, 8, 8, 8, 8))

	for _, c := range []struct {
		code   status.Code
		text   string
		op     kt.Op
		inputs []any
	}{
		{status.NotFound, `Tensor name "y" not found in checkpoint files `, restore(f32), []any{path("a"), kt.Str(nil, "y")}},
		{status.NotFound, "Unsuccessful TensorSliceReader constructor: Failed to find any matching files for", restore(f32), []any{path("none"), kt.Str(nil, "y")}},
		{status.InvalidArgument, "Expected to restore a tensor of type int32, got a tensor of type float instead: tensor_name = x", restore(tensor.Int32), []any{path("a"), kt.Str(nil, "x")}},
		{status.InvalidArgument, "does not match the shape in the save file: [4,7], save file shape: [4,6]", slice, []any{path("b-*"), kt.Str(nil, "v"), kt.Str(nil, "4 7 0,1:-")}},
		{status.InvalidArgument, "Error copying slice data", slice, []any{path("b-00000*"), kt.Str(nil, "v"), kt.Str(nil, "4 6 -:-")}},
		{status.Internal, "Overlapping slices: existing slice = 0,2:-, new slice = 0,2:-", restore(f32), []any{path("*-00000*"), kt.Str(nil, "v")}},
		{status.Internal, "Mismatching types: existing type = float, trying to add name x, type = string", kt.Op{Type: "Save"}, []any{path("c"), vec("x", "x"), kt.F32(kt.S(2), 1, 2), s.Retain()}},
		{status.InvalidArgument, "Tensor slice serialization not implemented for dtype 23", kt.Op{Type: "Save"}, []any{path("c"), vec("x"), kt.Of(tensor.Uint64, nil, uint64(1))}},
		{status.Unimplemented, "Saving data type bfloat16 not yet supported", kt.Op{Type: "Save"}, []any{path("c"), vec("x"), kt.Of(tensor.BFloat16, nil, uint16(1))}},
		{status.InvalidArgument, "Expected totally 4 inputs as input #1", kt.Op{Type: "Save"}, []any{path("c"), vec("x", "y"), x.Retain()}},
		{status.InvalidArgument, "Need least two elements in shape_and_slice specification: 4", kt.Op{Type: "SaveSlices"}, []any{path("c"), vec("x"), vec("4"), x.Retain()}},
		{status.InvalidArgument, "Expected non-negative start and positive length but got start = 0, length = 0: string = 0,0:-", kt.Op{Type: "SaveSlices"}, []any{path("c"), vec("x"), vec("4 6 0,0:-"), x.Retain()}},
		{status.Internal, "Extent in dimension 0 out of bounds: shape = [4,6], slice = 3,2:-", kt.Op{Type: "SaveSlices"}, []any{path("c"), vec("x"), vec("4 6 3,2:-"), x.Retain()}},
		{status.InvalidArgument, "specification does not match the shape of the tensor to  save: 4 6 0,1:-, tensor: [4,6]", kt.Op{Type: "SaveSlices"}, []any{path("c"), vec("x"), vec("4 6 0,1:-"), x.Retain()}},
		{status.Unimplemented, "File system scheme 'gs' not implemented", restore(f32), []any{kt.Str(nil, "gs://a/b"), kt.Str(nil, "x")}},
	} {
		if c.text[0] == 'O' { // a second file with the same slice
			d.Run(t, kt.Op{Type: "SaveSlices"}, path("d-00000-of-00002"), vec("v"), vec("4 6 0,2:-"), kt.Iota[float32](f32, kt.S(2, 6)))
		}
		kt.Fails(t, d, c.code, c.text, c.op, c.inputs...)
	}
	if err := os.WriteFile(filepath.Join(dir, "text"), []byte("this is no checkpoint, but it is long enough to be one"), 0o600); err != nil {
		t.Fatal(err)
	}
	kt.Fails(t, d, status.DataLoss, "text: DATA_LOSS: not an sstable (bad magic number): perhaps your file is in a different file format and you need to use a different restore operator?",
		restore(f32), path("text"), kt.Str(nil, "x"))
	kt.Expect(t, d.Run(t, kt.Op{Type: "ShardedFilespec"}, kt.Str(nil, "m"), kt.I32(nil, 12)), kt.Str(nil, "m-?????-of-00012"))
	if _, err := os.Stat(filepath.Join(dir, "c")); !os.IsNotExist(err) {
		t.Errorf("a save that failed left a file: %v", err)
	}
}

func TestSaveMissingParts(t *testing.T) {
	d := kt.NewDevice(t)
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	d.Run(t, kt.Op{Type: "SaveV2"}, kt.Str(nil, path("p/0")), vec("x"), vec(""), kt.F32(nil, 1))
	merge := func(missing bool) kt.Op {
		return kt.Op{Type: "MergeV2Checkpoints", Attrs: kt.Attrs{"delete_old_dirs": true, "allow_missing_files": missing}}
	}
	kt.Fails(t, d, status.InvalidArgument, "allow_missing_files was set to false and "+path("p/1")+" did not exist.", merge(false), vec(path("p/0"), path("p/1")), kt.Str(nil, path("m")))
	kt.Fails(t, d, status.InvalidArgument, "At least one prefix checkpoint file must exist, but none existed.", merge(true), vec(path("p/1")), kt.Str(nil, path("m")))
	d.Run(t, merge(true), vec(path("p/0"), path("p/1")), kt.Str(nil, path("m")))
	restore := kt.Op{Type: "RestoreV2", Attrs: kt.Attrs{"dtypes": []tensor.DType{tensor.Float32}}}
	kt.Expect(t, d.Run(t, restore, kt.Str(nil, "file://"+path("m")), vec("x"), vec("")), kt.F32(nil, 1))
	kt.Fails(t, d, status.InvalidArgument, "Duplicate tensor keyed by x encountered", merge(true), vec(path("m"), path("m")), kt.Str(nil, path("n")))
	kt.Fails(t, d, status.InvalidArgument, "Adding duplicate key: x", kt.Op{Type: "SaveV2"}, kt.Str(nil, path("e")), vec("x", "x"), vec("", ""), kt.F32(nil, 1), kt.F32(nil, 1))
	kt.Fails(t, d, status.NotFound, path("none/none")+"; No such file or directory", kt.Op{Type: "SaveV2"}, kt.Str(nil, path("none/none/e")), vec("x"), vec(""), kt.F32(nil, 1))
}

// TestSaveLists saves variants that hold lists of tensors, and lists of lists.
func TestSaveLists(t *testing.T) {
	d := kt.NewDevice(t)
	prefix := kt.Str(nil, filepath.Join(t.TempDir(), "m"))
	reserve := func(dtype tensor.DType) kt.Op {
		return kt.Op{Type: "TensorListReserve", Attrs: kt.Attrs{"element_dtype": dtype, "shape_type": tensor.Int32}}
	}
	set := func(dtype tensor.DType) kt.Op {
		return kt.Op{Type: "TensorListSetItem", Attrs: kt.Attrs{"element_dtype": dtype}}
	}
	get := func(dtype tensor.DType) kt.Op {
		return kt.Op{Type: "TensorListGetItem", Attrs: kt.Attrs{"element_dtype": dtype}}
	}
	inner := d.Run(t, reserve(tensor.Float32), kt.I32(kt.S(1), 2), kt.I32(nil, 3))[0].Tensor
	inner = d.Run(t, set(tensor.Float32), inner, kt.I32(nil, 1), kt.F32(kt.S(2), 1.5, 2.5))[0].Tensor
	outer := d.Run(t, reserve(tensor.Variant), kt.I32(nil, -1), kt.I32(nil, 2))[0].Tensor
	outer = d.Run(t, set(tensor.Variant), outer, kt.I32(nil, 0), inner)[0].Tensor
	d.Run(t, kt.Op{Type: "SaveV2"}, prefix.Retain(), vec("list", "x"), vec("", ""), outer, kt.F32(nil, 1))
	restored := d.Run(t, kt.Op{Type: "RestoreV2", Attrs: kt.Attrs{"dtypes": []tensor.DType{tensor.Variant}}}, prefix, vec("list"), vec(""))[0].Tensor
	item := d.Run(t, get(tensor.Variant), restored, kt.I32(nil, 0), kt.I32(nil, -1))[0].Tensor
	kt.Expect(t, d.Run(t, get(tensor.Float32), item.Retain(), kt.I32(nil, 1), kt.I32(kt.S(1), 2)), kt.F32(kt.S(2), 1.5, 2.5))
	kt.Expect(t, d.Run(t, get(tensor.Float32), item, kt.I32(nil, 2), kt.I32(kt.S(1), 2)), kt.F32(kt.S(2), 0, 0))
}

func TestVocabRemapping(t *testing.T) {
	d := kt.NewDevice(t)
	dir := t.TempDir()
	file := func(name, content string) *tensor.Tensor {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return kt.Str(nil, path)
	}
	remap := func(offset, n, old int) kt.Op {
		return kt.Op{Type: "GenerateVocabRemapping", Attrs: kt.Attrs{"new_vocab_offset": offset, "num_new_vocab": n, "old_vocab_size": old}}
	}
	a, b := file("a", "one\ntwo\r\nthree\nfour"), file("b", "four\ntwo\nnine\none\n")
	kt.Expect(t, d.Run(t, remap(0, 4, -1), a.Retain(), b.Retain()), kt.I64(kt.S(4), 3, 1, -1, 0), kt.I32(nil, 3))
	kt.Expect(t, d.Run(t, remap(1, 2, 2), a.Retain(), b.Retain()), kt.I64(kt.S(2), 1, -1), kt.I32(nil, 1))
	kt.Expect(t, d.Run(t, remap(4, 0, -1), a.Retain(), b.Retain()), kt.I64(kt.S(0)), kt.I32(nil, 0))
	kt.Fails(t, d, status.InvalidArgument, "lookup table size must be larger than last new vocab entry's line", remap(3, 2, -1), a.Retain(), b.Retain())
	kt.Fails(t, d, status.InvalidArgument, "expected 7 but got 4", remap(0, 1, 7), a.Retain(), b)
	kt.Fails(t, d, status.InvalidArgument, "empty line found at position 5.", remap(0, 1, -1), a.Retain(), file("c", "one\n\ntwo"))
	kt.Fails(t, d, status.FailedPrecondition, "Key x has 0 and trying to add value 2", remap(0, 1, -1), a.Retain(), file("e", "x\ny\nx\n"))
	kt.Fails(t, d, status.NotFound, "none; No such file or directory", remap(0, 1, -1), a.Retain(), kt.Str(nil, filepath.Join(dir, "none")))
	kt.Fails(t, d, status.InvalidArgument, "new vocab filename cannot be empty.", remap(0, 1, -1), kt.Str(nil, ""), a)
}

func TestLoadAndRemapMatrix(t *testing.T) {
	d := kt.NewDevice(t)
	prefix := kt.Str(nil, filepath.Join(t.TempDir(), "m"))
	d.Run(t, kt.Op{Type: "SaveV2"}, prefix.Retain(), vec("m", "n", "m"+"3"), vec("", "", ""), kt.Iota[float32](tensor.Float32, kt.S(5, 3)), kt.I32(kt.S(1), 1), kt.F32(kt.S(1), 1))
	name := func(s string) *tensor.Tensor { return kt.Str(nil, s) }
	for _, most := range []int{-1, 1, 2, 100} {
		load := func(rows, cols int) kt.Op {
			return kt.Op{Type: "LoadAndRemapMatrix", Attrs: kt.Attrs{"num_rows": rows, "num_cols": cols, "max_rows_in_memory": most}}
		}
		kt.Expect(t, d.Run(t, load(3, 3), prefix.Retain(), name("m"), kt.I64(kt.S(3), 4, -1, 1), kt.I64(kt.S(0)), kt.F32(kt.S(3), 90, 91, 92)),
			kt.F32(kt.S(3, 3), 12, 13, 14, 90, 91, 92, 3, 4, 5))
		kt.Expect(t, d.Run(t, load(2, 2), prefix.Retain(), name("m"), kt.I64(kt.S(2), 0, 2), kt.I64(kt.S(2), 2, -1), kt.F32(kt.S(2), 90, 91)),
			kt.F32(kt.S(2, 2), 2, 90, 8, 91))
		kt.Fails(t, d, status.InvalidArgument, "initializing_values contained 1 elements, but more missing values remain.", load(1, 3), prefix.Retain(), name("m"), kt.I64(kt.S(1), -1), kt.I64(kt.S(0)), kt.F32(kt.S(1), 1))
		kt.Fails(t, d, status.InvalidArgument, "initializing_values contained 1 elements, but only 0 elements were used", load(1, 3), prefix.Retain(), name("m"), kt.I64(kt.S(1), 0), kt.I64(kt.S(0)), kt.F32(kt.S(1), 1))
		kt.Fails(t, d, status.Unimplemented, "Old ID 1 is mapped to both new ID 0 and 1, which is not supported.", load(2, 3), prefix.Retain(), name("m"), kt.I64(kt.S(2), 1, 1), kt.I64(kt.S(0)), kt.F32(kt.S(0)))
		kt.Fails(t, d, status.InvalidArgument, "instead of being equal to num_rows=2", load(2, 3), prefix.Retain(), name("m"), kt.I64(kt.S(1), 1), kt.I64(kt.S(0)), kt.F32(kt.S(0)))
		kt.Fails(t, d, status.InvalidArgument, "has invalid type int32 instead of expected type float", load(1, 3), prefix.Retain(), name("n"), kt.I64(kt.S(1), 1), kt.I64(kt.S(0)), kt.F32(kt.S(0)))
		kt.Fails(t, d, status.InvalidArgument, "of invalid rank 1 instead of expected shape of rank 2.", load(1, 3), prefix.Retain(), name("m3"), kt.I64(kt.S(1), 1), kt.I64(kt.S(0)), kt.F32(kt.S(0)))
		kt.Fails(t, d, status.NotFound, "Key q not found in checkpoint", load(1, 3), prefix.Retain(), name("q"), kt.I64(kt.S(1), 1), kt.I64(kt.S(0)), kt.F32(kt.S(0)))
		kt.Fails(t, d, status.Internal, "out of bounds", load(1, 3), prefix.Retain(), name("m"), kt.I64(kt.S(1), 5), kt.I64(kt.S(0)), kt.F32(kt.S(0)))
	}
}
