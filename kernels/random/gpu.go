package random

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/launch"
	"github.com/troupe-run/troupe/kernels/internal/philox"
)

// The random ops of GPUs return the same numbers as the CPU's for the same seeds. For stateless ops, TensorFlow guarantees that on every
// kind of device. The numbers of TensorFlow's other ops depend on the size of the card, unlike those of a CPU, so GPUs use the CPU's.

// gpuRandom fills a tensor with the shape at input 0.
type gpuRandom struct {
	elementwise.GPUKernel
	from source
	// limits, if not nil, reads the bounds of the numbers: the least number and the count.
	limits func(ctx *kernels.Context) (low, span uint64, err error)
}

func (k *gpuRandom) Compute(ctx *kernels.Context) error {
	shape, err := args.ShapeInput(ctx, 0)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.Out, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	var more []uint64
	if k.limits != nil {
		low, span, err := k.limits(ctx)
		if err != nil {
			return err
		}
		more = []uint64{low, span}
	}
	gen, err := k.from(ctx, out.Len())
	if err != nil {
		return err
	}
	join := func(low, high uint32) uint64 { return uint64(high)<<32 | uint64(low) }
	args := append([]uint64{join(gen.Counter[0], gen.Counter[1]), join(gen.Counter[2], gen.Counter[3]), join(gen.Key[0], gen.Key[1]),
		out.Address(), uint64(out.Len())}, more...)
	group := 4
	if k.Out.Size() == 8 {
		group = 2
	}
	a := kernels.AcceleratorOf(ctx.Device)
	a.Launch(ctx, launch.PerElement(a, k.Function, (out.Len()+group-1)/group, args...))
	return nil
}

// limitsAt reads minval and maxval from inputs at and at+1.
func limitsAt[T int32 | int64](at int) func(ctx *kernels.Context) (low, span uint64, err error) {
	return func(ctx *kernels.Context) (low, span uint64, err error) {
		lo, hi, err := bounds[T](ctx, at)
		return uint64(lo), uint64(hi) - uint64(lo), err
	}
}

// randomHostInputs lists the inputs that random ops read on the host.
var randomHostInputs = map[string][]string{
	"": {"shape"}, "Int": {"shape", "minval", "maxval"},
	"Stateless": {"shape", "seed"}, "StatelessInt": {"shape", "seed", "minval", "maxval"},
	"V2": {"shape", "key", "counter", "alg"}, "V2Int": {"shape", "key", "counter", "alg", "minval", "maxval"},
}

// randomOnGPU registers the ops of a distribution for an element type: the one with a generator, and the stateless ones. If stateful is
// empty, there is no op with a generator.
func randomOnGPU(table *kernels.Table, stateful, stateless, attr, ints string, t launch.Type, function string, limits func(at int) func(*kernels.Context) (low, span uint64, err error)) {
	k := gpuRandom{GPUKernel: elementwise.GPUKernel{Function: function + "_" + t.Suffix, In: t.DType, Out: t.DType}}
	make := func(from source, at int) *gpuRandom {
		own := k
		own.from = from
		if limits != nil {
			own.limits = limits(at)
		}
		return &own
	}
	if stateful != "" {
		table.Add(kernels.Def{Op: stateful, Device: "GPU", Types: map[string][]tensor.DType{attr: {t.DType}}, HostInputs: randomHostInputs[ints], New: func(c *kernels.Construction) (any, error) {
			g, err := philox.NewGenerator(c)
			return make(fromState(g), 1), err
		}})
	}
	first, second := elementwise.RowOnGPU(stateless, "dtype", t.DType, make(fromSeed, 2)), elementwise.RowOnGPU(stateless+"V2", "dtype", t.DType, make(fromKey, 4))
	first.HostInputs, second.HostInputs = randomHostInputs["Stateless"+ints], randomHostInputs["V2"+ints]
	table.Add(first, second)
}

func addKernelGPU(table *kernels.Table) {
	for _, t := range launch.Reals {
		randomOnGPU(table, "RandomUniform", "StatelessRandomUniform", "dtype", "", t, "random_uniform", nil)
		randomOnGPU(table, "RandomStandardNormal", "StatelessRandomNormal", "dtype", "", t, "random_normal", nil)
		randomOnGPU(table, "TruncatedNormal", "StatelessTruncatedNormal", "dtype", "", t, "random_truncated", nil)
	}
	for _, t := range launch.Sized(tensor.Int32, tensor.Uint32, tensor.Int64, tensor.Uint64) {
		randomOnGPU(table, "", "StatelessRandomUniformFullInt", "dtype", "", t, "random_any", nil)
	}
	randomOnGPU(table, "RandomUniformInt", "StatelessRandomUniformInt", "Tout", "Int", launch.Sized(tensor.Int32)[0], "random_between", limitsAt[int32])
	randomOnGPU(table, "RandomUniformInt", "StatelessRandomUniformInt", "Tout", "Int", launch.Sized(tensor.Int64)[0], "random_between", limitsAt[int64])
	table.OnHost("", nil, "StatelessRandomGetKeyCounter", "StatelessRandomGetAlg", "StatelessRandomGetKeyCounterAlg")
}
