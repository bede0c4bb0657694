package kernels

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// shapeInput is the shape that a vector of int32 or int64 at input i gives.
func shapeInput(ctx *Context, i int) (tensor.Shape, error) {
	t := ctx.Input(i)
	if t.Rank() != 1 {
		return nil, status.InvalidArgumentf("shape must be a vector of {int32,int64}, got shape %v", t.Shape())
	}
	dims, err := ctx.Ints(i)
	if err != nil {
		return nil, status.InvalidArgumentf("shape must be a vector of {int32,int64}.")
	}
	for _, d := range dims {
		if d < 0 {
			return nil, status.InvalidArgumentf("Dimension %d must be >= 0", d)
		}
	}
	shape := tensor.Shape(dims)
	_, err = shape.NumElements()
	return shape, err
}

// source gives the generator for n elements of one run.
type source func(ctx *Context, n int) (philox, error)

// distributed gives the distribution of one run; ops with bounds read them from the inputs.
type distributed[T any] func(ctx *Context) (*distribution[T], error)

func constantly[T any](d *distribution[T]) distributed[T] {
	return func(*Context) (*distribution[T], error) { return d, nil }
}

// bounds reads minval and maxval from input at and the one after.
func bounds[T int32 | int64](ctx *Context, at int) (lo, hi T, err error) {
	for i, name := range []string{"minval", "maxval"} {
		if s := ctx.Input(at + i).Shape(); len(s) != 0 {
			return 0, 0, status.InvalidArgumentf("%s must be 0-D, got shape %v", name, s)
		}
		if err := checkType(ctx, at+i, dtypeOf[T]()); err != nil {
			return 0, 0, err
		}
	}
	lo, hi = viewOf[T](ctx.Input(at))[0], viewOf[T](ctx.Input(at + 1))[0]
	if lo >= hi {
		return 0, 0, status.InvalidArgumentf("Need minval < maxval, got %d >= %d", lo, hi)
	}
	return lo, hi, nil
}

// bounded makes the distribution between the bounds at input at and the one after.
func bounded[T int32 | int64](at int, make func(lo, hi T) *distribution[T]) distributed[T] {
	return func(ctx *Context) (*distribution[T], error) {
		lo, hi, err := bounds[T](ctx, at)
		if err != nil {
			return nil, err
		}
		return make(lo, hi), nil
	}
}

// randomKernel fills a tensor of the shape at input 0.
func randomKernel[T any](from source, of distributed[T]) Func {
	return func(ctx *Context) error {
		shape, err := shapeInput(ctx, 0)
		if err != nil {
			return err
		}
		out, err := ctx.Allocate(0, dtypeOf[T](), shape)
		if err != nil {
			return err
		}
		gen, err := from(ctx, out.Len())
		if err != nil || out.Len() == 0 { // the bounds do not matter then, not even impossible ones
			return err
		}
		d, err := of(ctx)
		if err != nil {
			return err
		}
		fillRandom(ctx.Device, gen, viewOf[T](out), d)
		return nil
	}
}

// fromState is the source of ops that keep a generator.
func fromState(g *generator) source {
	return func(_ *Context, n int) (philox, error) { return g.reserve(int64(n) * reservedPerOutput), nil }
}

// fromSeed is the source of stateless ops, whose input 1 is a seed. The type of one that nothing is made of does not matter.
func fromSeed(ctx *Context, n int) (philox, error) {
	if n == 0 {
		return philox{}, seedShape(ctx.Input(1))
	}
	return seedInput(ctx, 1)
}

func seedShape(seed *tensor.Tensor) error {
	if seed.Rank() != 1 || seed.Len() != 2 {
		return status.InvalidArgumentf("seed must have shape [2], not %v", seed.Shape())
	}
	return nil
}

// seedInput makes a generator of the two integers at input i.
func seedInput(ctx *Context, i int) (philox, error) {
	seed := ctx.Input(i)
	if err := seedShape(seed); err != nil {
		return philox{}, err
	}
	seed0, err := intAt(seed, 0)
	if err != nil {
		return philox{}, status.InvalidArgumentf("Invalid seed type: %v", seed.DType())
	}
	seed1, err := intAt(seed, 1)
	return scrambled(uint64(seed0), uint64(seed1)), err
}

// The algorithms by TensorFlow's numbers (core/framework/rng_alg.h).
const (
	algPhilox = 1
	algAuto   = 3
)

// fromKey is the source of the second form of stateless ops: key, counter and algorithm.
func fromKey(ctx *Context, _ int) (philox, error) {
	key, counter, alg := ctx.Input(1), ctx.Input(2), ctx.Input(3)
	if alg.Rank() != 0 {
		return philox{}, status.InvalidArgumentf("input 3 (0-based) must have shape [], not %v", alg.Shape())
	}
	if alg.DType() != tensor.Int32 {
		return philox{}, status.InvalidArgumentf("dtype of input 3 (0-based) must be int32, not %v", alg.DType())
	}
	if a := tensor.Of[int32](alg)[0]; a != algPhilox && a != algAuto {
		return philox{}, status.InvalidArgumentf("Unsupported algorithm id: %d", a)
	}
	if err := firstError(checkType(ctx, 1, tensor.Uint64), checkType(ctx, 2, tensor.Uint64)); err != nil {
		return philox{}, err
	}
	if key.Rank() != 1 || key.Len() != 1 {
		return philox{}, status.InvalidArgumentf("key must have shape [1], not %v", key.Shape())
	}
	if counter.Rank() != 1 || counter.Len() < 2 {
		return philox{}, status.InvalidArgumentf("counter must be a vector with length at least 2; got shape: %v", counter.Shape())
	}
	k, c := tensor.Of[uint64](key)[0], tensor.Of[uint64](counter)
	return philox{
		key:     [2]uint32{uint32(k), uint32(k >> 32)},
		counter: [4]uint32{uint32(c[0]), uint32(c[0] >> 32), uint32(c[1]), uint32(c[1] >> 32)},
	}, nil
}

// keyAndCounter yields what fromKey takes: the key and the counter that a seed comes to.
func keyAndCounter(ctx *Context) error {
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
	tensor.Of[uint64](key)[0] = join(gen.key[0], gen.key[1])
	tensor.Of[uint64](counter)[0] = join(gen.counter[0], gen.counter[1])
	tensor.Of[uint64](counter)[1] = join(gen.counter[2], gen.counter[3])
	return nil
}
