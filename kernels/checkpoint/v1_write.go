package checkpoint

import (
	"io"
	"path/filepath"
	"slices"

	versionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/versions_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/files"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	v1Version  = 1
	maxRecord  = 1 << 31 // in format V1, by TensorFlow's estimate
	v1Overhead = 1 << 10 // the estimate's allowance for everything but the values
)

// Named is a tensor, or a slice of one, with its name.
type Named struct {
	Name   string
	Whole  tensor.Shape // shape of the whole tensor
	Slice  Slice
	Tensor *tensor.Tensor
}

// WriteV1 writes a file of format V1. The file gets its name only when it is complete.
func WriteV1(fsys files.FS, name string, list []Named) error {
	var meta []*v1Tensor
	byName := map[string]*v1Tensor{}
	records := map[string]Named{}
	keys := make([]string, 0, len(list))
	for _, n := range list {
		if err := checkV1(n); err != nil {
			return err
		}
		m := byName[n.Name]
		switch {
		case m == nil:
			m = &v1Tensor{name: n.Name, dtype: n.Tensor.DType(), shape: n.Whole}
			byName[n.Name], meta = m, append(meta, m)
		case !m.shape.Equal(n.Whole):
			return status.Internalf("Mismatching shapes: existing tensor = %v, trying to add name %s, shape = %v", m.shape, n.Name, n.Whole)
		case m.dtype != n.Tensor.DType():
			return status.Internalf("Mismatching types: existing type = %v, trying to add name %s, type = %v", m.dtype, n.Name, n.Tensor.DType())
		}
		m.slices = append(m.slices, n.Slice)
		key := sliceKey(n.Name, n.Slice)
		if _, ok := records[key]; !ok {
			records[key], keys = n, append(keys, key)
		}
	}
	first, err := encodeMeta(meta)
	if err != nil {
		return err
	}
	slices.Sort(keys)
	j, err := begin(fsys, filepath.Dir(name))
	if err != nil {
		return err
	}
	err = j.writeFile(name, func(w io.Writer) error {
		t := newTable(w)
		if err := t.addBytes("", first); err != nil {
			return err
		}
		for _, key := range keys {
			if err := addRecord(t, key, records[key]); err != nil {
				return err
			}
		}
		return t.finish()
	})
	j.end(err)
	return err
}

func checkV1(n Named) error {
	dtype := n.Tensor.DType()
	kind, ok := v1Types[dtype]
	switch {
	case dtype == tensor.Uint32 || dtype == tensor.Uint64:
		return status.InvalidArgumentf("Tensor slice serialization not implemented for dtype %d", dtype)
	case !ok:
		return status.Unimplementedf("Saving data type %v not yet supported", dtype)
	case len(n.Whole) != len(n.Slice):
		return status.Internalf("Incompatible tensor shape and slice: shape = %v, slice = %v", n.Whole, n.Slice)
	}
	size := int64(n.Tensor.Len())*kind.bound + v1Overhead + int64(len(n.Name))
	if dtype == tensor.String {
		size += int64(n.Tensor.ByteSize())
	}
	if size > maxRecord {
		return status.InvalidArgumentf("Tensor slice is too large to serialize (conservative estimate: %d bytes)", size)
	}
	return nil
}

func encodeMeta(list []*v1Tensor) (b []byte, err error) {
	var meta []byte
	for _, m := range list {
		if meta, err = m.append(meta); err != nil {
			return nil, err
		}
	}
	if meta, err = appendMessage(meta, fieldMetaVersions, &versionspb.VersionDef{Producer: v1Version}); err != nil {
		return nil, err
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, fieldMeta, protowire.BytesType), meta), nil
}

// addRecord writes the values directly from the tensor's memory.
func addRecord(t *tableWriter, key string, n Named) error {
	values, packed := valuesSize(n.Tensor)
	head := protowire.AppendString(protowire.AppendTag(nil, fieldName, protowire.BytesType), n.Name)
	head, err := appendMessage(head, fieldSlice, n.Slice.proto())
	if err != nil {
		return err
	}
	head = protowire.AppendVarint(protowire.AppendTag(head, fieldSliceData, protowire.BytesType), uint64(values))
	start := protowire.AppendVarint(protowire.AppendTag(nil, fieldData, protowire.BytesType), uint64(len(head))+uint64(values))
	head = append(start, head...)
	return t.add(key, int64(len(head))+values, func(w io.Writer) error {
		if _, err := w.Write(head); err != nil {
			return err
		}
		return writeValues(w, n.Tensor, packed)
	})
}
