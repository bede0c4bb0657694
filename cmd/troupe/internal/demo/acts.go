package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/client"
)

// session opens a session for the duration of use.
func session(ctx context.Context, c *client.Client, g *graphpb.GraphDef, use func(*client.Session) error) error {
	s, err := c.NewSession(ctx, g, nil)
	if err != nil {
		return err
	}
	err = use(s)
	// Reset closes sessions too: there is then nothing left to close.
	if e := s.Close(ctx); e != nil && err == nil && status.CodeOf(e) != status.Aborted {
		err = e
	}
	return err
}

// scalar runs a step that fetches one float.
func scalar(ctx context.Context, s *client.Session, fetch string) (float32, error) {
	out, err := s.Run(ctx, nil, []string{fetch + ":0"}, nil)
	if err != nil {
		return 0, err
	}
	defer out[0].Release()
	if out[0].DType() != tensor.Float32 || out[0].Len() != 1 {
		return 0, fmt.Errorf("%s is a %v of shape %v, not one float", fetch, out[0].DType(), out[0].Shape())
	}
	return tensor.Of[float32](out[0])[0], nil
}

// expect runs a step that fetches one float and checks it.
func expect(ctx context.Context, s *client.Session, fetch string, want float32) error {
	got, err := scalar(ctx, s, fetch)
	if err == nil && got != want {
		err = fmt.Errorf("%s is %v, not %v", fetch, got, want)
	}
	return err
}

// sharedVariable has two clients count on one variable, each through its own master. Neither says where the variable
// is.
func sharedVariable(ctx context.Context, st *stage) (string, error) {
	var b builder
	x := b.variable("x", "")
	b.floats("init", "Assign", x, b.constant("zero", 0))
	b.floats("count", "AssignAdd", x, b.constant("one", 1))
	g := b.def()
	err := session(ctx, st.worker0, g, func(s *client.Session) error {
		if _, err := s.Run(ctx, nil, nil, []string{"init"}); err != nil {
			return err
		}
		if err := expect(ctx, s, "count", 1); err != nil {
			return err
		}
		st.out.says("client A, through /job:worker/task:0: x is 1.0")
		return nil
	})
	if err != nil {
		return "", err
	}
	err = session(ctx, st.worker1, g, func(s *client.Session) error {
		if err := expect(ctx, s, "count", 2); err != nil {
			return err
		}
		st.out.says("client B, through /job:worker/task:1: x is 2.0")
		return nil
	})
	return "both clients count on the same x", err
}

// containersAndReset keeps a variable of one name in two containers and empties one of them.
func containersAndReset(ctx context.Context, st *stage) (string, error) {
	graphOf := func(container string, v float32) *graphpb.GraphDef {
		var b builder
		x := b.variable("x", container)
		b.floats("init", "Assign", x, b.constant("value", v))
		b.floats("read", "Identity", x)
		return b.def()
	}
	first, second := graphOf("problem_1", 1), graphOf("problem_2", 2)
	for i, g := range []*graphpb.GraphDef{first, second} {
		err := session(ctx, st.worker0, g, func(s *client.Session) error {
			if _, err := s.Run(ctx, nil, nil, []string{"init"}); err != nil {
				return err
			}
			return expect(ctx, s, "read", float32(i+1))
		})
		if err != nil {
			return "", err
		}
	}
	st.out.says("x is 1.0 in container problem_1 and 2.0 in problem_2")
	if err := st.worker1.Reset(ctx, "problem_1"); err != nil {
		return "", err
	}
	st.out.says("reset problem_1, through another task")
	err := session(ctx, st.worker0, first, func(s *client.Session) error {
		_, err := scalar(ctx, s, "read")
		if status.CodeOf(err) != status.FailedPrecondition {
			return fmt.Errorf("reading x of the emptied container should be FAILED_PRECONDITION, it is %v: %w", status.CodeOf(err), err)
		}
		text, _, _ := strings.Cut(err.Error(), "\n\t")
		st.out.says("reading x in problem_1: %s", strings.ReplaceAll(text, "\n", " "))
		return nil
	})
	if err != nil {
		return "", err
	}
	err = session(ctx, st.worker0, second, func(s *client.Session) error { return expect(ctx, s, "read", 2) })
	return "problem_1 is empty, x in problem_2 is still 2.0", err
}

// elements is how many the producer hands to the consumer, capacity how many the queue holds.
const elements, capacity = 200, 16

// queueBetweenMasters moves elements through a queue on the ps, in through one master and out
// through another one.
func queueBetweenMasters(ctx context.Context, st *stage) (string, error) {
	b := builder{device: "/job:ps/task:0"}
	floats := types(float)
	q := b.node("pipeline", "FIFOQueueV2", attrs{"component_types": floats, "shapes": {}, "capacity": integer(capacity),
		"container": text(""), "shared_name": text("pipeline")})
	b.device = ""
	in := b.node("in", "Placeholder", attrs{"dtype": dtype(float), "shape": shape()})
	b.node("put", "QueueEnqueueV2", attrs{"Tcomponents": floats, "timeout_ms": integer(-1)}, q, in)
	b.node("get", "QueueDequeueV2", attrs{"component_types": floats, "timeout_ms": integer(-1)}, q)
	b.node("close", "QueueCloseV2", attrs{"cancel_pending_enqueues": boolean(false)}, q)
	g := b.def()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	produced := make(chan error, 1)
	go func() {
		err := session(ctx, st.worker0, g, func(s *client.Session) error { return produce(ctx, s) })
		if err != nil {
			cancel(fmt.Errorf("the producer: %w", err))
		}
		produced <- err
	}()
	sum, err := 0.0, error(nil)
	consumeErr := session(ctx, st.worker1, g, func(s *client.Session) error {
		sum, err = consume(ctx, s)
		return err
	})
	if consumeErr != nil {
		cancel(fmt.Errorf("the consumer: %w", consumeErr))
	}
	if err := errors.Join(<-produced, consumeErr); err != nil {
		return "", context.Cause(ctx)
	}
	if want := float64(elements*(elements-1)) / 2; sum != want {
		return "", fmt.Errorf("the elements add up to %v, not %v", sum, want)
	}
	st.out.says("%d elements went in through worker 0 and out through worker 1, past a queue of %d on the ps", elements, capacity)
	return "all came out, in order, and then the queue was closed", nil
}

func produce(ctx context.Context, s *client.Session) error {
	for i := range elements {
		v := tensor.Scalar(tensor.Float32, float32(i))
		_, err := s.Run(ctx, map[string]*tensor.Tensor{"in:0": v}, nil, []string{"put"})
		v.Release()
		if err != nil {
			return err
		}
	}
	_, err := s.Run(ctx, nil, nil, []string{"close"})
	return err
}

// consume takes elements out until the queue is closed and empty.
func consume(ctx context.Context, s *client.Session) (sum float64, err error) {
	for i := range elements + 1 {
		got, err := scalar(ctx, s, "get")
		switch {
		case i == elements && status.CodeOf(err) == status.OutOfRange:
			return sum, nil
		case err != nil:
			return sum, err
		case got != float32(i):
			return sum, fmt.Errorf("element %d is %v", i, got)
		}
		sum += float64(got)
	}
	return sum, fmt.Errorf("the queue gave more than %d elements", elements)
}
