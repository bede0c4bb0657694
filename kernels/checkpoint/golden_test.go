package checkpoint_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"github.com/troupe-run/troupe/kernels/files"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/checkpoint"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// goldens returns the files that testdata/golden.py wrote with TensorFlow.
func goldens(t testing.TB) map[string][]byte {
	t.Helper()
	f, err := os.Open("testdata/golden.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// goldenDir writes the goldens to a folder.
func goldenDir(t *testing.T) string {
	dir := t.TempDir()
	for name, data := range goldens(t) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// patterned returns a tensor of golden.py.
func patterned(dtype tensor.DType, shape ...int64) *tensor.Tensor {
	v, err := tensor.New(tensor.Host, dtype, shape)
	if err != nil {
		panic(err)
	}
	mask := 0xff
	switch dtype {
	case tensor.Bool:
		mask = 1
	case tensor.Int4:
		mask = 7
	case tensor.Uint4:
		mask = 15
	}
	for i := range v.Data() {
		v.Data()[i] = byte((i*37 + 11) & mask)
	}
	return v
}

func texts(n int, shape ...int64) *tensor.Tensor {
	list := make([]string, n)
	for i := range list {
		if list[i] = strings.Repeat("x", i); i%3 == 0 {
			list[i] = strings.Repeat(string([]byte{byte(i)}), i/2)
		}
	}
	return kt.Str(shape, list...)
}

var v2Types = []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Uint8, tensor.Int16, tensor.Int8, tensor.Complex64, tensor.Int64, tensor.Bool,
	tensor.QInt8, tensor.QUint8, tensor.QInt32, tensor.BFloat16, tensor.QInt16, tensor.QUint16, tensor.Uint16, tensor.Complex128, tensor.Float16, tensor.Uint32,
	tensor.Uint64, tensor.Float8E5M2, tensor.Float8E4M3FN, tensor.Int4, tensor.Uint4}

var v1Types = []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Uint8, tensor.Int16, tensor.Int8, tensor.Complex64, tensor.Int64, tensor.Bool,
	tensor.QInt8, tensor.QUint8, tensor.QInt32, tensor.Uint16, tensor.Complex128, tensor.Float16}

// goldenName returns the name of the tensor of a type.
func goldenName(d tensor.DType) string {
	switch d {
	case tensor.Float32:
		return "float32"
	case tensor.Float64:
		return "float64"
	}
	return d.String()
}

// named is a tensor or a slice of one.
type named struct {
	name, spec string
	tensor     *tensor.Tensor
}

func ofTypes(types []tensor.DType) (list []named) {
	for _, d := range types {
		list = append(list, named{goldenName(d), "", patterned(d, 3, 5)})
	}
	return list
}

// opaque uses the messages of variants as their elements.
type opaque struct{}

func (opaque) Encode(v any) ([]byte, error) { return v.([]byte), nil }
func (opaque) Decode(b []byte) (any, error) { return b, nil }

func write(t testing.TB, fsys files.FS, prefix string, list []named) {
	t.Helper()
	if err := tryWrite(fsys, prefix, list); err != nil {
		t.Fatal(err)
	}
}

func tryWrite(fsys files.FS, prefix string, list []named) error {
	w, err := checkpoint.Create(fsys, prefix, opaque{})
	if err != nil {
		return err
	}
	defer w.Abort()
	for _, n := range list {
		if n.spec == "" {
			err = w.Add(n.name, n.tensor)
		} else {
			var whole tensor.Shape
			var s checkpoint.Slice
			if whole, s, err = checkpoint.ParseSlice(n.spec); err == nil {
				err = w.AddSlice(n.name, whole, s, n.tensor)
			}
		}
		if err != nil {
			return err
		}
	}
	return w.Finish()
}

func open(t testing.TB, fsys files.FS, prefix string) *checkpoint.Reader {
	t.Helper()
	r, err := checkpoint.Open(fsys, prefix, opaque{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// readSpec reads a tensor, or the slice of it named by spec.
func readSpec(r *checkpoint.Reader, name, spec string) (*tensor.Tensor, error) {
	if spec == "" {
		return r.Read(tensor.Host, name)
	}
	_, s, err := checkpoint.ParseSlice(spec)
	if err != nil {
		return nil, err
	}
	return r.ReadSlice(tensor.Host, name, s)
}

func expectTensor(t *testing.T, what string, got *tensor.Tensor, err error, want *tensor.Tensor) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	defer got.Release()
	same := got.DType() == want.DType() && got.Shape().Equal(want.Shape())
	if same && got.DType() == tensor.String {
		same = slices.Equal(got.Strings(), want.Strings())
	} else if same {
		same = bytes.Equal(got.Data(), want.Data())
	}
	if !same {
		t.Errorf("%s: got %v%v, want %v%v, or other elements", what, got.DType(), got.Shape(), want.DType(), want.Shape())
	}
}

func expectSame(t *testing.T, dir string, names ...string) {
	t.Helper()
	want := goldens(t)
	for _, name := range names {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want[name]) {
			at := 0
			for at < min(len(got), len(want[name])) && got[at] == want[name][at] {
				at++
			}
			t.Errorf("%s: has %d bytes, TensorFlow's %d; they differ from %d on", name, len(got), len(want[name]), at)
		}
	}
}

func v2Goldens() map[string][]named {
	types := append(ofTypes(v2Types), named{"strings", "", texts(20, 4, 5)}, named{"scalar", "", patterned(tensor.Float32)},
		named{"none", "", patterned(tensor.Int32, 0, 3)}, named{"no strings", "", texts(0, 0)})
	var many, blocks []named
	for i := range 100 {
		many = append(many, named{fmt.Sprintf("layer_%d/%s", i, strings.Repeat("w", i%40)), "", patterned(tensor.Uint8, int64(i%7))})
	}
	for i := range 200 {
		blocks = append(blocks, named{fmt.Sprintf("%05d%s", i, strings.Repeat("n", 3000)), "", patterned(tensor.Uint8, 1)})
	}
	return map[string][]named{"types": types, "many": many, "blocks": blocks}
}

// parts returns slices of a tensor v. TensorFlow saved each in its own checkpoint or file.
func parts() []named {
	return []named{
		{"v", "4 6 0,2:-", patterned(tensor.Float32, 2, 6)},
		{"v", "4 6 2,2:0,2", patterned(tensor.Float32, 2, 2)},
		{"v", "4 6 2,2:2,4", patterned(tensor.Float32, 2, 4)},
	}
}

// wholeV returns v, combined from its parts.
func wholeV() *tensor.Tensor {
	p, v := parts(), patterned(tensor.Float32, 4, 6)
	copy(v.Data(), p[0].tensor.Data())
	for i := range 2 {
		copy(v.Data()[(12+6*i)*4:], p[1].tensor.Data()[8*i:8*i+8])
		copy(v.Data()[(14+6*i)*4:], p[2].tensor.Data()[16*i:16*i+16])
	}
	return v
}

func TestReadsTensorFlowsFiles(t *testing.T) {
	dir := goldenDir(t)
	for prefix, list := range v2Goldens() {
		r := open(t, files.All, filepath.Join(dir, prefix))
		for _, n := range list {
			got, err := r.Read(tensor.Host, n.name)
			expectTensor(t, prefix+" "+n.name, got, err, n.tensor)
		}
	}
	r := open(t, files.All, filepath.Join(dir, "merged"))
	got, err := r.Read(tensor.Host, "v")
	expectTensor(t, "v", got, err, wholeV())
	for i, p := range parts() {
		got, err := readSpec(r, p.name, p.spec)
		expectTensor(t, p.spec, got, err, p.tensor)
		own := fmt.Sprintf("own%d", i)
		got, err = r.Read(tensor.Host, own)
		expectTensor(t, own, got, err, patterned(tensor.Int64, int64(i)))
	}
	r = open(t, files.All, filepath.Join(dir, "variant"))
	got, err = r.Read(tensor.Host, "list")
	if err != nil || got.DType() != tensor.Variant || got.Rank() != 0 || !bytes.Contains(got.Variants()[0].([]byte), []byte("tensorflow::TensorList")) {
		t.Errorf("variant: %v, %v", got, err)
	}
	got, err = r.Read(tensor.Host, "after")
	expectTensor(t, "after", got, err, patterned(tensor.Int32, 2))
}

func TestWritesTensorFlowsBytes(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for prefix, list := range v2Goldens() {
		for range 2 { // the second replaces the first
			write(t, files.All, path(prefix), list)
			expectSame(t, dir, prefix+".index", prefix+".data-00000-of-00001")
		}
	}
	for range 2 {
		var prefixes []string
		for i, p := range parts() {
			prefixes = append(prefixes, path(fmt.Sprintf("tmp/part%d", i)))
			write(t, files.All, prefixes[i], []named{p, {fmt.Sprintf("own%d", i), "", patterned(tensor.Int64, int64(i))}})
		}
		if err := checkpoint.Merge(files.All, prefixes, path("merged"), false); err != nil {
			t.Fatal(err)
		}
		expectSame(t, dir, "merged.index", "merged.data-00000-of-00003", "merged.data-00001-of-00003", "merged.data-00002-of-00003")
	}
	r := open(t, files.All, filepath.Join(goldenDir(t), "variant"))
	list, err := r.Read(tensor.Host, "list")
	if err != nil {
		t.Fatal(err)
	}
	write(t, files.All, path("variant"), []named{{"list", "", list}, {"after", "", patterned(tensor.Int32, 2)}})
	expectSame(t, dir, "variant.index", "variant.data-00000-of-00001")
	left, err := filepath.Glob(path("*tempstate*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v %v", left, err)
	}
	names, err := filepath.Glob(path("*"))
	if want := 13; err != nil || len(names) != want {
		t.Errorf("%d files, want %d: %v, %v", len(names), want, names, err)
	}
}

func v1Goldens() map[string][]named {
	p := parts()
	return map[string][]named{
		"v1": append(ofTypes(v1Types), named{"strings", "", texts(20, 20)}, named{"scalar", "", patterned(tensor.Float32)}, named{"none", "", patterned(tensor.Int32, 0, 3)}),
		// In the order of their names, as the op returns them.
		"v1s-00000-of-00002": {{"big", "", patterned(tensor.Float32, 300, 500)}, p[0], p[1]},
		"v1s-00001-of-00002": {p[2]},
	}
}

func v1Named(t *testing.T, list []named) (out []checkpoint.Named) {
	for _, n := range list {
		v := checkpoint.Named{Name: n.name, Tensor: n.tensor, Whole: n.tensor.Shape(), Slice: checkpoint.Whole(n.tensor.Rank())}
		if n.spec != "" {
			var err error
			if v.Whole, v.Slice, err = checkpoint.ParseSlice(n.spec); err != nil {
				t.Fatal(err)
			}
		}
		out = append(out, v)
	}
	slices.SortStableFunc(out, func(a, b checkpoint.Named) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func TestV1(t *testing.T) {
	dir := t.TempDir()
	all := v1Goldens()
	for name, list := range all {
		if err := checkpoint.WriteV1(files.All, filepath.Join(dir, name), v1Named(t, list)); err != nil {
			t.Fatal(err)
		}
	}
	expectSame(t, dir, slices.Collect(maps.Keys(all))...)
	for _, preferred := range []int{-1, 0, 1, 7} {
		for _, pattern := range []string{"v1", "v1s-?????-of-00002"} {
			r, err := checkpoint.OpenV1(files.All, filepath.Join(dir, pattern), preferred)
			if err != nil {
				t.Fatal(err)
			}
			for name, list := range all {
				if (name == "v1") != (pattern == "v1") {
					continue
				}
				for _, n := range v1Named(t, list) {
					dtype, whole, ok, err := r.Lookup(n.Name)
					if !ok || err != nil || dtype != n.Tensor.DType() || !whole.Equal(n.Whole) {
						t.Errorf("%s: %v%v, %v, %v", n.Name, dtype, whole, ok, err)
						continue
					}
					got, err := r.ReadSlice(tensor.Host, n.Name, n.Slice)
					expectTensor(t, n.Name+" "+n.Slice.String(), got, err, n.Tensor)
				}
			}
			if pattern != "v1" {
				got, err := r.ReadSlice(tensor.Host, "v", checkpoint.Whole(2))
				expectTensor(t, "v", got, err, wholeV())
				got, err = r.ReadSlice(tensor.Host, "big", checkpoint.Slice{{Start: 299, Length: 1}, {Length: -1}})
				want := patterned(tensor.Float32, 300, 500).Rows(299, 300)
				expectTensor(t, "a row", got, err, want)
			}
			r.Close()
		}
	}
}
