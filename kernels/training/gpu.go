package training

import (
	"math/bits"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/launch"
)

// gpuOptimizers lists the optimizers that GPUs support, with the names of their functions in kernels/cuda/optimizer.cu.
var gpuOptimizers = map[string]struct {
	function string
	sparse   bool
}{
	"GradientDescent":         {"gradient_descent", false},
	"ProximalGradientDescent": {"proximal_gradient_descent", false},
	"Momentum":                {"momentum", true},
	"KerasMomentum":           {"keras_momentum", true},
	"Adam":                    {"adam", false},
	"AdamWithAmsgrad":         {"adam_with_amsgrad", false},
	"AdaMax":                  {"ada_max", false},
	"Adagrad":                 {"adagrad", true},
	"AdagradV2":               {"adagrad_v2", true},
	"ProximalAdagrad":         {"proximal_adagrad", true},
	"Adadelta":                {"adadelta", false},
	"RMSProp":                 {"rms_prop", false},
	"CenteredRMSProp":         {"centered_rms_prop", false},
	"Ftrl":                    {"ftrl", true},
	"FtrlV2":                  {"ftrl_v2", true},
	"AddSign":                 {"add_sign", false},
	"PowerSign":               {"power_sign", false},
}

// gpuRows returns the GPU rows of one form of an optimizer, or none if GPUs do not support it. As in TensorFlow, scalars are in the
// device's memory.
func (o *optimizer) gpuRows(in form) (rows []kernels.Def) {
	on, ok := gpuOptimizers[o.name]
	if !ok || in.sparse && !on.sparse {
		return nil
	}
	for _, t := range launch.Reals {
		dtype, function := t.DType, "apply_"+on.function+"_"+t.Suffix
		if in.sparse {
			function = "sparse_" + function
		}
		rows = append(rows, kernels.Def{Device: "GPU", Types: dtypes.Only("T", dtype), New: func(c *kernels.Construction) (any, error) {
			k := &gpuOptimizer{function: function}
			k.optimizerKernel = optimizerKernel[struct{}]{optimizer: o, dtype: dtype, form: in}
			return k, k.configure(c)
		}})
	}
	return rows
}

// gpuOptimizer updates the slots with one device function. It takes the same locks as on a CPU, but holds them only until the work is
// queued on the device, which runs it in order.
type gpuOptimizer struct {
	optimizerKernel[struct{}]
	function string
}

func (k *gpuOptimizer) Compute(ctx *kernels.Context) error {
	l := &slotLocks{}
	l.prepare(func() error {
		if err := k.checkShapes(ctx, l.old[:k.slots]); err != nil {
			return err
		}
		if k.sparse {
			return k.updateRows(ctx, l)
		}
		k.updateAll(ctx, l)
		return nil
	})
	if err := k.lock(ctx, l); err != nil {
		return err
	}
	if !k.resource {
		ctx.Pass(0, 0)
	}
	return nil
}

// arguments returns the fields of the CUDA struct Apply.
func (k *gpuOptimizer) arguments(ctx *kernels.Context, from, to *[maxSlots]*tensor.Tensor) []uint64 {
	args := make([]uint64, 0, 24)
	args = append(args, uint64(from[0].Len()), ctx.Input(k.gradAt).Address())
	for _, slots := range []*[maxSlots]*tensor.Tensor{from, to} {
		for _, t := range slots {
			if t == nil {
				args = append(args, 0)
			} else {
				args = append(args, t.Address())
			}
		}
	}
	for i := range maxScalars {
		if i < len(k.scalars) {
			args = append(args, ctx.Input(k.scalars[i]).Address())
		} else {
			args = append(args, 0)
		}
	}
	if k.flag {
		return append(args, 1)
	}
	return append(args, 0)
}

func (k *gpuOptimizer) updateAll(ctx *kernels.Context, l *slotLocks) {
	n := l.old[0].Len()
	if n == 0 {
		return
	}
	a := kernels.AcceleratorOf(ctx.Device)
	a.Launch(ctx, launch.PerElement(a, k.function, (n*k.dtype.Size()+15)/16, k.arguments(ctx, &l.old, &l.next)...))
}

// updateRows updates the rows that the indices name. If an index occurs more than once, its updates apply in the order of the indices. As
// in TensorFlow's GPU kernels, indices out of range are ignored.
func (k *gpuOptimizer) updateRows(ctx *kernels.Context, l *slotLocks) error {
	a, shape, indices := kernels.AcceleratorOf(ctx.Device), l.old[0].Shape(), ctx.Input(k.gradAt+1)
	count, inner := indices.Len(), shape[1:].Elements()
	var table *tensor.Tensor
	if count*inner > 0 {
		var err error
		if table, err = ctx.Device.Memory().New(tensor.Uint64, tensor.Shape{2 << bits.Len(uint(count)), 3}); err != nil {
			return err
		}
		defer table.Release()
	}
	for i, old := range l.old[:k.slots] {
		if l.next[i] != old && old.Len() > 0 {
			a.Copy(ctx, l.next[i], old) // most rows do not change
		}
	}
	if table == nil {
		return nil
	}
	a.Fill(ctx, table, 0xff)
	wide := uint64(0)
	if indices.DType() == tensor.Int64 {
		wide = 1
	}
	rows := []uint64{indices.Address(), uint64(count), wide, uint64(shape[0]), uint64(inner), table.Address(), uint64(table.Dim(0) - 1)}
	a.Launch(ctx, launch.PerElement(a, "sparse_rows", count, rows...))
	a.Launch(ctx, launch.PerElement(a, k.function, count*inner, append(k.arguments(ctx, &l.next, &l.next), rows...)...))
	return nil
}
