// Digits trains a perceptron or a convolutional network to recognize digits of 28 by 28 pixels, on a cluster of a parameter server and a
// worker. It saves checkpoints, from which the next run continues, and stops when the loss no longer improves.
//
//	go run ./examples/digits                  a perceptron
//	go run ./examples/digits -model cnn       a convolutional network
//	go run ./examples/digits -dir run1        with checkpoints in run1
//	go run ./examples/digits -worker grpc://… on a running cluster, for example of troupe up --tasks ps=1,worker=1
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
	"path/filepath"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/examples/glyphs"
	"github.com/troupe-run/troupe/examples/place"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/graph/train"
)

const side, batch = 28, 64

// weights returns a variable on the parameter server that is initialized with small random numbers.
func weights(s *op.Scope, name string, fanIn int32, sizes ...int32) op.Output {
	ps := s.WithDevice("/job:ps/task:0")
	normal := op.TruncatedNormal(ps, op.Const(ps, sizes), tensor.Float32, attr.Seed(7))
	scale := op.Rsqrt(ps, op.Const(ps, float32(fanIn)))
	return op.NewVariable(ps.WithName(name), op.Mul(ps, normal, scale)).Read(s)
}

func bias(s *op.Scope, name string, size int) op.Output {
	ps := s.WithDevice("/job:ps/task:0")
	return op.NewVariable(ps.WithName(name), op.Const(ps, make([]float32, size))).Read(s)
}

func dense(s *op.Scope, name string, x op.Output, in, out int32) op.Output {
	s = s.SubScope(name)
	return op.BiasAdd(s, op.MatMul(s, x, weights(s, "w", in, in, out)), bias(s, "b", int(out)))
}

func perceptron(s *op.Scope, x op.Output) op.Output {
	x = op.Relu(s, dense(s, "hidden1", x, side*side, 128))
	x = op.Relu(s, dense(s, "hidden2", x, 128, 64))
	return dense(s, "logits", x, 64, 10)
}

func convolutional(s *op.Scope, x op.Output) op.Output {
	x = op.Reshape(s, x, op.Const(s, []int32{-1, side, side, 1}))
	channels := int32(1)
	for i, out := range []int32{8, 16} {
		s := s.SubScope(fmt.Sprint("conv", i))
		x = op.Conv2D(s, x, weights(s, "w", 25*channels, 5, 5, channels, out), []int64{1, 1, 1, 1}, "SAME")
		x = op.Relu(s, op.BiasAdd(s, x, bias(s, "b", int(out))))
		x = op.MaxPool(s, x, []int64{1, 2, 2, 1}, []int64{1, 2, 2, 1}, "SAME")
		channels = out
	}
	x = op.Reshape(s, x, op.Const(s, []int32{-1, 7 * 7 * 16}))
	return dense(s, "logits", x, 7*7*16, 10)
}

func run(ctx context.Context, out io.Writer, target, model, dir string, steps int64) (err error) {
	networks := map[string]func(*op.Scope, op.Output) op.Output{"mlp": perceptron, "cnn": convolutional}
	network, ok := networks[model]
	if !ok {
		return fmt.Errorf("there is no model %q: mlp or cnn", model)
	}
	s := op.NewScope()
	x := op.Placeholder(s, tensor.Float32, attr.Shape(shape.Of(-1, side*side)))
	y := op.Placeholder(s, tensor.Int32, attr.Shape(shape.Of(-1)))
	logits := network(s, x)
	losses, _ := op.SparseSoftmaxCrossEntropyWithLogits(s, logits, y)
	all := op.Const(s, []int32{0})
	t := troupe.Training{Loss: op.Mean(s, losses, all), Steps: steps}
	right := op.Equal(s, op.ArgMax(s, logits, op.Const(s, int32(1)), attr.OutputType(tensor.Int32)), y)
	accuracy := op.Mean(s, op.Cast(s, right, tensor.Float32), all)
	t.Step = train.Minimize(s, train.NewAdam(0.003), t.Loss)
	t.Init = op.Initialize(s)
	if dir != "" {
		t.Saver, t.Checkpoints = troupe.NewSaver(s), troupe.Checkpoints{Prefix: filepath.Join(dir, model)}
	}
	def, err := s.GraphDef()
	if err != nil {
		return err
	}

	workers, stop, err := place.Workers(ctx, target, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop(ctx)) }()
	session, err := workers[0].NewSession(ctx, def, nil)
	if err != nil {
		return err
	}
	defer session.Close(ctx)
	random := rand.New(rand.NewPCG(1, 2))
	digits := func(n int) troupe.Feeds {
		images, labels := make([][]float32, n), make([]int32, n)
		for i := range images {
			labels[i] = int32(random.IntN(10))
			images[i] = glyphs.Pixels(glyphs.Draw(random, int(labels[i]), side))
		}
		return troupe.Feeds{x: images, y: labels}
	}
	t.Batches = func(yield func(troupe.Feeds, error) bool) {
		for yield(digits(batch), nil) {
		}
	}
	t.Each = troupe.EarlyStop(100, 0.001, func(p troupe.Progress) error {
		if p.Step%50 == 0 {
			fmt.Fprintf(out, "step %d: loss %.3f, %.0f steps/s\n", p.Step, p.Loss, float64(p.Steps)/p.Elapsed.Seconds())
		}
		return nil
	})
	p, err := troupe.Train(ctx, session, t)
	if err != nil {
		return err
	}
	read, err := troupe.Fetch[float32](ctx, session, digits(1000), accuracy)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "after %d steps it reads %.1f %% of new digits\n", p.Step, 100*read)
	return nil
}

func main() {
	target := flag.String("worker", "", "target of a cluster's worker; if empty, start a cluster in this process")
	model := flag.String("model", "mlp", "mlp or cnn")
	dir := flag.String("dir", "", "directory for checkpoints; if empty, save none")
	steps := flag.Int64("steps", 400, "maximum number of steps")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *target, *model, *dir, *steps); err != nil {
		log.Fatal(err)
	}
}
