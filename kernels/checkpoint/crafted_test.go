package checkpoint_test

import (
	"context"
	"encoding/binary"
	"runtime"
	"strings"
	"testing"

	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	slicepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_slice_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	bundlepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/checkpoint"
	"github.com/troupe-run/troupe/kernels/files"
)

func marshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// blockOf returns a block of entries, each with the number of bytes that its key shares with the previous one, the rest of the key and a value.
func blockOf(entries ...[3]any) (b []byte) {
	for _, e := range entries {
		shared, own, value := e[0].(int), e[1].(string), e[2].([]byte)
		for _, n := range []int{shared, len(own), len(value)} {
			b = binary.AppendUvarint(b, uint64(n))
		}
		b = append(append(b, own...), value...)
	}
	return append(b, 0, 0, 0, 0, 1, 0, 0, 0)
}

// TestCraftedTablesTakeNoMemory reads indexes of about a megabyte that say that they become much larger, in each way that the format has.
func TestCraftedTablesTakeNoMemory(t *testing.T) {
	const long = 1 << 20
	header := marshal(t, &bundlepb.BundleHeaderProto{NumShards: 1})
	entry := marshal(t, &bundlepb.BundleEntryProto{Dtype: typespb.DataType_DT_FLOAT})
	shared := [][3]any{{0, "", header}, {0, strings.Repeat("k", long), entry}}
	for i := range 64 {
		shared = append(shared, [3]any{long, string(rune('a' + i)), entry})
	}
	tables := map[string][]byte{
		"a block that becomes 64 times as large":    checkpoint.TableOfBlock(append(binary.AppendUvarint(nil, 64*long), make([]byte, long)...), 1, "\xff"),
		"keys that share a beginning of a megabyte": checkpoint.TableOfBlock(blockOf(shared...), 0, "\xff"),
	}
	before := tensor.Process.Limit()
	runtime.GC()
	tensor.Process.SetLimit(0) // measures what is held
	tensor.Process.SetLimit(tensor.Process.Held() + 24<<20)
	defer tensor.Process.SetLimit(before)
	inUse := tensor.Host.Stats().InUse
	for what, table := range tables {
		d := holding(map[string][]byte{"m.index": table})
		err := checkpoint.Merge(d, []string{"m"}, "merged", false)
		if status.CodeOf(err) != status.ResourceExhausted || !strings.Contains(err.Error(), "There is no memory for") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if now := tensor.Host.Stats().InUse; now != inUse {
		t.Errorf("%d bytes are still counted", now-inUse)
	}
}

// manySlices are slices of one element of a vector, the first and the last of them first: each of the others may overlap with all before it.
func manySlices(n int) (all []*slicepb.TensorSliceProto, shape *shapepb.TensorShapeProto) {
	at := func(start int) {
		all = append(all, &slicepb.TensorSliceProto{Extent: []*slicepb.TensorSliceProto_Extent{{Start: int64(start), HasLength: &slicepb.TensorSliceProto_Extent_Length{Length: 1}}}})
	}
	at(0)
	at(2 * n)
	for i := 1; i < n; i++ {
		at(2 * i)
	}
	return all, &shapepb.TensorShapeProto{Dim: []*shapepb.TensorShapeProto_Dim{{Size: 2*int64(n) + 1}}}
}

// TestManySlicesEndWithTheirStep checks that readers of both formats stop comparing slices once the step has ended.
func TestManySlicesEndWithTheirStep(t *testing.T) {
	all, shape := manySlices(5000)
	meta := func() (b []byte) {
		var one []byte
		one = protowire.AppendString(protowire.AppendTag(one, 1, protowire.BytesType), "v")
		one = protowire.AppendBytes(protowire.AppendTag(one, 2, protowire.BytesType), marshal(t, shape))
		one = protowire.AppendVarint(protowire.AppendTag(one, 3, protowire.VarintType), uint64(typespb.DataType_DT_FLOAT))
		for _, s := range all {
			one = protowire.AppendBytes(protowire.AppendTag(one, 4, protowire.BytesType), marshal(t, s))
		}
		one = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), one)
		return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), one)
	}
	d := holding(map[string][]byte{
		"m.index": checkpoint.BuildTable(map[string][]byte{"": marshal(t, &bundlepb.BundleHeaderProto{NumShards: 1}),
			"v": marshal(t, &bundlepb.BundleEntryProto{Dtype: typespb.DataType_DT_FLOAT, Shape: shape, Slices: all})}),
		"v1": checkpoint.BuildTable(map[string][]byte{"": meta()}),
	})
	for format, read := range map[string]func(files.FS) error{
		"V2": func(fsys files.FS) error {
			r, err := checkpoint.Open(fsys, "m", opaque{})
			if err != nil {
				return err
			}
			defer r.Close()
			_, err = r.Read(tensor.Host, "v")
			return err
		},
		"V1": func(fsys files.FS) error {
			r, err := checkpoint.OpenV1(fsys, "v1", -1)
			if err != nil {
				return err
			}
			defer r.Close()
			v, err := r.ReadSlice(tensor.Host, "v", checkpoint.Whole(1))
			if err == nil {
				v.Release()
			}
			return err
		},
	} {
		calls := 0
		ended := func() error {
			if calls++; calls > 100 {
				return status.From(context.Canceled)
			}
			return nil
		}
		if err := read(files.While(d, ended)); status.CodeOf(err) != status.Cancelled {
			t.Errorf("%s: %v", format, err)
		}
		if err := read(d); err == nil || status.CodeOf(err) == status.Cancelled {
			t.Errorf("%s without an end: %v", format, err)
		}
	}
}
