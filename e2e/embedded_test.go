//go:build unix

package e2e

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/remote/spec/spectest"
	"go.uber.org/goleak"
)

// embedded is a cluster whose tasks all run in this process.
type embedded struct {
	servers []*troupe.Server
}

// embed starts the given number of tasks of one job, and stops them when the test ends. The options are those of the first task.
func embed(t *testing.T, job string, tasks int, first ...troupe.Option) *embedded {
	t.Helper()
	spec := troupe.ClusterSpec{}
	for range tasks {
		spec[job] = append(spec[job], spectest.Address(t))
	}
	e := &embedded{}
	t.Cleanup(func() { e.stop(t) })
	for i := range tasks {
		options := []troupe.Option{troupe.WithTask(i), troupe.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))}
		if i == 0 {
			options = append(options, first...)
		}
		s, err := troupe.NewServer(t.Context(), spec, options...)
		if err != nil {
			t.Fatal(err)
		}
		e.servers = append(e.servers, s)
	}
	return e
}

func (e *embedded) stop(t *testing.T) {
	t.Helper()
	for _, s := range e.servers {
		drain, cancel := context.WithTimeout(context.Background(), time.Second)
		if err := s.Stop(drain); err != nil {
			t.Errorf("%s did not stop in order: %v", s.Task(), err)
		}
		cancel()
		if err := s.Join(bounded(t)); err != nil {
			t.Errorf("%s: Join after Stop: %v", s.Task(), err)
		}
	}
	e.servers = nil
}

// TestEmbeddedServers has TensorFlow's client drive servers embedded in a Go program.
func TestEmbeddedServers(t *testing.T) {
	t.Parallel()
	needPython(t)
	e := embed(t, "task", 3)
	d := drivers.borrow(t)
	first, second, third := e.servers[0].Target(), e.servers[1].Target(), e.servers[2].Target()
	expect(t, "arithmetic", program(t, d, "arithmetic.py", second), "9.0")
	expect(t, "counter", program(t, d, "counter.py", first, "new"), "1.0")
	expect(t, "counter, second task", program(t, d, "counter.py", second), "2.0")
	expect(t, "counter, third task", program(t, d, "counter.py", third), "3.0")
	expect(t, "departments", program(t, d, "departments.py", third, first), "done")
}

// TestPythonCallsGoFunctions has TensorFlow's client call functions of the Go program that embeds a server.
func TestPythonCallsGoFunctions(t *testing.T) {
	t.Parallel()
	needPython(t)
	given := make(chan struct{}, 2)
	e := embed(t, "task", 2,
		troupe.WithFunction("double", func(_ context.Context, c *troupe.FunctionCall) ([]*tensor.Tensor, error) {
			twice, err := c.New(tensor.Float32, c.Inputs[0].Shape())
			if err != nil {
				return nil, err
			}
			for i, v := range tensor.Of[float32](c.Inputs[0]) {
				tensor.Of[float32](twice)[i] = 2 * v
			}
			return []*tensor.Tensor{twice}, nil
		}),
		troupe.WithFunction("upper", func(_ context.Context, c *troupe.FunctionCall) ([]*tensor.Tensor, error) {
			var upper []string
			for _, s := range c.Inputs[0].Strings() {
				upper = append(upper, strings.ToUpper(s))
			}
			all, err := tensor.FromStrings(c.Inputs[0].Shape(), upper)
			return []*tensor.Tensor{all, tensor.FromScalar(int64(len(upper)))}, err
		}),
		troupe.WithFunction("torn", func(context.Context, *troupe.FunctionCall) ([]*tensor.Tensor, error) {
			return nil, status.Errorf(status.DataLoss, "shard 3 is torn")
		}),
		troupe.WithFunction("waits", func(ctx context.Context, _ *troupe.FunctionCall) ([]*tensor.Tensor, error) {
			<-ctx.Done()
			given <- struct{}{}
			return nil, ctx.Err()
		}))
	d := drivers.borrow(t)
	expect(t, "functions", program(t, d, "go_functions.py", e.servers[0].Target(), e.servers[1].Target()), "done")
	for range 2 { // calls of steps whose time was over
		select {
		case <-given:
		case <-time.After(extent.Slack(10 * time.Second)):
			t.Fatal("the context of a call outlived its step")
		}
	}
}

// TestStoppedServersLeaveNoGoroutine checks that nothing of a cluster keeps running when its servers have stopped, even with open sessions,
// waiting steps and connected clients.
func TestStoppedServersLeaveNoGoroutine(t *testing.T) {
	here := goleak.IgnoreCurrent()
	e := embed(t, "task", 3)
	g := graphOf(two(), on(node("there", "AddV2", float, "two", "two"), "/job:task/task:1"), on(node("end", "Mul", float, "there", "two"), "/job:task/task:2"))

	m, err := dial(e.servers[0].Address())
	if err != nil {
		t.Fatal(err)
	}
	remote, err := m.createSession(bounded(t), g)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.step(bounded(t), remote, nil, "end:0"); err != nil {
		t.Fatal(err)
	}
	local, err := e.servers[1].NewSession(t.Context(), g, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := local.Run(t.Context(), nil, []string{"end:0"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range out {
		v.Release()
	}

	// This step waits for an element of a queue on another task while the servers stop.
	waiting := graphOf(on(queueNode("queue"), "/job:task/task:2"), on(dequeueNode("take", "queue"), "/job:task/task:2"))
	if err := local.Extend(t.Context(), waiting); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := local.Run(context.Background(), nil, []string{"take:0"}, nil)
		ended <- err
	}()
	e.stop(t)
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a step got an element that nobody gave")
		}
	case <-time.After(extent.Slack(10 * time.Second)):
		t.Error("a step outlived its servers")
	}
	m.close()
	goleak.VerifyNone(t, here)
}

// TestServersComeAndGo runs one cluster after another in the same process.
func TestServersComeAndGo(t *testing.T) {
	for range 5 {
		e := embed(t, "task", 2)
		s, err := e.servers[0].NewSession(t.Context(), graphOf(two(), on(node("end", "Neg", float, "two"), "/job:task/task:1")), nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := s.Run(t.Context(), nil, []string{"end:0"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		out[0].Release()
		e.stop(t)
	}
}
