// Linear fits a line on a cluster of three tasks: the variables live on a parameter server, and two workers train them concurrently, each
// through its own server.
//
//	go run ./examples/linear                                 on a cluster in this process
//	go run ./examples/linear -workers grpc://…,grpc://…      on a running cluster, for example of troupe up --tasks ps=1,worker=2
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/examples/place"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/graph/train"
	"golang.org/x/sync/errgroup"
)

// line is the model y = w·x + b with its training step. Every worker uses the same graph, and so, by their names, the same variables.
type line struct {
	graph            *op.Scope
	x, y, w, b, loss op.Output
	step, init       *op.Operation
}

func newLine() *line {
	s := op.NewScope()
	ps := s.WithDevice("/job:ps/task:0")
	m := &line{graph: s, x: op.Placeholder(s, tensor.Float32), y: op.Placeholder(s, tensor.Float32),
		w: op.NewVariable(ps.WithName("w"), op.Const(s, float32(0))).Read(s),
		b: op.NewVariable(ps.WithName("b"), op.Const(s, float32(0))).Read(s)}
	guess := op.AddV2(s, op.Mul(s, m.w, m.x), m.b)
	m.loss = op.Mean(s, op.SquaredDifference(s, guess, m.y), op.Const(s, []int32{0}))
	m.step = train.Minimize(s, train.NewSGD(0.1), m.loss)
	m.init = op.Initialize(s)
	return m
}

// points returns n batches of points near the line y = 3x + 2.
func (m *line) points(n int, seed uint64) func(yield func(troupe.Feeds, error) bool) {
	random := rand.New(rand.NewPCG(seed, 0))
	return func(yield func(troupe.Feeds, error) bool) {
		for range n {
			x, y := make([]float32, 32), make([]float32, 32)
			for i := range x {
				x[i] = 2*random.Float32() - 1
				y[i] = 3*x[i] + 2 + 0.1*(random.Float32()-0.5)
			}
			if !yield(troupe.Feeds{m.x: x, m.y: y}, nil) {
				return
			}
		}
	}
}

func run(ctx context.Context, out io.Writer, targets string) (err error) {
	servers, stop, err := place.Workers(ctx, targets, 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop(ctx)) }()

	m := newLine()
	def, err := m.graph.GraphDef()
	if err != nil {
		return err
	}
	chief, err := servers[0].NewSession(ctx, def, nil)
	if err != nil {
		return err
	}
	defer chief.Close(ctx)
	if _, err := chief.Eval(ctx, nil, m.init); err != nil {
		return err
	}
	var workers errgroup.Group
	var progress [2]troupe.Progress
	for task := range progress {
		workers.Go(func() error {
			session, err := servers[task].NewSession(ctx, def, nil)
			if err != nil {
				return err
			}
			defer session.Close(ctx)
			progress[task], err = troupe.Train(ctx, session, troupe.Training{Step: m.step, Loss: m.loss, Batches: m.points(200, uint64(task))})
			return err
		})
	}
	if err := workers.Wait(); err != nil {
		return err
	}
	for task, p := range progress {
		fmt.Fprintf(out, "worker %d: %d steps, loss %.4f\n", task, p.Steps, p.Loss)
	}
	w, err := troupe.Fetch[float32](ctx, chief, nil, m.w)
	if err != nil {
		return err
	}
	b, err := troupe.Fetch[float32](ctx, chief, nil, m.b)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "y = %.2f x + %.2f\n", w, b)
	return nil
}

func main() {
	targets := flag.String("workers", "", "targets of two workers of a cluster; if empty, start a cluster in this process")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *targets); err != nil {
		log.Fatal(err)
	}
}
