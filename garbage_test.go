package troupe

import (
	"runtime"
	"testing"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/graph/train"
	"github.com/troupe-run/troupe/internal/extent"
)

// The garbage that a step of a steady graph may leave, whatever its size: the bookkeeping of one step, and nothing that grows with its
// tensors.
const (
	mostObjects = 250
	mostBytes   = 16 << 10
)

// A training step of a convolutional network, fed and fetched as a program does it, makes next to no garbage.
func TestTrainingMakesLittleGarbage(t *testing.T) {
	if extent.RaceDetector {
		t.Skip("the race detector allocates")
	}
	s := op.NewScope()
	images := op.Placeholder(s, tensor.Float32, attr.Shape(shape.Of(32, 28, 28, 1)))
	labels := op.Placeholder(s, tensor.Int32, attr.Shape(shape.Of(32)))
	weights := func(name string, dims ...int32) op.Output {
		start := op.RandomUniform(s, op.Const(s, dims), tensor.Float32)
		return op.NewVariable(s.WithName(name), op.Mul(s, op.Sub(s, start, op.Const(s, float32(0.5))), op.Const(s, float32(0.1)))).Read(s)
	}
	layer := func(x op.Output, name string, in, out int32) op.Output {
		x = op.Conv2D(s, x, weights(name, 5, 5, in, out), []int64{1, 1, 1, 1}, "SAME")
		x = op.Relu(s, op.BiasAdd(s, x, weights(name+"_bias", out)))
		return op.MaxPool(s, x, []int64{1, 2, 2, 1}, []int64{1, 2, 2, 1}, "SAME")
	}
	x := layer(layer(images, "first", 1, 16), "second", 16, 32)
	x = op.Reshape(s, x, op.Const(s, []int32{32, 7 * 7 * 32}))
	x = op.Relu(s, op.BiasAdd(s, op.MatMul(s, x, weights("dense", 7*7*32, 128)), weights("dense_bias", 128)))
	x = op.BiasAdd(s, op.MatMul(s, x, weights("logits", 128, 10)), weights("logits_bias", 10))
	losses, _ := op.SparseSoftmaxCrossEntropyWithLogits(s, x, labels)
	loss := op.Mean(s, losses, op.Const(s, []int32{0}))
	step := train.Minimize(s, train.NewAdam(0.001), loss)
	init := op.Initialize(s)
	def, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	session, err := localServer(t).NewSession(t.Context(), def, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.Eval(t.Context(), nil, init); err != nil {
		t.Fatal(err)
	}
	callable, err := session.Prepare(t.Context(), []op.Output{images, labels}, loss, step)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tensor.New(tensor.Host, tensor.Float32, tensor.Shape{32, 28, 28, 1})
	if err != nil {
		t.Fatal(err)
	}
	defer image.Release()
	label, err := tensor.New(tensor.Host, tensor.Int32, tensor.Shape{32})
	if err != nil {
		t.Fatal(err)
	}
	defer label.Release()
	feeds, fetched := []*tensor.Tensor{image, label}, make([]*tensor.Tensor, 1)
	run := func() {
		if err := callable.RunInto(t.Context(), fetched, feeds); err != nil {
			t.Fatal(err)
		}
		fetched[0].Release()
	}
	for range 20 { // until the pools hold what a step needs
		run()
	}
	// On a busy machine a collection may empty the pools in the middle of a round, which then fills them again: only a round without that
	// counts.
	const rounds, steps = 5, 100
	var objects, bytes uint64
	for range rounds {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range steps {
			run()
		}
		runtime.ReadMemStats(&after)
		objects, bytes = (after.Mallocs-before.Mallocs)/steps, (after.TotalAlloc-before.TotalAlloc)/steps
		if objects <= mostObjects && bytes <= mostBytes {
			return
		}
	}
	t.Errorf("A step left %d objects of %d bytes to the garbage collector, more than %d objects or %d bytes", objects, bytes, mostObjects, mostBytes)
}
