package dataflow

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
)

const (
	kindStack       = "Stack"
	kindTensorArray = "TensorArray"
)

// stepResources numbers the resources that loops create, one for each execution of an op.
var stepResources atomic.Int64

// stack stores values of loop iterations in TensorFlow 1's control flow; the gradient takes them out again. It ends with its step.
type stack struct {
	name  string
	dtype tensor.DType
	max   int // maximum number of values, negative for no limit

	mu     sync.Mutex
	closed bool
	values []*tensor.Tensor
}

// Close drops the values. Later uses fail.
func (s *stack) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, t := range s.values {
		t.Release()
	}
	s.values = nil
}

func (s *stack) push(t *tensor.Tensor) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return status.InvalidArgumentf("Stack[%s] has already been closed.", s.name)
	case s.max >= 0 && len(s.values) >= s.max:
		return status.InvalidArgumentf("Stack[%s] overflowed its max_size (%d)", s.name, s.max)
	}
	s.values = append(s.values, t.Retain())
	return nil
}

func (s *stack) pop() (*tensor.Tensor, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, status.InvalidArgumentf("Stack[%s] has already been closed.", s.name)
	}
	last := len(s.values) - 1
	if last < 0 {
		return nil, status.InvalidArgumentf("Stack[%s] is empty when calling Pop().", s.name)
	}
	t := s.values[last]
	s.values[last] = nil
	s.values = s.values[:last]
	return t, nil
}

// newStack returns the constructor of a kernel that creates a stack in the step's container; byRef reports whether its handle is a
// reference to the strings that name it.
func newStack(byRef bool) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		a := c.Attrs().Reader()
		dtype, name := a.Type("elem_type"), a.Str("stack_name")
		if err := a.Err(); err != nil {
			return nil, err
		}
		if name == "" {
			name = c.Node.Name
		}
		return kernels.Func(func(ctx *kernels.Context) error {
			most := -1
			if len(ctx.Inputs) > 0 {
				var err error
				if most, err = args.ScalarInput32(ctx, 0, "Stack size must be a scalar, but had shape: %v"); err != nil {
					return err
				}
			}
			s := &stack{name: fmt.Sprintf("%s_%d", name, stepResources.Add(1)), dtype: dtype, max: most}
			if err := addToStep(ctx, kindStack, s.name, s); err != nil {
				return err
			}
			if byRef {
				ctx.SetRef(0, kernels.NameVariable(ctx.Step.Container, s.name))
			} else {
				ctx.SetOutput(0, stepHandle(ctx, kindStack, s.name, s))
			}
			return nil
		}), nil
	}
}

// addToStep adds a new resource to the step's container.
func addToStep(ctx *kernels.Context, kind, name string, r containers.Resource) error {
	have, err := ctx.Device.Resources().LookupOrCreate(ctx.Step.Container, kind, name, func() (containers.Resource, error) { return r, nil })
	if err == nil && have != r {
		err = status.Errorf(status.AlreadyExists, "Resource %s/%s/%s", ctx.Step.Container, name, kind)
	}
	return err
}

func stepHandle(ctx *kernels.Context, kind, name string, local any) *tensor.Tensor {
	return tensor.FromHandle(tensor.Handle{Device: ctx.Device.Name(), Container: ctx.Step.Container, Name: name, Type: kind, Local: local})
}

// stepResource returns the resource named by the handle at input 0, in the step's container.
func stepResource[R containers.Resource](ctx *kernels.Context, kind string) (r R, err error) {
	var name string
	if ref := ctx.Ref(0); ref != nil {
		t := ref.Read()
		if t == nil {
			return r, ref.Uninitialized()
		}
		defer t.Release()
		if name, err = handleName(kind, t); err != nil {
			return r, err
		}
	} else if t := ctx.Input(0); t != nil && t.DType() == tensor.String {
		if name, err = handleName(kind, t); err != nil {
			return r, err
		}
	} else {
		h, err := ctx.Handle(0)
		if err != nil {
			return r, err
		}
		if r, ok := h.Local.(R); ok {
			return r, nil
		}
		name = h.Name
	}
	found, err := ctx.Device.Resources().Lookup(ctx.Step.Container, kind, name)
	if err != nil {
		return r, err
	}
	r, ok := found.(R)
	if !ok {
		return r, status.InvalidArgumentf("Resource %s is not a %s", name, kind)
	}
	return r, nil
}

// handleName returns the name from a handle that consists of a container and a name.
func handleName(kind string, t *tensor.Tensor) (string, error) {
	if t.DType() != tensor.String || t.Len() != 2 {
		text := "Stack handle must have two elements, but had shape: %v"
		if kind == kindTensorArray {
			text = "Tensor array handle must be 2-element vector, but had shape: %v"
		}
		return "", status.InvalidArgumentf(text, t.Shape())
	}
	return t.Strings()[1], nil
}

// stackPush pushes input 1 and passes it on. It ignores swap_memory, a hint for devices with little memory.
func stackPush(ctx *kernels.Context) error {
	s, err := stepResource[*stack](ctx, kindStack)
	if err != nil {
		return err
	}
	t := ctx.Input(1)
	if t.DType() != s.dtype {
		return status.InvalidArgumentf("Must have type %v but got %v", s.dtype, t.DType())
	}
	if err := s.push(t); err != nil {
		return err
	}
	ctx.Pass(1, 0)
	return nil
}

func newStackPop(c *kernels.Construction) (any, error) {
	dtype, err := c.Attrs().Type("elem_type")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		s, err := stepResource[*stack](ctx, kindStack)
		if err != nil {
			return err
		}
		if s.dtype != dtype {
			return status.InvalidArgumentf("Must have type %v but got %v", s.dtype, dtype)
		}
		t, err := s.pop()
		if err == nil {
			ctx.SetOutput(0, t)
		}
		return err
	}), nil
}

func stackClose(ctx *kernels.Context) error {
	s, err := stepResource[*stack](ctx, kindStack)
	if err == nil {
		s.Close()
	}
	return err
}
