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

// Append appends the encoding: each tensor as a tensorflow.TensorProto after its size in 8 bytes, little-endian.
func (t Tuple) Append(b []byte) ([]byte, error) {
	for _, e := range t {
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

// Code is the code of a failure to read what is on disk: lack of memory, or damage.
func Code(err error) status.Code {
	if c := status.CodeOf(err); c == status.ResourceExhausted {
		return c
	}
	return status.DataLoss
}

// Keepable reports whether tensors of a type can be on disk: handles and variants refer to what is in memory.
func Keepable(d tensor.DType) bool { return d != tensor.Resource && d != tensor.Variant }
