package random

import (
	"math/rand/v2"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/philox"
	"github.com/troupe-run/troupe/kernels/internal/variable"
)

// stateLen is the length of tf.random.Generator's state, a variable of three int64s: the two halves of the counter, and the key.
const stateLen = 3

// algThreeFry is an algorithm that TensorFlow supports only on XLA.
const algThreeFry = 2

// supported returns an error unless alg is Philox.
func supported(alg int64) error {
	switch alg {
	case algPhilox, algAuto:
		return nil
	case algThreeFry:
		return status.Errorf(status.Unimplemented, "Non-XLA devices don't support the ThreeFry algorithm.")
	}
	return status.InvalidArgumentf("Unsupported algorithm id: %d", alg)
}

// scalarOf reads the scalar at input i.
func scalarOf[T int32 | int64 | uint64](ctx *kernels.Context, i int) (v T, err error) {
	t, dtype := ctx.Input(i), element.DTypeOf[T]()
	if t.Rank() != 0 {
		return v, status.InvalidArgumentf("input %d (0-based) must have shape [], not %v", i, t.Shape())
	}
	if t.DType() != dtype {
		return v, status.InvalidArgumentf("dtype of input %d (0-based) must be %v, not %v", i, dtype, t.DType())
	}
	return tensor.Of[T](t)[0], nil
}

// advance reads the generator in the variable at input 0, whose state starts at element from, and advances it by the given number of
// groups. It first passes the state to look.
func advance(ctx *kernels.Context, from int, groups uint64, look func(state []int64) error) (gen philox.Philox, err error) {
	v, err := ctx.Variable(0)
	if err != nil {
		return gen, err
	}
	err = variable.Update(ctx, v, func(t *tensor.Tensor) error {
		if t.DType() != tensor.Int64 {
			return status.InvalidArgumentf("dtype of RNG state variable must be int64, not %v", t.DType())
		}
		if t.Rank() != 1 {
			return status.InvalidArgumentf("RNG state must have one and only one dimension, not %d", t.Rank())
		}
		state := tensor.Of[int64](t)
		if err := look(state); err != nil {
			return err
		}
		if len(state) < from+stateLen {
			return status.InvalidArgumentf("For the Philox algorithm, the size of state must be at least %d; got %d", from+stateLen, len(state))
		}
		state = state[from:]
		gen = generatorOf(uint64(state[2]), uint64(state[0]), uint64(state[1]))
		next := gen
		next.Skip(groups)
		for i := range 2 {
			state[i] = int64(uint64(next.Counter[2*i]) | uint64(next.Counter[2*i+1])<<32)
		}
		return nil
	})
	return gen, err
}

// fromInput is the source of ops whose input 1 is the algorithm.
func fromInput(ctx *kernels.Context, n int) (philox.Philox, error) {
	alg, err := scalarOf[int64](ctx, 1)
	if err != nil {
		return philox.Philox{}, err
	}
	return advance(ctx, 0, uint64(n)*philox.ReservedPerOutput, func([]int64) error { return supported(alg) })
}

// fromTagged is the source of the first form of these ops, whose variable starts with the algorithm.
func fromTagged(ctx *kernels.Context, n int) (philox.Philox, error) {
	return advance(ctx, 1, uint64(n)*philox.ReservedPerOutput, func(state []int64) error {
		if len(state) == 0 {
			return status.InvalidArgumentf("Size of tensor must be at least 1")
		}
		return supported(state[0])
	})
}

// variableKernel is randomKernel with the shape at input shapeAt. Invalid bounds are an error even if there are no elements, and leave the
// generator unchanged.
func variableKernel[T any](shapeAt int, from source, of distributed[T]) kernels.Func {
	return func(ctx *kernels.Context) error {
		d, err := of(ctx)
		if err != nil {
			return err
		}
		return randomKernelAt(shapeAt, from, constantly(d))(ctx)
	}
}

// skip advances the generator in a variable as if it had generated delta numbers.
func skip(ctx *kernels.Context) error {
	alg, err := scalarOf[int64](ctx, 1)
	if err != nil {
		return err
	}
	delta, err := scalarOf[int64](ctx, 2)
	if err != nil {
		return err
	}
	_, err = advance(ctx, 0, uint64(delta)*philox.ReservedPerOutput, func([]int64) error { return supported(alg) })
	return err
}

// readAndSkip is skip, and also returns the previous state.
func readAndSkip(ctx *kernels.Context) error {
	alg, err := scalarOf[int32](ctx, 1)
	if err != nil {
		return err
	}
	delta, err := scalarOf[uint64](ctx, 2)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, tensor.Int64, tensor.Shape{stateLen})
	if err != nil {
		return err
	}
	_, err = advance(ctx, 0, delta*philox.ReservedPerOutput, func(state []int64) error {
		copy(tensor.Of[int64](out), state)
		return supported(int64(alg))
	})
	return err
}

// unseeded fills a tensor with numbers that no seed can reproduce.
func unseeded[T int32 | int64 | uint32 | uint64](ctx *kernels.Context) error {
	shape, err := args.ShapeInput(ctx, 0)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, element.DTypeOf[T](), shape)
	if err != nil {
		return err
	}
	dst := element.ViewOf[T](out)
	ctx.Parallel(len(dst), fillGrain, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			dst[i] = T(rand.Uint64())
		}
	})
	return nil
}

func unseededOf[T int32 | int64 | uint32 | uint64]() []kernels.Def {
	return kernels.ForType("dtype", element.DTypeOf[T](), kernels.Always(unseeded[T]))
}
