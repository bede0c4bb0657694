package random

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/philox"
)

// source returns the generator for n elements of one run.
type source func(ctx *kernels.Context, n int) (philox.Philox, error)

// distributed returns the distribution of one run. Ops with bounds read them from the inputs.
type distributed[T any] func(ctx *kernels.Context) (*distribution[T], error)

func constantly[T any](d *distribution[T]) distributed[T] {
	return func(*kernels.Context) (*distribution[T], error) { return d, nil }
}

// bounds reads minval and maxval from inputs at and at+1.
func bounds[T int32 | int64](ctx *kernels.Context, at int) (lo, hi T, err error) {
	for i, name := range []string{"minval", "maxval"} {
		if s := ctx.Input(at + i).Shape(); len(s) != 0 {
			return 0, 0, status.InvalidArgumentf("%s must be 0-D, got shape %v", name, s)
		}
		if err := args.CheckType(ctx, at+i, element.DTypeOf[T]()); err != nil {
			return 0, 0, err
		}
	}
	lo, hi = element.ViewOf[T](ctx.Input(at))[0], element.ViewOf[T](ctx.Input(at + 1))[0]
	if lo >= hi {
		return 0, 0, status.InvalidArgumentf("Need minval < maxval, got %d >= %d", lo, hi)
	}
	return lo, hi, nil
}

// bounded returns the distribution between the bounds at inputs at and at+1.
func bounded[T int32 | int64](at int, make func(lo, hi T) *distribution[T]) distributed[T] {
	return func(ctx *kernels.Context) (*distribution[T], error) {
		lo, hi, err := bounds[T](ctx, at)
		if err != nil {
			return nil, err
		}
		return make(lo, hi), nil
	}
}

// randomKernel fills a tensor with the shape at input 0, randomKernelAt one with the shape at input shapeAt.
func randomKernel[T any](from source, of distributed[T]) kernels.Func {
	return randomKernelAt(0, from, of)
}

func randomKernelAt[T any](shapeAt int, from source, of distributed[T]) kernels.Func {
	return func(ctx *kernels.Context) error {
		shape, err := args.ShapeInput(ctx, shapeAt)
		if err != nil {
			return err
		}
		out, err := ctx.Allocate(0, element.DTypeOf[T](), shape)
		if err != nil {
			return err
		}
		gen, err := from(ctx, out.Len())
		if err != nil || out.Len() == 0 { // without elements, any bounds are valid
			return err
		}
		d, err := of(ctx)
		if err != nil {
			return err
		}
		fillRandom(ctx, gen, element.ViewOf[T](out), d)
		return nil
	}
}

// fromState returns the source of ops that have a generator.
func fromState(g *philox.Generator) source {
	return func(_ *kernels.Context, n int) (philox.Philox, error) {
		return g.Reserve(int64(n) * philox.ReservedPerOutput), nil
	}
}

// fromSeed is the source of stateless ops, whose input 1 is a seed. If there are no elements, the type of the seed is not checked.
func fromSeed(ctx *kernels.Context, n int) (philox.Philox, error) {
	if n == 0 {
		return philox.Philox{}, seedShape(ctx.Input(1))
	}
	return seedInput(ctx, 1)
}

func seedShape(seed *tensor.Tensor) error {
	if seed.Rank() != 1 || seed.Len() != 2 {
		return status.InvalidArgumentf("seed must have shape [2], not %v", seed.Shape())
	}
	return nil
}

// seedInput returns the generator for the two integers at input i.
func seedInput(ctx *kernels.Context, i int) (philox.Philox, error) {
	seed := ctx.Input(i)
	if err := seedShape(seed); err != nil {
		return philox.Philox{}, err
	}
	seed0, err := args.IntAt(seed, 0)
	if err != nil {
		return philox.Philox{}, status.InvalidArgumentf("Invalid seed type: %v", seed.DType())
	}
	seed1, err := args.IntAt(seed, 1)
	return philox.Scrambled(uint64(seed0), uint64(seed1)), err
}

// Algorithm numbers of TensorFlow (core/framework/rng_alg.h).
const (
	algPhilox = 1
	algAuto   = 3
)

// fromKey is the source of the second form of stateless ops, which take key, counter and algorithm. If there are no elements, the algorithm
// is not checked.
func fromKey(ctx *kernels.Context, n int) (philox.Philox, error) {
	key, counter, alg := ctx.Input(1), ctx.Input(2), ctx.Input(3)
	if alg.Rank() != 0 {
		return philox.Philox{}, status.InvalidArgumentf("input 3 (0-based) must have shape [], not %v", alg.Shape())
	}
	if alg.DType() != tensor.Int32 {
		return philox.Philox{}, status.InvalidArgumentf("dtype of input 3 (0-based) must be int32, not %v", alg.DType())
	}
	if err := args.FirstError(args.CheckType(ctx, 1, tensor.Uint64), args.CheckType(ctx, 2, tensor.Uint64)); err != nil {
		return philox.Philox{}, err
	}
	if key.Rank() != 1 || key.Len() != 1 {
		return philox.Philox{}, status.InvalidArgumentf("key must have shape [1], not %v. (Note that batched keys are not supported yet.)", key.Shape())
	}
	id, least := tensor.Of[int32](alg)[0], 2
	if n == 0 { // TensorFlow then uses the algorithm's number as the minimum length of the counter
		least = algPhilox
		if id != algAuto {
			least = int(id)
		}
	}
	if counter.Rank() != 1 || counter.Len() < least {
		return philox.Philox{}, status.InvalidArgumentf("counter must be a vector with length at least %d; got shape: %v", least, counter.Shape())
	}
	if n == 0 {
		return philox.Philox{}, nil
	}
	if id != algPhilox && id != algAuto {
		return philox.Philox{}, status.InvalidArgumentf("Unsupported algorithm id: %d", id)
	}
	c := tensor.Of[uint64](counter)
	return generatorOf(tensor.Of[uint64](key)[0], c[0], c[1]), nil
}

// generatorOf returns the generator with the given key and the two halves of its counter.
func generatorOf(key, low, high uint64) philox.Philox {
	return philox.Philox{
		Key:     [2]uint32{uint32(key), uint32(key >> 32)},
		Counter: [4]uint32{uint32(low), uint32(low >> 32), uint32(high), uint32(high >> 32)},
	}
}

// keyAndCounter returns the key and the counter of a seed, which fromKey takes.
func keyAndCounter(ctx *kernels.Context) error {
	gen, err := seedInput(ctx, 0)
	if err != nil {
		return err
	}
	key, err := ctx.Allocate(0, tensor.Uint64, tensor.Shape{1})
	if err != nil {
		return err
	}
	counter, err := ctx.Allocate(1, tensor.Uint64, tensor.Shape{2})
	if err != nil {
		return err
	}
	join := func(lo, hi uint32) uint64 { return uint64(hi)<<32 | uint64(lo) }
	tensor.Of[uint64](key)[0] = join(gen.Key[0], gen.Key[1])
	tensor.Of[uint64](counter)[0] = join(gen.Counter[0], gen.Counter[1])
	tensor.Of[uint64](counter)[1] = join(gen.Counter[2], gen.Counter[3])
	return nil
}

// sampler holds the rows of a distribution for one element type. stateful is the op with a generator. seeded and keyed are the stateless
// ops, which take a seed, or the generator's key and counter. variable and tagged are the ops with a generator in a variable, whose
// algorithm is an input, or part of the variable.
type sampler struct{ stateful, seeded, keyed, variable, tagged kernels.Def }

// samplerOf returns the sampler of a distribution without parameters.
func samplerOf[T any](d *distribution[T]) sampler {
	of := constantly(d)
	return newSampler("dtype", []string{"shape"}, of, of, of, of)
}

// boundedSampler returns the sampler of integers between bounds, which are inputs of each op.
func boundedSampler[T int32 | int64](make func(lo, hi T) *distribution[T]) sampler {
	return newSampler("Tout", []string{"shape", "minval", "maxval"}, bounded(1, make), bounded(2, make), bounded(4, make), bounded(3, make))
}

// newSampler returns a sampler. attr is the stateful op's attribute for the element type, host its inputs on the host.
func newSampler[T any](attr string, host []string, stateful, seeded, keyed, variable distributed[T]) sampler {
	dtype := element.DTypeOf[T]()
	row := func(attr string, construct func(*kernels.Construction) (any, error), hostInputs ...string) kernels.Def {
		return kernels.Def{Types: dtypes.Only(attr, dtype), HostInputs: hostInputs, Expensive: true, New: construct}
	}
	withState := func(c *kernels.Construction) (any, error) {
		g, err := philox.NewGenerator(c)
		return randomKernel(fromState(g), stateful), err
	}
	return sampler{
		row(attr, withState, host...),
		row("dtype", kernels.Always(randomKernel(fromSeed, seeded)), "shape", "seed", "minval", "maxval"),
		row("dtype", kernels.Always(randomKernel(fromKey, keyed)), "shape", "alg"),
		row("dtype", kernels.Always(variableKernel(2, fromInput, variable))),
		row("dtype", kernels.Always(variableKernel(1, fromTagged, variable))),
	}
}

// samplers are the samplers of a distribution for all its types.
type samplers []sampler

func (s samplers) stateful() []kernels.Def {
	return s.rows(func(s sampler) kernels.Def { return s.stateful })
}

func (s samplers) seeded() []kernels.Def {
	return s.rows(func(s sampler) kernels.Def { return s.seeded })
}

func (s samplers) keyed() []kernels.Def {
	return s.rows(func(s sampler) kernels.Def { return s.keyed })
}

func (s samplers) variable() []kernels.Def {
	return s.rows(func(s sampler) kernels.Def { return s.variable })
}

func (s samplers) tagged() []kernels.Def {
	return s.rows(func(s sampler) kernels.Def { return s.tagged })
}

func (s samplers) rows(which func(sampler) kernels.Def) (rows []kernels.Def) {
	for _, each := range s {
		rows = append(rows, which(each))
	}
	return rows
}

// algorithm returns the number of the algorithm. keyCounterAlgorithm also returns the generator's state for a seed.
func algorithm(ctx *kernels.Context) error {
	ctx.SetOutput(0, tensor.Scalar[int32](tensor.Int32, algPhilox))
	return nil
}

func keyCounterAlgorithm(ctx *kernels.Context) error {
	ctx.SetOutput(2, tensor.Scalar[int32](tensor.Int32, algPhilox))
	return keyAndCounter(ctx)
}
