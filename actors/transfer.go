package actors

import (
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// transferOf encodes the value of one edge; the caller keeps its reference to t.
func transferOf(key kernels.Key, t *tensor.Tensor, dead bool) (*wire.Transfer, error) {
	m := &wire.Transfer{Edge: key.Edge, Frame: key.Tag.Frame, Iter: key.Tag.Iter, Dead: dead}
	if t != nil {
		head, content, err := t.AppendWire(make([]byte, 0, 64+len(t.Data())))
		if err != nil {
			return nil, err
		}
		m.Tensor = append(head, content...)
	}
	return m, nil
}

// readTransfer decodes a transfer into memory of pool.
func readTransfer(m *wire.Transfer, pool *tensor.Pool) (kernels.Key, *tensor.Tensor, error) {
	key := kernels.Key{Edge: m.Edge, Tag: kernels.Tag{Frame: m.Frame, Iter: m.Iter}}
	if m.Dead || len(m.Tensor) == 0 {
		return key, nil, nil
	}
	t, err := tensor.ReadWire(tensor.NewBytes(m.Tensor), len(m.Tensor), pool)
	return key, t, err
}
