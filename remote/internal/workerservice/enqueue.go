package workerservice

import (
	"context"
	"fmt"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

const (
	enqueue      = "/tensorflow.eager.EagerService/Enqueue"
	runComponent = "/tensorflow.eager.EagerService/RunComponentFunction"
	keepAlive    = "/tensorflow.eager.EagerService/KeepAlive"
)

var _ actors.EagerService = (*Puller)(nil)

// Enqueue has a context on another task execute items.
func (p *Puller) Enqueue(ctx context.Context, address, target string, q *corepb.EnqueueRequest) error {
	return p.call(ctx, address, target, enqueue, q, &corepb.EnqueueResponse{}, false)
}

// RunComponent has a context on another task run its part of a function.
func (p *Puller) RunComponent(ctx context.Context, address, target string, q *corepb.RunComponentFunctionRequest) (*corepb.RunComponentFunctionResponse, error) {
	a := &corepb.RunComponentFunctionResponse{}
	if err := p.call(ctx, address, target, runComponent, q, a, false); err != nil {
		return nil, err
	}
	return a, nil
}

// KeepAlive asks whether a task has a context.
func (p *Puller) KeepAlive(ctx context.Context, address, target string, id uint64) error {
	return p.call(ctx, address, target, keepAlive, &corepb.KeepAliveRequest{ContextId: id}, &corepb.KeepAliveResponse{}, true)
}

// call makes a call of the EagerService at an address; again is as for ask.
func (p *Puller) call(ctx context.Context, address, target, method string, q, a proto.Message, again bool) error {
	return p.ask(ctx, address, target, method, q, again, func(r *wire.Reader) error {
		b, err := r.Next(r.End())
		if err != nil {
			return err
		}
		return tensor.Unmarshal(b, a)
	}, fmt.Sprintf("The answer of %s to %s cannot be read", address, method))
}
