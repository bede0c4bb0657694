package math

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/launch"
	"github.com/troupe-run/troupe/kernels/internal/reduce"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// gpuArg returns the kernel of ArgMax or ArgMin on an accelerator.
func gpuArg(function string, dtype, index tensor.DType) kernels.Func {
	return func(ctx *kernels.Context) error {
		out, at, err := argOutput(ctx, dtype, index)
		if err != nil || out.Len() == 0 {
			return err
		}
		in := ctx.Input(0)
		outer, inner := shapes.Around(in.Shape(), at)
		f := reduce.Fold{Outer: outer, Reduced: in.Dim(at), Inner: inner, Parts: 1}
		by := launch.Divisor(inner, out.Len())
		a := kernels.AcceleratorOf(ctx.Device)
		a.Launch(ctx, kernels.Launch{Function: function + "_" + launch.Suffixes[cellType(dtype)], Grid: [3]int{f.Blocks(a)}, Block: [3]int{launch.Threads},
			Args: []uint64{in.Address(), out.Address(), uint64(element.OneIf(index == tensor.Int64)), uint64(out.Len()), uint64(f.Reduced), by[0], by[1], uint64(f.Width())}})
		return nil
	}
}

// cellType returns the type as which a function compares elements: booleans compare as bytes 0 and 1.
func cellType(d tensor.DType) tensor.DType {
	if d == tensor.Bool {
		return tensor.Uint8
	}
	return d
}

// newGPUScan returns the constructor of Cumsum or Cumprod on an accelerator.
func newGPUScan(function string) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		a := c.Attrs().Reader()
		dtype, exclusive, reverse := a.Type("T"), a.Bool("exclusive"), a.Bool("reverse")
		if err := a.Err(); err != nil {
			return nil, err
		}
		return kernels.Func(func(ctx *kernels.Context) error {
			out, at, err := scanOutput(ctx, dtype)
			if err != nil || out.Len() == 0 {
				return err
			}
			in, name := ctx.Input(0), function
			n := in.Dim(at)
			outer, inner := shapes.Around(in.Shape(), at)
			lines := outer * inner
			a := kernels.AcceleratorOf(ctx.Device)
			args := []uint64{in.Address(), out.Address(), uint64(n), 0, 0, uint64(element.OneIf(exclusive)), uint64(element.OneIf(reverse)), uint64(lines)}
			by := launch.Divisor(inner, lines)
			args[3], args[4] = by[0], by[1]
			// Use a thread for each line if lines are many or short, otherwise a block.
			l := launch.PerElement(a, "", lines, args...)
			if n > 32 && lines < 64*a.Card().Processors {
				name += "_blocks"
				l.Grid[0] = min(lines, 32*a.Card().Processors)
			}
			l.Function = name + "_" + launch.Suffixes[dtype]
			a.Launch(ctx, l)
			return nil
		}), nil
	}
}
