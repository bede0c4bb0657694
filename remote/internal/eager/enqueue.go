package eager

import (
	"context"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/gateway"
)

// enqueue answers an Enqueue. Such calls run side by side: a client that needs an order waits for the answers.
func (s *service) enqueue(ctx context.Context, caller *gateway.Caller, q *corepb.EnqueueRequest) (*corepb.EnqueueResponse, error) {
	defer s.running.enter(q.GetContextId())()
	return s.execute(ctx, caller, q, nil)
}

// execute runs the items of a request one after the other. The first error is the whole answer, and ends the request. If the last item is an op
// without outputs, its error becomes late instead, unless that is nil.
func (s *service) execute(ctx context.Context, caller *gateway.Caller, q *corepb.EnqueueRequest, late *error) (*corepb.EnqueueResponse, error) {
	c, err := s.context(ctx, caller, q.GetContextId())
	if err != nil {
		return nil, err
	}
	a := &corepb.EnqueueResponse{QueueResponse: make([]*corepb.QueueResponse, len(q.GetQueue()))}
	for i, item := range q.GetQueue() {
		if err := ctx.Err(); err != nil {
			return nil, status.From(err)
		}
		if a.QueueResponse[i], err = executeItem(ctx, c, item); err == nil {
			continue
		}
		err = caller.Judged("run", c.Handle(), err)
		if op := item.GetOperation(); late == nil || i < len(q.GetQueue())-1 || op == nil || ctx.Err() != nil || !c.IsSilent(op) {
			return nil, err
		}
		*late, a.QueueResponse[i] = poisoned(err), &corepb.QueueResponse{}
	}
	return a, nil
}

func executeItem(ctx context.Context, c Context, item *corepb.QueueItem) (*corepb.QueueResponse, error) {
	a := &corepb.QueueResponse{}
	switch of := item.GetItem().(type) {
	case *corepb.QueueItem_Operation:
		return c.Run(ctx, of.Operation)
	case *corepb.QueueItem_HandleToDecref:
		return a, c.Decref(of.HandleToDecref)
	case *corepb.QueueItem_SendTensor:
		return a, c.SendTensor(of.SendTensor)
	case *corepb.QueueItem_SendPackedHandle:
		return a, c.SendPackedHandle(of.SendPackedHandle)
	case *corepb.QueueItem_RegisterFunction:
		return a, c.Register(of.RegisterFunction)
	case *corepb.QueueItem_CleanupFunction:
		c.Cleanup(of.CleanupFunction.GetStepId())
		return a, nil
	case *corepb.QueueItem_SyncRemoteExecutorForStream:
		return a, nil // what the stream asked for earlier has been answered, and thus done
	}
	var more wire.NewerQueueItem
	if err := wire.Newer(item, &more); err == nil && more.GetRemoveFunction() != nil {
		return a, c.RemoveFunction(string(more.GetRemoveFunction().GetFunctionName()))
	}
	return nil, unknownItem(item)
}

// unknownItem is the error for an item without contents, or with those of a newer protocol.
func unknownItem(item *corepb.QueueItem) error {
	num, _, n := protowire.ConsumeTag(item.ProtoReflect().GetUnknown())
	if n < 0 {
		return status.InvalidArgumentf("An item of the request is empty")
	}
	return status.Errorf(status.Unimplemented, "Items with field %d of tensorflow.eager.QueueItem are not implemented", num)
}
