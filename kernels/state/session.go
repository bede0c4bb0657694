package state

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
)

// A session may keep a tensor where it was computed and use it in later runs by its handle, a string "node;number;device". Other sessions
// cannot access it. It ends with the session at the latest.

// kindSessionTensor is the kind of tensors that sessions keep.
const kindSessionTensor = "SessionTensor"

// sessionTensors numbers the tensors that sessions of this process have kept.
var sessionTensors atomic.Int64

// sessionTensor is a tensor that a session keeps.
type sessionTensor struct {
	name   string
	keeper *keeper

	mu    sync.Mutex
	value *tensor.Tensor // nil once deleted
}

// Ephemeral says that the tensor ends with its session.
func (*sessionTensor) Ephemeral() {}

// Close releases the tensor.
func (s *sessionTensor) Close() {
	s.keeper.forget(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.value != nil {
		s.value.Release()
		s.value = nil
	}
}

// take returns the tensor with a reference for the caller, or nil if it was deleted.
func (s *sessionTensor) take() *tensor.Tensor {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.value == nil {
		return nil
	}
	return s.value.Retain()
}

// Describe describes the tensor for listings.
func (s *sessionTensor) Describe() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.value == nil {
		return "deleted"
	}
	return fmt.Sprintf("%v%v kept by a session", s.value.DType(), s.value.Shape())
}

// keeper is the kernel that keeps tensors. Everything it keeps ends with it.
type keeper struct {
	session   string
	resources kernels.Resources

	mu   sync.Mutex
	kept map[*sessionTensor]bool
}

func (k *keeper) forget(s *sessionTensor) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.kept, s)
}

func newGetSessionHandle(c *kernels.Construction) (any, error) {
	return &keeper{session: c.Session, resources: c.Device.Resources(), kept: map[*sessionTensor]bool{}}, nil
}

// sessionTensorName returns the container's name for a session's tensor, in the form for all resources private to a session, which listings
// recognize.
func sessionTensorName(session, handle string) string { return "_" + session + "_" + handle }

// Compute keeps the input and outputs its handle.
func (k *keeper) Compute(ctx *kernels.Context) error {
	if k.session == "" {
		return nullSessionState(ctx)
	}
	handle := fmt.Sprintf("%s;%d;%s", ctx.Node.Name, sessionTensors.Add(1), ctx.Device.Name())
	s := &sessionTensor{name: sessionTensorName(k.session, handle), keeper: k, value: ctx.Input(0).Retain()}
	k.mu.Lock()
	k.kept[s] = true
	k.mu.Unlock()
	if _, err := k.resources.LookupOrCreate("", kindSessionTensor, s.name, func() (containers.Resource, error) { return s, nil }); err != nil {
		s.Close()
		return err
	}
	if ctx.Node.OutTypes[0] == tensor.Resource {
		ctx.SetOutput(0, tensor.FromHandle(tensor.Handle{Device: ctx.Device.Name(), Container: "TensorHandle", Name: handle, Type: "TensorHandle"}))
		return nil
	}
	return args.OutputString(ctx, handle)
}

// Close deletes what the session has not deleted.
func (k *keeper) Close() {
	k.mu.Lock()
	kept := slices.Collect(maps.Keys(k.kept))
	k.mu.Unlock()
	for _, s := range kept {
		// A failed container does not close its resources.
		if err := k.resources.Delete("", kindSessionTensor, s.name); status.CodeOf(err) == status.Aborted {
			s.Close()
		}
	}
}

func nullSessionState(ctx *kernels.Context) error {
	return status.Errorf(status.FailedPrecondition, "%s called on null session state", ctx.Node.Op)
}

// sessionHandle reads the handle at input 0, a string in both versions of the ops.
func sessionHandle(ctx *kernels.Context, session, refused string) (string, error) {
	if session == "" {
		return "", nullSessionState(ctx)
	}
	return args.ScalarString(ctx, 0, refused)
}

func notInSession(handle string) error {
	return status.InvalidArgumentf("The tensor with handle '%s' is not in the session store.", handle)
}

func newGetSessionTensor(c *kernels.Construction) (any, error) {
	dtype, err := c.Attrs().Type("dtype")
	if err != nil {
		return nil, err
	}
	session := c.Session
	return kernels.Func(func(ctx *kernels.Context) error {
		handle, err := sessionHandle(ctx, session, "handle must be scalar")
		if err != nil {
			return err
		}
		r, err := ctx.Device.Resources().Lookup("", kindSessionTensor, sessionTensorName(session, handle))
		if status.CodeOf(err) == status.NotFound {
			return notInSession(handle)
		} else if err != nil {
			return err
		}
		s, ok := r.(*sessionTensor)
		if !ok {
			return kernels.WrongResource("", handle, r, s)
		}
		t := s.take()
		if t == nil {
			return notInSession(handle)
		}
		if t.DType() != dtype {
			defer t.Release()
			return status.InvalidArgumentf("The tensor with handle '%s' is of type %v, not %v", handle, t.DType(), dtype)
		}
		ctx.SetOutput(0, t)
		return nil
	}), nil
}

func newDeleteSessionTensor(c *kernels.Construction) (any, error) {
	session := c.Session
	return kernels.Func(func(ctx *kernels.Context) error {
		handle, err := sessionHandle(ctx, session, "`handle` must be scalar")
		if err != nil {
			return err
		}
		err = ctx.Device.Resources().Delete("", kindSessionTensor, sessionTensorName(session, handle))
		if status.CodeOf(err) == status.NotFound {
			return status.InvalidArgumentf("Failed to delete a tensor with handle '%s' in the session store.", handle)
		}
		return err
	}), nil
}
