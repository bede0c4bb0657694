package wire

import (
	"context"

	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/internal/http2"
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

// OperatorServer implements the service troupe.v1.Operator. The caller owns the returned messages. ctx bounds the wait for other tasks.
type OperatorServer interface {
	// ClusterStatus returns what this task knows of all declared tasks, in order. It first tries to reach those that it does not know to
	// be up.
	ClusterStatus(ctx context.Context) *ClusterStatus
	// TaskActors returns the actors of this task.
	TaskActors(ctx context.Context) *TaskActors
	// See returns the state of this task, or of all that can be reached.
	See(ctx context.Context, q *view.Query) *view.Cluster
	// Graph returns a page of the graph of a session of any task.
	Graph(ctx context.Context, q *view.GraphQuery) (*view.Graph, error)
	// Trace records what runs on this task, or on all that can be reached, for the duration in the query.
	Trace(ctx context.Context, q *view.TraceQuery) (*view.Trace, error)
	// CancelStep cancels a step of any task. It authorizes the caller itself, because the owner of the step's session is allowed
	// too.
	CancelStep(ctx context.Context, q *CancelStepRequest) (*CancelStepAnswer, error)
	// DrainTask drains a task of the cluster, which then ends. It authorizes the caller itself.
	DrainTask(ctx context.Context, q *DrainRequest) (*DrainAnswer, error)
}

// RegisterOperator adds the service troupe.v1.Operator to a port's services. admit rejects unauthorized callers, and returns the context in
// which a call is answered. look waits until a call may look at tasks; the caller then calls leave.
func RegisterOperator(services http2.Registrar, server OperatorServer, admit func(context.Context) (context.Context, error), look func(context.Context) (leave func(), err error)) {
	services.Register(http2.Service{Name: "troupe.v1.Operator", Methods: map[string]http2.Handler{
		"Status": looking(admit, look, func(ctx context.Context, _ *StatusRequest) (*ClusterStatus, error) {
			return server.ClusterStatus(ctx), nil
		}),
		"ListActors": looking(admit, look, func(ctx context.Context, _ *ListActorsRequest) (*TaskActors, error) {
			return server.TaskActors(ctx), nil
		}),
		"See":        looking(admit, look, func(ctx context.Context, q *view.Query) (*view.Cluster, error) { return server.See(ctx, q), nil }),
		"Graph":      looking(admit, look, server.Graph),
		"Trace":      Unary(admit, server.Trace),
		"CancelStep": Unary(nil, server.CancelStep),
		"Drain":      Unary(nil, server.DrainTask),
	}})
}

// looking returns the handler of a method that looks at tasks.
func looking[Q, A any](admit func(context.Context) (context.Context, error), look func(context.Context) (func(), error), answer func(context.Context, *Q) (*A, error)) http2.Handler {
	return Unary(admit, func(ctx context.Context, q *Q) (*A, error) {
		leave, err := look(ctx)
		if err != nil {
			return nil, err
		}
		defer leave()
		return answer(ctx, q)
	})
}
