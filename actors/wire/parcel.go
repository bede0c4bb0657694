package wire

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/proto"
)

// Parcel is a message with the tensors that travel with it. The transport takes over their references and hands them to the receiver in the
// same order. Their contents are not copied through the message.
type Parcel struct {
	Message proto.Message
	Tensors []*tensor.Tensor
}

// Release releases the tensors of a parcel that nobody takes.
func (p *Parcel) Release() {
	for _, t := range p.Tensors {
		t.Release()
	}
	p.Tensors = nil
}
