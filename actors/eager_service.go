package actors

import (
	"context"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
)

// EagerService calls the EagerService of other tasks of a client's cluster, which may be TensorFlow's own, such as the client's process. target
// is the device that a call is for; errors name it as TensorFlow's do. The methods may be called concurrently, and end with ctx.
type EagerService interface {
	Enqueue(ctx context.Context, address, target string, q *corepb.EnqueueRequest) error
	// KeepAlive is an error if the task does not have the context.
	KeepAlive(ctx context.Context, address, target string, id uint64) error
	RunComponent(ctx context.Context, address, target string, q *corepb.RunComponentFunctionRequest) (*corepb.RunComponentFunctionResponse, error)
}
