package kernels

import (
	"github.com/troupe-run/troupe/graph/tensor"
)

// gpuArg is ArgMax and ArgMin on an accelerator.
func gpuArg(function string, dtype, index tensor.DType) Func {
	return func(ctx *Context) error {
		out, at, err := argOutput(ctx, dtype, index)
		if err != nil || out.Len() == 0 {
			return err
		}
		in := ctx.Input(0)
		outer, inner := around(in.Shape(), at)
		f := gpuFold{outer, in.Dim(at), inner, 1}
		by := divisor(inner, out.Len())
		a := accelerator(ctx.Device)
		a.Launch(ctx, Launch{Function: function + "_" + suffixes[cellType(dtype)], Grid: [3]int{f.blocks(a)}, Block: [3]int{threads},
			Args: []uint64{in.Address(), out.Address(), uint64(oneIf(index == tensor.Int64)), uint64(out.Len()), uint64(f.reduced), by[0], by[1], uint64(f.width())}})
		return nil
	}
}

// cellType is the type of numbers that a function compares instead: booleans are bytes of 0 and 1.
func cellType(d tensor.DType) tensor.DType {
	if d == tensor.Bool {
		return tensor.Uint8
	}
	return d
}

// newGPUScan makes the kernel of Cumsum and Cumprod on an accelerator.
func newGPUScan(function string) func(*Construction) (any, error) {
	return func(c *Construction) (any, error) {
		dtype, err := c.Attrs().Type("T")
		exclusive, err2 := c.Attrs().Bool("exclusive")
		reverse, err3 := c.Attrs().Bool("reverse")
		if err := firstError(err, err2, err3); err != nil {
			return nil, err
		}
		return Func(func(ctx *Context) error {
			out, at, err := scanOutput(ctx, dtype)
			if err != nil || out.Len() == 0 {
				return err
			}
			in, name := ctx.Input(0), function
			n := in.Dim(at)
			outer, inner := around(in.Shape(), at)
			lines := outer * inner
			a := accelerator(ctx.Device)
			args := []uint64{in.Address(), out.Address(), uint64(n), 0, 0, uint64(oneIf(exclusive)), uint64(oneIf(reverse)), uint64(lines)}
			by := divisor(inner, lines)
			args[3], args[4] = by[0], by[1]
			// A thread to a line where they are many or short, else a block.
			l := elementwise(a, "", lines, args...)
			if n > 32 && lines < 64*a.Card().Processors {
				name += "_blocks"
				l.Grid[0] = min(lines, 32*a.Card().Processors)
			}
			l.Function = name + "_" + suffixes[dtype]
			a.Launch(ctx, l)
			return nil
		}), nil
	}
}

func init() {
	types := append(floatTypes[:len(floatTypes):len(floatTypes)], tensor.Int32, tensor.Int64)
	Register(
		Def{Op: "Cumsum", Device: "GPU", Types: map[string][]tensor.DType{"T": types}, HostInputs: []string{"axis"}, New: newGPUScan("scan_sum")},
		Def{Op: "Cumprod", Device: "GPU", Types: map[string][]tensor.DType{"T": types}, HostInputs: []string{"axis"}, New: newGPUScan("scan_prod")})
	for _, dtype := range append(types, tensor.Uint8, tensor.Bool) {
		for _, index := range []tensor.DType{tensor.Int32, tensor.Int64} {
			for op, function := range map[string]string{"ArgMax": "arg_max", "ArgMin": "arg_min"} {
				Register(Def{Op: op, Device: "GPU", Types: map[string][]tensor.DType{"T": {dtype}, "output_type": {index}},
					HostInputs: []string{"dimension"}, New: always(gpuArg(function, dtype, index))})
			}
		}
	}
}
