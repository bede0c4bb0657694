package all_test

import (
	"sync"
	"testing"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/rights"
	"github.com/troupe-run/troupe/kernels"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// twoCores is a device that divides work between two goroutines.
type twoCores struct{ pool *tensor.Pool }

func (d *twoCores) Name() string { return kt.DeviceName }

func (d *twoCores) Type() string { return "CPU" }

func (d *twoCores) Pool() *tensor.Pool { return d.pool }

func (d *twoCores) Memory() tensor.Memory { return d.Pool() }

func (d *twoCores) Resources() kernels.Resources { return (*containers.Manager)(nil) }

func (d *twoCores) Rights() *rights.Session { return nil }

func (d *twoCores) Parallel(n, grain int, body func(lo, hi int)) {
	if n < 2*grain {
		body(0, n)
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { body(n/2, n) })
	body(0, n/2)
	wg.Wait()
}

// benchmark runs a kernel repeatedly with the same inputs.
func benchmark(b *testing.B, op string, attrs kt.Attrs, inputs ...*tensor.Tensor) {
	b.Helper()
	d := &twoCores{tensor.NewPool("bench", 0)}
	node := &graph.Node{Name: "n", Op: op, Attrs: attrs.Proto()}
	def, err := kernels.Find(node, "CPU")
	if err != nil {
		b.Fatal(err)
	}
	impl, err := def.New(&kernels.Construction{Node: node, Device: d})
	if err != nil {
		b.Fatal(err)
	}
	k := impl.(kernels.Kernel)
	ctx := &kernels.Context{Node: node, Device: d, Step: kt.NewStep(), Inputs: make([]kernels.Value, len(inputs)), Outputs: make([]kernels.Value, 2)}
	for i, t := range inputs {
		ctx.Inputs[i].Tensor = t.Retain()
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := k.Compute(ctx); err != nil {
			b.Fatal(err)
		}
		for i := range ctx.Outputs {
			ctx.Outputs[i].Release()
			ctx.Outputs[i] = kernels.Value{}
		}
	}
}

func zeros(dtype tensor.DType, dims ...int64) *tensor.Tensor {
	t, err := tensor.New(tensor.Host, dtype, dims)
	if err != nil {
		panic(err)
	}
	clear(t.Data())
	return t
}

func BenchmarkKernels(b *testing.B) {
	const f = tensor.Float32
	T := kt.Attrs{"T": f}
	reduce := kt.Attrs{"T": f, "Tidx": tensor.Int32, "keep_dims": false}
	mat := kt.Attrs{"T": f, "transpose_a": false, "transpose_b": false}
	conv := kt.Attrs{"T": f, "strides": []int64{1, 1, 1, 1}, "dilations": []int64{1, 1, 1, 1}, "padding": "SAME", "data_format": "NHWC"}
	pool := kt.Attrs{"T": f, "ksize": []int64{1, 2, 2, 1}, "strides": []int64{1, 2, 2, 1}, "padding": "SAME", "data_format": "NHWC"}
	labels := zeros(tensor.Int64, 128)
	for _, c := range []struct {
		name, op string
		attrs    kt.Attrs
		inputs   []*tensor.Tensor
	}{
		{"scalar", "AddV2", T, []*tensor.Tensor{zeros(f), zeros(f)}},
		{"scalar int64 less", "Less", kt.Attrs{"T": tensor.Int64}, []*tensor.Tensor{zeros(tensor.Int64), zeros(tensor.Int64)}},
		{"vector by scalar", "Mul", T, []*tensor.Tensor{zeros(f, 10), zeros(f)}},
		{"scalar unary", "Square", T, []*tensor.Tensor{zeros(f)}},
		{"1e6", "AddV2", T, []*tensor.Tensor{zeros(f, 1e6), zeros(f, 1e6)}},
		{"1e6 row", "AddV2", T, []*tensor.Tensor{zeros(f, 1e3, 1e3), zeros(f, 1e3)}},
		{"1e6 column", "AddV2", T, []*tensor.Tensor{zeros(f, 1e3, 1e3), zeros(f, 1e3, 1)}},
		{"1e6 short rows", "AddV2", T, []*tensor.Tensor{zeros(f, 1e5, 10), zeros(f, 10)}},
		{"1e6 short column", "AddV2", T, []*tensor.Tensor{zeros(f, 1e5, 10), zeros(f, 1e5, 1)}},
		{"1e6", "Relu", T, []*tensor.Tensor{zeros(f, 1e6)}},
		{"1e6", "Tanh", T, []*tensor.Tensor{zeros(f, 1e6)}},
		{"16e6", "Sum", reduce, []*tensor.Tensor{zeros(f, 16e6), zeros(tensor.Int32, 1)}},
		{"1e6 columns", "Sum", reduce, []*tensor.Tensor{zeros(f, 1e3, 1e3), zeros(tensor.Int32, 1)}},
		{"1e6 narrow", "Sum", reduce, []*tensor.Tensor{zeros(f, 1e5, 10), zeros(tensor.Int32, 1)}},
		{"scalar mean", "Mean", reduce, []*tensor.Tensor{zeros(f, 128), zeros(tensor.Int32, 1)}},
		{"128x784x300", "MatMul", mat, []*tensor.Tensor{zeros(f, 128, 784), zeros(f, 784, 300)}},
		{"128x10", "BiasAdd", kt.Attrs{"T": f, "data_format": "NHWC"}, []*tensor.Tensor{zeros(f, 128, 10), zeros(f, 10)}},
		{"128x300", "BiasAddGrad", kt.Attrs{"T": f, "data_format": "NHWC"}, []*tensor.Tensor{zeros(f, 128, 300)}},
		{"128x10", "SparseSoftmaxCrossEntropyWithLogits", kt.Attrs{"T": f, "Tlabels": tensor.Int64}, []*tensor.Tensor{zeros(f, 128, 10), labels}},
		{"128x10000", "SparseSoftmaxCrossEntropyWithLogits", kt.Attrs{"T": f, "Tlabels": tensor.Int64}, []*tensor.Tensor{zeros(f, 128, 10000), labels}},
		{"32x28x28x32 5x5x64", "Conv2D", conv, []*tensor.Tensor{zeros(f, 32, 14, 14, 32), zeros(f, 5, 5, 32, 64)}},
		{"32x28x28x32", "MaxPool", pool, []*tensor.Tensor{zeros(f, 32, 28, 28, 32)}},
		{"1e6", "RandomUniform", kt.Attrs{"dtype": f, "seed": 1, "seed2": 2}, []*tensor.Tensor{kt.I32(kt.S(1), 1e6)}},
		{"1e6", "TruncatedNormal", kt.Attrs{"dtype": f, "seed": 1, "seed2": 2}, []*tensor.Tensor{kt.I32(kt.S(1), 1e6)}},
	} {
		b.Run(c.op+" "+c.name, func(b *testing.B) { benchmark(b, c.op, c.attrs, c.inputs...) })
	}
}
