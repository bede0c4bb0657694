package actors

import (
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// mail is the values of edges that travel with a message. The transfers are part of the message; the tensors of those that are not dead
// travel beside it, in the same order.
type mail struct {
	transfers []*wire.Transfer
	tensors   []*tensor.Tensor
	bytes     int
}

// add adds the value of one edge. It takes over the caller's reference to t, which is nil if dead is true.
func (m *mail) add(key kernels.Key, t *tensor.Tensor, dead bool) {
	m.transfers = append(m.transfers, &wire.Transfer{Edge: key.Edge, Frame: key.Tag.Frame, Iter: key.Tag.Iter, Dead: dead})
	m.bytes += len(key.Edge)
	if !dead {
		m.tensors = append(m.tensors, t)
		m.bytes += t.ByteSize()
	}
}

// release releases the tensors.
func (m *mail) release() {
	kernels.ReleaseTensors(m.tensors)
	*m = mail{}
}

var errMail = status.New(status.DataLoss, "A message does not have the tensors that it names")

// deliver hands the values that came with a message to deposit, which takes over the references.
func deliver(transfers []*wire.Transfer, tensors []*tensor.Tensor, deposit func(key kernels.Key, t *tensor.Tensor, dead bool)) error {
	live := 0
	for _, m := range transfers {
		if !m.Dead {
			live++
		}
	}
	if live != len(tensors) {
		kernels.ReleaseTensors(tensors)
		return errMail
	}
	for _, m := range transfers {
		var t *tensor.Tensor
		if !m.Dead {
			t, tensors = tensors[0], tensors[1:]
		}
		deposit(kernels.Key{Edge: m.Edge, Tag: kernels.Tag{Frame: m.Frame, Iter: m.Iter}}, t, m.Dead)
	}
	return nil
}
