package troupe

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// double doubles a vector of float32.
func double(_ context.Context, c *FunctionCall) ([]*tensor.Tensor, error) {
	y, err := c.New(tensor.Float32, c.Inputs[0].Shape())
	if err != nil {
		return nil, err
	}
	for i, v := range tensor.Of[float32](c.Inputs[0]) {
		tensor.Of[float32](y)[i] = 2 * v
	}
	return []*tensor.Tensor{y}, nil
}

// programCluster starts a cluster of two tasks, the first of which has the functions of a program.
func programCluster(t *testing.T, opts ...Option) (program, other *Server) {
	t.Helper()
	all := companyEach(t, 2, func(task int) []Option {
		if task == 0 {
			return opts
		}
		return nil
	})
	return all[0], all[1]
}

func TestFunctionsOfTheProgram(t *testing.T) {
	parallel(t)
	entered := make(chan struct{}, 1)
	program, other := programCluster(t, WithFunction("double", double),
		WithFunction("fails", func(context.Context, *FunctionCall) ([]*tensor.Tensor, error) {
			return nil, status.Errorf(status.DataLoss, "shard 3 is torn")
		}),
		WithFunction("breaks", func(context.Context, *FunctionCall) ([]*tensor.Tensor, error) { return nil, errors.New("no") }),
		WithFunction("panics", func(context.Context, *FunctionCall) ([]*tensor.Tensor, error) { panic("as it was told") }),
		WithFunction("nothing", func(context.Context, *FunctionCall) ([]*tensor.Tensor, error) { return nil, nil }),
		WithFunction("whole", func(_ context.Context, c *FunctionCall) ([]*tensor.Tensor, error) {
			return []*tensor.Tensor{tensor.FromScalar(int64(1))}, nil
		}),
		WithFunction("waits", func(ctx context.Context, _ *FunctionCall) ([]*tensor.Tensor, error) {
			entered <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}))
	c, err := Dial(t.Context(), other.Target())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	call := func(m Master, device, name string) (float32, error) {
		s := op.NewScope().WithDevice(device)
		x := op.Placeholder(s, tensor.Float32, attr.Shape(shape.Of(2)))
		y := op.PyFunc(s, []op.Output{x}, name, []tensor.DType{tensor.Float32})
		def, err := s.GraphDef()
		if err != nil {
			t.Fatal(err)
		}
		session, err := m.NewSession(t.Context(), def, nil)
		if err != nil {
			return 0, err
		}
		defer session.Close(context.Background())
		v, err := tensor.FromSlice(tensor.Float32, tensor.Shape{2}, []float32{1, 3})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Release()
		got, err := session.Eval(deadline(t), Feeds{x: v}, y[0])
		if err != nil {
			return 0, err
		}
		defer got[0].Release()
		return tensor.Of[float32](got[0])[1], nil
	}
	for _, m := range []Master{program, c} {
		for _, device := range []string{"/job:w/task:0", "/job:w", "/cpu:0", ""} {
			if got, err := call(m, device, "double"); err != nil || got != 6 {
				t.Errorf("double on %q: %v, %v", device, got, err)
			}
		}
		for name, want := range map[string]struct {
			code status.Code
			text string
		}{
			"fails":   {status.DataLoss, "shard 3 is torn"},
			"breaks":  {status.Unknown, "no"},
			"panics":  {status.Internal, "The function panics panicked: as it was told"},
			"nothing": {status.InvalidArgument, "nothing returns 0 values, but expects to see 1 values."},
			"whole":   {status.InvalidArgument, "0-th value returned by whole is int64, but expects float"},
			"nobody":  {status.InvalidArgument, `has no function "nobody"; it has breaks, double, fails`},
		} {
			if _, err := call(m, "/job:w/task:0", name); status.CodeOf(err) != want.code || !strings.Contains(err.Error(), want.text) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := call(m, "/job:w/task:1", "double"); status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), "belongs to no program") {
			t.Errorf("on a task without a program: %v", err)
		}
	}
	// A step that is given up ends at once, and so does the function's context.
	s := op.NewScope().WithDevice("/job:w/task:0")
	y := op.PyFunc(s, nil, "waits", []tensor.DType{tensor.Float32})
	session := sessionOf(t, program, s)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	if _, err := session.Eval(ctx, nil, y[0]); !errors.Is(err, context.Canceled) {
		t.Errorf("a step that was given up: %v", err)
	}
}

// A dataset calls functions of the program, too.
func TestFunctionsInDatasets(t *testing.T) {
	parallel(t)
	program, _ := programCluster(t, WithFunction("double", double))
	s := op.NewScope().WithDevice("/job:w/task:0")
	types, shapes := []tensor.DType{tensor.Float32}, []shape.Shape{shape.Of(1)}
	d := op.TensorSliceDataset(s, []op.Output{op.Const(s, [][]float32{{1}, {2}, {3}})}, shapes)
	f := op.NewFunction(s, "f", []op.Param{{DType: tensor.Float32, Shape: shape.Of(1)}}, func(s *op.Scope, in []op.Output) []op.Output {
		return op.PyFuncStateless(s, in, "double", types)
	})
	d = op.MapDataset(s, d, f.Captures(), f.Func(), types, shapes)
	it := op.IteratorV2(s, "", "", types, shapes)
	begin, next := op.MakeIterator(s, d, it), op.IteratorGetNext(s, it, types, shapes)[0]
	session := sessionOf(t, program, s)
	if _, err := session.Eval(deadline(t), nil, begin); err != nil {
		t.Fatal(err)
	}
	for _, want := range []float32{2, 4, 6} {
		got, err := session.Eval(deadline(t), nil, next)
		if err != nil {
			t.Fatal(err)
		}
		if v := tensor.Of[float32](got[0])[0]; v != want {
			t.Errorf("%v, want %v", v, want)
		}
		got[0].Release()
	}
}

// A server stops in time although a function does not end, and its error names the function.
func TestFunctionsThatDoNotEnd(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	defer close(leave)
	s, err := NewLocalServer(t.Context(), silent, WithFunctions(func(context.Context, *FunctionCall) ([]*tensor.Tensor, error) {
		close(entered)
		<-leave
		return nil, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	g := op.NewScope()
	y := op.PyFunc(g, nil, "stone", []tensor.DType{tensor.Float32})
	session := sessionOf(t, s, g)
	done := make(chan error, 1)
	go func() {
		_, err := session.Eval(t.Context(), nil, y[0])
		done <- err
	}()
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := s.Stop(ctx); status.CodeOf(err) != status.DeadlineExceeded || !strings.Contains(err.Error(), "of stone") {
		t.Errorf("the server stopped with %v", err)
	}
	if err := <-done; status.CodeOf(err) != status.Cancelled && status.CodeOf(err) != status.Unavailable {
		t.Errorf("the step ended with %v", err)
	}
}
