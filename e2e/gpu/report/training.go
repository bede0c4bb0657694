package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/graph/train"
)

// model is a network that is trained to classify vectors.
type model struct {
	name    string
	batch   int
	inputs  int32
	network func(s *op.Scope, x op.Output) op.Output
}

const classes = 10

// models returns a perceptron and a convolutional network, of the usual size or small.
func (m *machine) models() []model {
	width, channels, side := int32(pick(m, 2048, 16)), int32(pick(m, 64, 4)), int32(pick(m, 32, 8))
	return []model{
		{fmt.Sprintf("MLP, 784-%d-%d-%d", width, width, classes), pick(m, 256, 4), 784, func(s *op.Scope, x op.Output) op.Output {
			x = op.Relu(s, dense(s, x, 784, width))
			x = op.Relu(s, dense(s, x, width, width))
			return dense(s, x, width, classes)
		}},
		{fmt.Sprintf("CNN, 3x3 with %d, %d and %d channels, images %dx%d", channels, channels, 2*channels, side, side), pick(m, 128, 2), side * side * 3,
			func(s *op.Scope, x op.Output) op.Output {
				x = op.Reshape(s, x, op.Const(s, []int32{-1, side, side, 3}))
				in := int32(3)
				for i, out := range []int32{channels, channels, 2 * channels} {
					x = op.Conv2D(s, x, random(s, tensor.Float32, math.Sqrt(6/float64(9*in)), 3, 3, in, out), []int64{1, 1, 1, 1}, "SAME")
					x = op.Relu(s, op.BiasAdd(s, x, op.NewVariable(s, op.Const(s, make([]float32, out))).Read(s)))
					if i > 0 {
						x = op.MaxPool(s, x, []int64{1, 2, 2, 1}, []int64{1, 2, 2, 1}, "SAME")
					}
					in = out
				}
				flat := side / 4 * (side / 4) * in
				return dense(s, op.Reshape(s, x, op.Const(s, []int32{-1, flat})), flat, classes)
			}},
	}
}

func dense(s *op.Scope, x op.Output, in, out int32) op.Output {
	return op.BiasAdd(s, op.MatMul(s, x, random(s, tensor.Float32, math.Sqrt(6/float64(in)), in, out)), op.NewVariable(s, op.Const(s, make([]float32, out))).Read(s))
}

// training measures steps of training on the card and on the CPUs.
func training(ctx context.Context, m *machine) error {
	m.head("model", "batch", "card: step", "examples in a second", "loss at first", "at last", "CPUs: step")
	for _, net := range m.models() {
		card, first, last, err := m.train(ctx, net, pick(m, 3*time.Second, 0))
		if m.failed(net.name+" on the card", err) {
			continue
		}
		if !(last < first) {
			m.failed(net.name, fmt.Errorf("it learned nothing: the loss went from %g to %g", first, last))
		}
		host, _, _, err := m.train(ctx, net, pick(m, 3*time.Second, 0), troupe.WithGPUs(0))
		hostTime := span(host.Seconds())
		if m.failed(net.name+" on the CPUs", err) {
			hostTime = "failed"
		}
		m.row(net.name, fmt.Sprint(net.batch), span(card.Seconds()), digits(float64(net.batch)/card.Seconds()), digits(first), digits(last), hostTime)
	}
	return nil
}

// train trains for some time, and returns the least time of a step and the losses of the first and the last one.
func (m *machine) train(ctx context.Context, net model, enough time.Duration, opts ...troupe.Option) (best time.Duration, first, last float64, err error) {
	b, err := m.serve(ctx, opts...)
	if err != nil {
		return 0, 0, 0, err
	}
	defer b.end(&err)
	s := op.NewScope()
	x := op.Placeholder(s, tensor.Float32, attr.Shape(shape.Of(int64(net.batch), int64(net.inputs))))
	y := op.Placeholder(s, tensor.Int32, attr.Shape(shape.Of(int64(net.batch))))
	losses, _ := op.SparseSoftmaxCrossEntropyWithLogits(s, net.network(s, x), y)
	value := op.Mean(s, losses, op.Const(s, []int32{0}))
	update := train.Minimize(s, train.NewMomentum(0.01, 0.9), value)
	session, end, err := b.session(ctx, s)
	if err != nil {
		return 0, 0, 0, err
	}
	defer end(&err)
	run, err := session.Prepare(ctx, []op.Output{x, y}, value, update)
	if err != nil {
		return 0, 0, 0, err
	}
	batch, labels, err := net.examples()
	if err != nil {
		return 0, 0, 0, err
	}
	defer batch.Release()
	defer labels.Release()
	begun := time.Now()
	for n := 0; n < 10 || time.Since(begun) < enough && n < 1000; n++ {
		start := time.Now()
		out, err := run.Run(ctx, batch, labels)
		if err != nil {
			return 0, 0, 0, err
		}
		took := time.Since(start)
		last = float64(tensor.Of[float32](out[0])[0])
		out[0].Release()
		switch {
		case n == 0:
			first = last
		case n == 1 || took < best:
			best = took
		}
	}
	return best, first, last, nil
}

// examples returns a batch of noise with labels, which a network can learn.
func (net model) examples() (x, y *tensor.Tensor, err error) {
	r := rand.New(rand.NewPCG(1, 2))
	if x, err = tensor.New(tensor.Host, tensor.Float32, tensor.Shape{int64(net.batch), int64(net.inputs)}); err != nil {
		return nil, nil, err
	}
	for i := range tensor.Of[float32](x) {
		tensor.Of[float32](x)[i] = float32(r.NormFloat64())
	}
	if y, err = tensor.New(tensor.Host, tensor.Int32, tensor.Shape{int64(net.batch)}); err != nil {
		x.Release()
		return nil, nil, err
	}
	for i := range tensor.Of[int32](y) {
		tensor.Of[int32](y)[i] = int32(r.IntN(classes))
	}
	return x, y, nil
}
