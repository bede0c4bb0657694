package wire

import (
	"context"

	"google.golang.org/grpc"
)

// The full names of the methods of troupe.v1.Operator.
const (
	OperatorStatus     = "/troupe.v1.Operator/Status"
	OperatorListActors = "/troupe.v1.Operator/ListActors"
)

// OperatorServer is what the service troupe.v1.Operator asks.
type OperatorServer interface {
	// ClusterStatus tells what this task knows of all declared tasks, in order. The message is the
	// caller's.
	ClusterStatus() *ClusterStatus
	// TaskActors tells which actors this task has. The message is the caller's.
	TaskActors() *TaskActors
}

// RegisterOperator adds the service troupe.v1.Operator to a port's services. admit refuses callers that may not ask.
func RegisterOperator(services grpc.ServiceRegistrar, server OperatorServer, admit func(context.Context) error) {
	services.RegisterService(&grpc.ServiceDesc{
		ServiceName: "troupe.v1.Operator",
		HandlerType: (*OperatorServer)(nil),
		Methods: []grpc.MethodDesc{
			{MethodName: "Status", Handler: unary(admit, func() any { return &StatusRequest{} }, func(s OperatorServer) any { return s.ClusterStatus() })},
			{MethodName: "ListActors", Handler: unary(admit, func() any { return &ListActorsRequest{} }, func(s OperatorServer) any { return s.TaskActors() })},
		},
		Metadata: "remote/internal/wire/operator.proto",
	}, server)
}

// unary makes the handler of a method whose request says nothing.
func unary(admit func(context.Context) error, request func() any, answer func(OperatorServer) any) grpc.MethodHandler {
	return func(server any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		if err := decode(request()); err != nil {
			return nil, err
		}
		if err := admit(ctx); err != nil {
			return nil, ToGRPC(err)
		}
		return answer(server.(OperatorServer)), nil
	}
}
