package update

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/launch"
)

// scatterFunctions are the device functions of the updates.
var scatterFunctions = [Ops]string{Set: "scatter_set", Add: "scatter_add", Sub: "scatter_sub", Mul: "scatter_mul",
	Div: "scatter_div", Min: "scatter_min", Max: "scatter_max"}

// ScatterOn updates t, on the accelerator, at the positions given by indices. Each of the rows rows of indices is a point in the dimensions
// dims, which are t's first dimensions or equivalent to them. updates has a row for each point, or one element for all. Set supports all
// types, the other ops those in Scattered.
func ScatterOn(ctx *kernels.Context, op Op, t, indices *tensor.Tensor, rows int, dims tensor.Shape, updates *tensor.Tensor) error {
	point, err := launch.PointWords(dims)
	if err != nil {
		return err
	}
	named := dims.Elements()
	if rows == 0 || t.Len() == 0 {
		return nil
	}
	inner, step := t.Len()/named, 1
	if updates.Rank() == 0 {
		step = 0
	}
	size := t.DType().Size()
	wide := size
	if op == Set && step == 1 {
		wide = launch.Widest(size, t.Address(), updates.Address(), uint64(inner*size))
	}
	inner = inner * size / wide
	function := scatterFunctions[op]
	if op == Set {
		function = launch.CellFunction(function, wide)
	} else {
		function += "_" + launch.Suffixes[t.DType()]
	}
	count := rows * inner
	row := launch.Divisor(inner, count)
	a := kernels.AcceleratorOf(ctx.Device)
	args := append([]uint64{t.Address(), indices.Address(), launch.IndexKind(indices.DType())}, point...)
	a.Launch(ctx, launch.PerElement(a, function, count, append(args, updates.Address(), row[0], row[1], uint64(step), uint64(count))...))
	return nil
}

// Scattered are the types that arithmetic updates support.
var Scattered = []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16, tensor.Int32, tensor.Int64}

// complexParts are the types of the real and imaginary parts of complex numbers.
var complexParts = map[tensor.DType]tensor.DType{tensor.Complex64: tensor.Float32, tensor.Complex128: tensor.Float64}

// updateAllOn is All in a device's memory, for Add and Sub.
func updateAllOn(ctx *kernels.Context, op Op, next, old, value *tensor.Tensor) {
	name, n := "update_add_", old.Len()
	if op == Sub {
		name = "update_sub_"
	}
	if n == 0 {
		return
	}
	d := old.DType()
	if part, ok := complexParts[d]; ok {
		d, n = part, 2*n
	}
	suffix := launch.SizeSuffix(d)
	if d.IsFloating() {
		suffix = launch.Suffixes[d]
	}
	a := kernels.AcceleratorOf(ctx.Device)
	a.Launch(ctx, launch.PerElement(a, name+suffix, (old.DataSize()+15)/16, next.Address(), old.Address(), value.Address(), uint64(n)))
}
