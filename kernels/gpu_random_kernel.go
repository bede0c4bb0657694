package kernels

import "github.com/troupe-run/troupe/graph/tensor"

// The random ops of GPUs give the numbers of the CPU's for the same seeds. For stateless ops that is what
// TensorFlow promises on each kind of device. The numbers of its other ops depend on the size of the card,
// those of a CPU do not: so those are the ones.

// gpuRandom fills a tensor of the shape at input 0.
type gpuRandom struct {
	gpuKernel
	from source
	// limits, where it is there, reads the bounds of the numbers: the least and how many there are.
	limits func(ctx *Context) (low, span uint64, err error)
}

func (k *gpuRandom) Compute(ctx *Context) error {
	shape, err := shapeInput(ctx, 0)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.out, shape)
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
	args := append([]uint64{join(gen.counter[0], gen.counter[1]), join(gen.counter[2], gen.counter[3]), join(gen.key[0], gen.key[1]),
		out.Address(), uint64(out.Len())}, more...)
	group := 4
	if k.out.Size() == 8 {
		group = 2
	}
	a := accelerator(ctx.Device)
	a.Launch(ctx, elementwise(a, k.function, (out.Len()+group-1)/group, args...))
	return nil
}

// limitsAt reads minval and maxval from input at and the one after.
func limitsAt[T int32 | int64](at int) func(ctx *Context) (low, span uint64, err error) {
	return func(ctx *Context) (low, span uint64, err error) {
		lo, hi, err := bounds[T](ctx, at)
		return uint64(lo), uint64(hi) - uint64(lo), err
	}
}

// The inputs that random ops read on the host.
var randomHostInputs = map[string][]string{
	"": {"shape"}, "Int": {"shape", "minval", "maxval"},
	"Stateless": {"shape", "seed"}, "StatelessInt": {"shape", "seed", "minval", "maxval"},
	"V2": {"shape", "key", "counter", "alg"}, "V2Int": {"shape", "key", "counter", "alg", "minval", "maxval"},
}

// randomOnGPU registers the ops of a distribution for an element type: the one that keeps a generator,
// and the stateless ones. An empty name stands for an op that there is not.
func randomOnGPU(stateful, stateless, attr, ints string, t gpuType, function string, limits func(at int) func(*Context) (low, span uint64, err error)) {
	k := gpuRandom{gpuKernel: gpuKernel{function + "_" + t.suffix, t.dtype, t.dtype}}
	make := func(from source, at int) *gpuRandom {
		own := k
		own.from = from
		if limits != nil {
			own.limits = limits(at)
		}
		return &own
	}
	if stateful != "" {
		Register(Def{Op: stateful, Device: "GPU", Types: map[string][]tensor.DType{attr: {t.dtype}}, HostInputs: randomHostInputs[ints], New: func(c *Construction) (any, error) {
			g, err := newGenerator(c)
			return make(fromState(g), 1), err
		}})
	}
	first, second := gpuRow(stateless, "dtype", t.dtype, make(fromSeed, 2)), gpuRow(stateless+"V2", "dtype", t.dtype, make(fromKey, 4))
	first.HostInputs, second.HostInputs = randomHostInputs["Stateless"+ints], randomHostInputs["V2"+ints]
	Register(first, second)
}

func init() {
	for _, t := range gpuReals {
		randomOnGPU("RandomUniform", "StatelessRandomUniform", "dtype", "", t, "random_uniform", nil)
		randomOnGPU("RandomStandardNormal", "StatelessRandomNormal", "dtype", "", t, "random_normal", nil)
		randomOnGPU("TruncatedNormal", "StatelessTruncatedNormal", "dtype", "", t, "random_truncated", nil)
	}
	for _, t := range sized(tensor.Int32, tensor.Uint32, tensor.Int64, tensor.Uint64) {
		randomOnGPU("", "StatelessRandomUniformFullInt", "dtype", "", t, "random_any", nil)
	}
	randomOnGPU("RandomUniformInt", "StatelessRandomUniformInt", "Tout", "Int", sized(tensor.Int32)[0], "random_between", limitsAt[int32])
	randomOnGPU("RandomUniformInt", "StatelessRandomUniformInt", "Tout", "Int", sized(tensor.Int64)[0], "random_between", limitsAt[int64])
	onHost("", nil, "StatelessRandomGetKeyCounter", "StatelessRandomGetAlg", "StatelessRandomGetKeyCounterAlg")
}
