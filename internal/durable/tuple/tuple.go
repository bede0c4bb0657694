// Package tuple encodes tensors for the disk: the value of a variable, or the components of a queue's element.
package tuple

import (
	"encoding/binary"
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Tuple is tensors to be written. It has a reference to each. It implements durable.Value.
type Tuple []*tensor.Tensor

// Append appends the encoding: each tensor as a tensorflow.TensorProto after its size in 8 bytes, little-endian. Tensors that cannot be kept are
// FAILED_PRECONDITION.
func (t Tuple) Append(b []byte) ([]byte, error) {
	for _, e := range t {
		if !Keepable(e.DType()) {
			return nil, status.Errorf(status.FailedPrecondition, "a tensor of type %v refers to memory, and has no meaning elsewhere", e.DType())
		}
		at := len(b)
		head, content, err := e.AppendWire(append(b, make([]byte, sizeBytes)...))
		if err != nil {
			return nil, err
		}
		b = append(head, content...)
		binary.LittleEndian.PutUint64(b[at:], uint64(len(b)-at-sizeBytes))
	}
	return b, nil
}

const sizeBytes = 8

// Size returns the number of bytes in memory.
func (t Tuple) Size() (n int) {
	for _, e := range t {
		n += e.ByteSize()
	}
	return n
}

// Release releases the tensors.
func (t Tuple) Release() {
	for _, e := range t {
		e.Release()
	}
}

// Read decodes what Append has encoded, as tensors in memory from pool. Malformed bytes are DATA_LOSS.
func Read(b []byte, pool *tensor.Pool) (t Tuple, err error) {
	for len(b) > 0 {
		n := uint64(math.MaxUint64)
		if len(b) >= sizeBytes {
			n, b = binary.LittleEndian.Uint64(b), b[sizeBytes:]
		}
		if n > uint64(len(b)) {
			t.Release()
			return nil, status.Errorf(status.DataLoss, "a tensor on disk is truncated")
		}
		e, err := tensor.ReadWire(tensor.NewBytes(b[:n]), int(n), pool)
		if err != nil {
			t.Release()
			return nil, status.Errorf(Code(err), "a tensor on disk cannot be read: %v", err)
		}
		t, b = append(t, e), b[n:]
	}
	return t, nil
}

// Record is tensors after bytes that say what they are. It implements durable.Value.
type Record struct {
	Head []byte
	Tuple
}

// Append appends the head after its size, and the tensors.
func (r Record) Append(b []byte) ([]byte, error) {
	b = binary.AppendUvarint(b, uint64(len(r.Head)))
	return r.Tuple.Append(append(b, r.Head...))
}

// ReadRecord decodes what Append has encoded. The head is a part of b.
func ReadRecord(b []byte, pool *tensor.Pool) (r Record, err error) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return Record{}, status.Errorf(status.DataLoss, "a record on disk is truncated")
	}
	b = b[size:]
	r.Head = b[:n:n]
	r.Tuple, err = Read(b[n:], pool)
	return r, err
}

// Present returns those of a tuple's components that are not missing (nil), with references, and their indices.
func Present(components []*tensor.Tensor) (indices []int, t Tuple) {
	for i, c := range components {
		if c != nil {
			indices, t = append(indices, i), append(t, c.Retain())
		}
	}
	return indices, t
}

// Spread undoes Present: it returns the components of a tuple of the given width. ok reports whether the indices are legal.
func Spread(indices []int, t Tuple, width int) (components []*tensor.Tensor, ok bool) {
	components = make([]*tensor.Tensor, width)
	if len(indices) != len(t) {
		return components, false
	}
	for k, i := range indices {
		if i < 0 || i >= width || components[i] != nil {
			return components, false
		}
		components[i] = t[k]
	}
	return components, true
}

// CheckKeepable returns FAILED_PRECONDITION if tensors of any of the types cannot be on disk. what names the resource.
func CheckKeepable(what string, dtypes ...tensor.DType) error {
	for i, d := range dtypes {
		if !Keepable(d) {
			return status.Errorf(status.FailedPrecondition, "component %d of %s has type %v, which refers to memory and cannot be kept in a durable container", i, what, d)
		}
	}
	return nil
}

// Code is the code of a failure to read what is on disk: lack of memory, or damage.
func Code(err error) status.Code {
	if c := status.CodeOf(err); c == status.ResourceExhausted {
		return c
	}
	return status.DataLoss
}

// Keepable reports whether tensors of a type can be on disk: handles and variants refer to what is in memory.
func Keepable(d tensor.DType) bool { return d != tensor.Resource && d != tensor.Variant }
