package eager

import (
	"context"
	"strconv"

	devpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/device_attributes_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/remote/internal/port"
)

// Contexts are the eager contexts of a task.
type Contexts interface {
	// Create opens a context for the client in ctx. It replaces one with the same ID whose view is not newer.
	Create(ctx context.Context, rights actors.Rights, spec actors.EagerSpec) (Context, error)
	// Context returns a context for a call of the client in ctx, which keeps it open. The error for an unknown one is ABORTED.
	Context(ctx context.Context, id uint64) (Context, error)
	// Open returns the context with an ID without keeping it open; nil if there is none.
	Open(id uint64) Context
	// All returns the open contexts.
	All() []Context
}

// Context is an eager context; see actors.EagerContext.
type Context interface {
	ID() uint64
	Handle() string
	View() uint64
	Rights() actors.Rights
	// Devices returns the task's devices that are shown, by their own names, under the client's names.
	Devices(shown func(name string) bool) []*devpb.DeviceAttributes
	Update(view uint64, spec *actors.EagerSpec) error
	Close(view uint64)
	Run(ctx context.Context, op *corepb.Operation) (*corepb.QueueResponse, error)
	// IsSilent reports whether an op or a function has no outputs. It is false for unknown ones.
	IsSilent(op *corepb.Operation) bool
	SendTensor(op *corepb.SendTensorOp) error
	SendPackedHandle(op *corepb.SendPackedHandleOp) error
	Decref(h *corepb.RemoteTensorHandle) error
	Register(f *corepb.RegisterFunctionOp) error
	RemoveFunction(name string) error
	RunComponent(ctx context.Context, q *corepb.RunComponentFunctionRequest) (*corepb.RunComponentFunctionResponse, error)
	Cleanup(step int64)
}

// Of returns the eager contexts of a task.
func Of(t *actors.Task) Contexts { return contextsOf{t} }

type contextsOf struct{ task *actors.Task }

func (c contextsOf) Create(ctx context.Context, rights actors.Rights, spec actors.EagerSpec) (Context, error) {
	return orNil(c.task.CreateEagerContext(ctx, port.ConnectionOf(ctx), rights, spec))
}

func (c contextsOf) Context(ctx context.Context, id uint64) (Context, error) {
	return orNil(c.task.EagerContext(id, port.ConnectionOf(ctx)))
}

func (c contextsOf) Open(id uint64) Context {
	found, _ := orNil(c.task.OpenEagerContext(id), nil)
	return found
}

func (c contextsOf) All() (all []Context) {
	for _, found := range c.task.EagerContexts() {
		all = append(all, found)
	}
	return all
}

// orNil returns a context, which is nil if c is nil.
func orNil(c *actors.EagerContext, err error) (Context, error) {
	if c == nil {
		return nil, err
	}
	return c, err
}

// nameOf returns the name of a context in logs and errors.
func nameOf(id uint64) string { return "eager context " + strconv.FormatUint(id, 10) }
