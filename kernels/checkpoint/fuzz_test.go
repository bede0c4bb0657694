package checkpoint_test

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	bundlepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/checkpoint"
	"google.golang.org/protobuf/proto"
)

// holding returns a disk with the files.
func holding(files map[string][]byte) *disk {
	d := newDisk()
	for name, data := range files {
		d.names[name] = &inode{data: data}
	}
	return d
}

// classed checks that an error has a status code.
func classed(t *testing.T, err error) {
	t.Helper()
	if err != nil && (status.CodeOf(err) == status.OK || status.CodeOf(err) == status.Unknown) {
		t.Errorf("%v: %v", status.CodeOf(err), err)
	}
}

// readAll performs the operations of a restore on a checkpoint of either format.
func readAll(t *testing.T, d *disk, prefix string, names ...string) {
	if r, err := checkpoint.Open(d, prefix, opaque{}); err != nil {
		classed(t, err)
	} else {
		for _, name := range names {
			if v, err := r.Read(tensor.Host, name); err != nil {
				classed(t, err)
			} else {
				v.Release()
			}
			if v, err := r.ReadSlice(tensor.Host, name, checkpoint.Slice{{Start: 1, Length: 2}, {Length: -1}}); err != nil {
				classed(t, err)
			} else {
				v.Release()
			}
		}
		r.Close()
	}
	if r, err := checkpoint.OpenV1(d, prefix+".index", -1); err != nil {
		classed(t, err)
	} else {
		for _, name := range names {
			_, whole, ok, err := r.Lookup(name)
			classed(t, err)
			if !ok {
				continue
			}
			if v, err := r.ReadSlice(tensor.Host, name, checkpoint.Whole(len(whole))); err != nil {
				classed(t, err)
			} else {
				v.Release()
			}
		}
		r.Close()
	}
	classed(t, checkpoint.Merge(d, []string{prefix}, "merged", true))
}

// FuzzFiles reads files with arbitrary content, as both formats.
func FuzzFiles(f *testing.F) {
	files := goldens(f)
	for name, data := range files {
		if len(data) < 10000 {
			f.Add(data, files[strings.TrimSuffix(name, ".index")+".data-00000-of-00001"])
		}
	}
	f.Fuzz(func(t *testing.T, index, data []byte) {
		readAll(t, holding(map[string][]byte{"m.index": index, "m.data-00000-of-00001": data}), "m", "v", "float32", "strings", "list", "after")
	})
}

// FuzzBlock reads blocks with arbitrary content and valid checksums.
func FuzzBlock(f *testing.F) {
	f.Add([]byte{0, 1, 1, 'a', 'b', 0, 0, 0, 0, 1, 0, 0, 0}, byte(0))
	f.Add([]byte{13, 48, 0, 1, 1, 'a', 'b', 0, 0, 0, 0, 1, 0, 0, 0}, byte(1))
	f.Fuzz(func(t *testing.T, block []byte, compression byte) {
		_, err := checkpoint.TableEntries(content{Reader: bytes.NewReader(checkpoint.TableOfBlock(block, compression, "\xff"))})
		classed(t, err)
	})
}

// FuzzEntries reads indexes of format V2 with arbitrary messages.
func FuzzEntries(f *testing.F) {
	for prefix := range map[string]bool{"types": true, "merged": true, "variant": true} {
		all, err := checkpoint.TableEntries(content{Reader: bytes.NewReader(goldens(f)[prefix+".index"])})
		if err != nil {
			f.Fatal(err)
		}
		for k, v := range all {
			f.Add(all[""], v, v, goldens(f)[prefix+".data-00000-of-00001"])
			_ = k
		}
	}
	f.Fuzz(func(t *testing.T, header, v, part, data []byte) {
		entries := map[string][]byte{"": header, "v": v}
		p := &bundlepb.BundleEntryProto{}
		if proto.Unmarshal(v, p) == nil && len(p.Slices) < 10 {
			for _, s := range p.Slices {
				var slice checkpoint.Slice
				for _, e := range s.Extent {
					slice = append(slice, checkpoint.Extent{Start: e.Start, Length: e.GetLength()})
				}
				entries[checkpoint.SliceKey("v", slice)] = part
			}
		}
		readAll(t, holding(map[string][]byte{"m.index": checkpoint.BuildTable(entries), "m.data-00000-of-00001": data}), "m", "v")
	})
}

// FuzzRecords reads files of format V1 with arbitrary messages.
func FuzzRecords(f *testing.F) {
	all, err := checkpoint.TableEntries(content{Reader: bytes.NewReader(goldens(f)["v1"])})
	if err != nil {
		f.Fatal(err)
	}
	for k, v := range all {
		f.Add(all[""], []byte(k), v)
	}
	names := []string{"scalar", "none", "strings"}
	for _, d := range v1Types {
		names = append(names, goldenName(d))
	}
	f.Fuzz(func(t *testing.T, meta, key, record []byte) {
		table := checkpoint.BuildTable(map[string][]byte{"": meta, string(key): record})
		readAll(t, holding(map[string][]byte{"m.index": table}), "m", names...)
	})
}

func FuzzParseSlice(f *testing.F) {
	for _, s := range []string{"", "4 6 0,2:-", "3 -", "4 ", "-1 0,1", "9223372036854775807 9223372036854775807,1", "1 1 1 1:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		whole, s, err := checkpoint.ParseSlice(spec)
		if err != nil {
			classed(t, err)
			return
		}
		if shape, err := s.Shape(whole); err != nil {
			t.Errorf("%v of %v: %v", s, whole, err)
		} else if _, err := shape.NumElements(); err != nil {
			t.Error(err)
		}
	})
}

// TestSnappy reads a file with compressed blocks, as TensorFlow wrote them before 2017.
func TestSnappy(t *testing.T) {
	all, err := checkpoint.TableEntries(content{Reader: bytes.NewReader(goldens(t)["v1"])})
	if err != nil {
		t.Fatal(err)
	}
	again, err := checkpoint.TableEntries(content{Reader: bytes.NewReader(checkpoint.SnappyTable(all))})
	if err != nil || !maps.EqualFunc(all, again, bytes.Equal) {
		t.Errorf("%d entries, want %d: %v", len(again), len(all), err)
	}
	r, err := checkpoint.OpenV1(holding(map[string][]byte{"v1": checkpoint.SnappyTable(all)}), "v1", -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	v, err := r.ReadSlice(tensor.Host, "float64", checkpoint.Whole(2))
	expectTensor(t, "float64", v, err, patterned(tensor.Float64, 3, 5))
}
