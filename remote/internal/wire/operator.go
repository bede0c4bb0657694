package wire

import (
	"context"

	"github.com/troupe-run/troupe/internal/view"
	"google.golang.org/grpc"
)

// The full names of the methods of troupe.v1.Operator.
const (
	OperatorStatus     = "/troupe.v1.Operator/Status"
	OperatorListActors = "/troupe.v1.Operator/ListActors"
	OperatorSee        = "/troupe.v1.Operator/See"
	OperatorGraph      = "/troupe.v1.Operator/Graph"
	OperatorTrace      = "/troupe.v1.Operator/Trace"
	OperatorCancelStep = "/troupe.v1.Operator/CancelStep"
	OperatorDrain      = "/troupe.v1.Operator/Drain"
)

// OperatorServer is what the service troupe.v1.Operator asks.
type OperatorServer interface {
	// ClusterStatus tells what this task knows of all declared tasks, in order. The message is the
	// caller's.
	ClusterStatus() *ClusterStatus
	// TaskActors tells which actors this task has. The message is the caller's.
	TaskActors() *TaskActors
	// See tells what can be seen of this task, or of all that are up, until ctx ends at most. The message is the caller's.
	See(ctx context.Context, q *view.Query) *view.Cluster
	// Graph gives a page of the graph of a session of any task, until ctx ends at most. The message is the caller's.
	Graph(ctx context.Context, q *view.GraphQuery) (*view.Graph, error)
	// Trace records what runs on this task, or on all that are up, as long as the query says. The message is the caller's.
	Trace(ctx context.Context, q *view.TraceQuery) (*view.Trace, error)
	// CancelStep cancels a step of any task, until ctx ends at most. It decides itself whether the caller may: the owner of the
	// step's session may, too.
	CancelStep(ctx context.Context, q *CancelStepRequest) (*CancelStepAnswer, error)
	// DrainTask has a task of the cluster end. It decides itself whether the caller may.
	DrainTask(ctx context.Context, q *DrainRequest) (*DrainAnswer, error)
}

// RegisterOperator adds the service troupe.v1.Operator to a port's services. admit refuses callers that may not ask.
func RegisterOperator(services grpc.ServiceRegistrar, server OperatorServer, admit func(context.Context) error) {
	services.RegisterService(&grpc.ServiceDesc{
		ServiceName: "troupe.v1.Operator",
		HandlerType: (*OperatorServer)(nil),
		Methods: []grpc.MethodDesc{
			{MethodName: "Status", Handler: unary(admit, func(_ context.Context, s OperatorServer, _ *StatusRequest) any { return s.ClusterStatus() })},
			{MethodName: "ListActors", Handler: unary(admit, func(_ context.Context, s OperatorServer, _ *ListActorsRequest) any { return s.TaskActors() })},
			{MethodName: "See", Handler: unary(admit, func(ctx context.Context, s OperatorServer, q *view.Query) any { return s.See(ctx, q) })},
			{MethodName: "Graph", Handler: failing(admit, func(ctx context.Context, s OperatorServer, q *view.GraphQuery) (any, error) { return s.Graph(ctx, q) })},
			{MethodName: "Trace", Handler: failing(admit, func(ctx context.Context, s OperatorServer, q *view.TraceQuery) (any, error) { return s.Trace(ctx, q) })},
			{MethodName: "CancelStep", Handler: failing(nil, func(ctx context.Context, s OperatorServer, q *CancelStepRequest) (any, error) {
				return s.CancelStep(ctx, q)
			})},
			{MethodName: "Drain", Handler: failing(nil, func(ctx context.Context, s OperatorServer, q *DrainRequest) (any, error) { return s.DrainTask(ctx, q) })},
		},
		Metadata: "remote/internal/wire/operator.proto",
	}, server)
}

// unary makes the handler of a method that cannot fail.
func unary[Q any](admit func(context.Context) error, answer func(context.Context, OperatorServer, *Q) any) grpc.MethodHandler {
	return failing(admit, func(ctx context.Context, s OperatorServer, q *Q) (any, error) { return answer(ctx, s, q), nil })
}

// failing makes the handler of a method. admit is nil for one that decides itself who may call it.
func failing[Q any](admit func(context.Context) error, answer func(context.Context, OperatorServer, *Q) (any, error)) grpc.MethodHandler {
	return func(server any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		request := new(Q)
		if err := decode(request); err != nil {
			return nil, err
		}
		if admit != nil {
			if err := admit(ctx); err != nil {
				return nil, ToGRPC(err)
			}
		}
		out, err := answer(ctx, server.(OperatorServer), request)
		if err != nil {
			return nil, ToGRPC(err)
		}
		return out, nil
	}
}
