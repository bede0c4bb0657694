package demo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/client"
)

// The line that the workers learn, and how.
const (
	slope, intercept = 3, 2
	steps            = 150 // of each worker
	batch            = 64
	rate             = 0.1
	tolerance        = 0.01
)

// trainingGraph is a worker's view: weights on the ps, gradients of the mean square error on the
// worker, descent where the weights are.
func trainingGraph(worker int) *graphpb.GraphDef {
	const ps = "/job:ps/task:0"
	b := builder{device: ps}
	w, c := b.variable("w", "training"), b.variable("c", "training")
	zero := b.constant("zero", 0)
	b.floats("init_w", "Assign", w, zero)
	b.floats("init_c", "Assign", c, zero)
	step := b.constant("rate", rate)
	readW, readC := b.floats("read_w", "Identity", w), b.floats("read_c", "Identity", c)

	b.device = fmt.Sprintf("/job:worker/task:%d", worker)
	x := b.node("x", "Placeholder", attrs{"dtype": dtype(float), "shape": shape(batch)})
	y := b.node("y", "Placeholder", attrs{"dtype": dtype(float), "shape": shape(batch)})
	off := b.floats("error", "Sub", b.floats("line", "AddV2", b.floats("scaled", "Mul", x, readW), readC), y)
	all, two := b.axes("all", 0), b.constant("two", 2)
	mean := func(name, input string) string {
		return b.node(name, "Mean", attrs{"T": dtype(float), "Tidx": dtype(3), "keep_dims": boolean(false)}, input, all)
	}
	mean("loss", b.floats("square", "Square", off))
	gradW := b.floats("gradient_w", "Mul", two, mean("mean_w", b.floats("error_x", "Mul", off, x)))
	gradC := b.floats("gradient_c", "Mul", two, mean("mean_c", off))

	b.device = ps
	b.node("train_w", "ApplyGradientDescent", attrs{"T": dtype(float), "use_locking": boolean(true)}, w, step, gradW)
	b.node("train_c", "ApplyGradientDescent", attrs{"T": dtype(float), "use_locking": boolean(true)}, c, step, gradC)
	return b.def()
}

// training has two workers, each a master of its own, learn one line concurrently.
func training(ctx context.Context, st *stage) (string, error) {
	err := session(ctx, st.ps, trainingGraph(0), func(s *client.Session) error {
		_, err := s.Run(ctx, nil, nil, []string{"init_w", "init_c"})
		return err
	})
	if err != nil {
		return "", err
	}
	began := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make(chan error, 2)
	losses := make([][2]float32, 2) // first and last
	for i, c := range []*client.Client{st.worker0, st.worker1} {
		go func() {
			err := session(ctx, c, trainingGraph(i), func(s *client.Session) (err error) {
				losses[i], err = work(ctx, s, uint64(i))
				return err
			})
			if err != nil {
				cancel(fmt.Errorf("worker %d: %w", i, err))
			}
			results <- err
		}()
	}
	if err := errors.Join(<-results, <-results); err != nil {
		return "", context.Cause(ctx)
	}
	took := time.Since(began)
	for i, l := range losses {
		st.out.says("worker %d: %d steps, loss %.3f at first and %.6f at last", i, steps, l[0], l[1])
	}
	var w, c float32
	err = session(ctx, st.ps, trainingGraph(0), func(s *client.Session) (err error) {
		if w, err = scalar(ctx, s, "read_w"); err == nil {
			c, err = scalar(ctx, s, "read_c")
		}
		return err
	})
	if err != nil {
		return "", err
	}
	st.out.says("learned y = %.3f x + %.3f from y = %d x + %d, %.0f steps a second", w, c, slope, intercept, 2*steps/took.Seconds())
	if math.Abs(float64(w)-slope) > tolerance || math.Abs(float64(c)-intercept) > tolerance {
		return "", fmt.Errorf("the training did not converge: w is %v and c is %v", w, c)
	}
	return fmt.Sprintf("both weights are within %v", tolerance), nil
}

// work trains on batches of points on the line and returns the first and the last loss.
func work(ctx context.Context, s *client.Session, seed uint64) (losses [2]float32, err error) {
	random := rand.New(rand.NewPCG(seed, 1))
	x, err := tensor.New(tensor.Host, tensor.Float32, tensor.Shape{batch})
	if err != nil {
		return losses, err
	}
	defer x.Release()
	y, err := tensor.New(tensor.Host, tensor.Float32, tensor.Shape{batch})
	if err != nil {
		return losses, err
	}
	defer y.Release()
	for step := range steps {
		xs, ys := tensor.Of[float32](x), tensor.Of[float32](y)
		for i := range xs {
			xs[i] = 2*random.Float32() - 1
			ys[i] = slope*xs[i] + intercept
		}
		out, err := s.Run(ctx, map[string]*tensor.Tensor{"x:0": x, "y:0": y}, []string{"loss:0"}, []string{"train_w", "train_c"})
		if err != nil {
			return losses, err
		}
		losses[min(step, 1)] = tensor.Of[float32](out[0])[0]
		out[0].Release()
	}
	return losses, nil
}
