package training

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// The optimizers: the inputs of their ops, and the updates for floats and complex numbers.
var (
	gradientDescentOptimizer               = newOptimizer(optimizer{name: "GradientDescent", inputs: []string{"var", "alpha", "delta"}, slots: 1}, descend32, descend[float64]).withComplex(descend[complex64], descend[complex128])
	proximalGradientDescentOptimizer       = newOptimizer(optimizer{name: "ProximalGradientDescent", inputs: []string{"var", "alpha", "l1", "l2", "delta"}, slots: 1}, descendProximal[float32], descendProximal[float64])
	sparseProximalGradientDescentOptimizer = newOptimizer(optimizer{name: "ProximalGradientDescent", inputs: []string{"var", "alpha", "l1", "l2", "grad"}, slots: 1}, descendProximal[float32], descendProximal[float64])
	momentumOptimizer                      = newOptimizer(optimizer{name: "Momentum", inputs: []string{"var", "accum", "lr", "grad", "momentum"}, slots: 2, flag: "use_nesterov"}, momentum32, momentum[float64]).withComplex(momentum[complex64], momentum[complex128])
	kerasMomentumOptimizer                 = newOptimizer(optimizer{name: "KerasMomentum", inputs: []string{"var", "accum", "lr", "grad", "momentum"}, slots: 2, flag: "use_nesterov"}, momentumKeras[float32], momentumKeras[float64]).withComplex(momentumKeras[complex64], momentumKeras[complex128])
	adamOptimizer                          = newOptimizer(optimizer{name: "Adam", inputs: []string{"var", "m", "v", "beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon", "grad"}, slots: 3, flag: "use_nesterov"}, adam32, adam[float64]).withComplex(adamComplex[complex64], adamComplex[complex128])
	adamWithAmsgradOptimizer               = newOptimizer(optimizer{name: "AdamWithAmsgrad", inputs: []string{"var", "m", "v", "vhat", "beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon", "grad"}, slots: 4}, amsgrad[float32], amsgrad[float64])
	adaMaxOptimizer                        = newOptimizer(optimizer{name: "AdaMax", inputs: []string{"var", "m", "v", "beta1_power", "lr", "beta1", "beta2", "epsilon", "grad"}, slots: 3}, adaMax[float32], adaMax[float64])
	adagradOptimizer                       = newOptimizer(optimizer{name: "Adagrad", inputs: []string{"var", "accum", "lr", "grad"}, slots: 2, flag: "update_slots"}, adagrad32, adagrad[float64]).withComplex(adagradComplex[complex64], adagradComplex[complex128])
	adagradV2Optimizer                     = newOptimizer(optimizer{name: "AdagradV2", inputs: []string{"var", "accum", "lr", "epsilon", "grad"}, slots: 2, flag: "update_slots"}, adagradV232, adagradV2[float64]).withComplex(adagradV2Complex[complex64], adagradV2Complex[complex128])
	proximalAdagradOptimizer               = newOptimizer(optimizer{name: "ProximalAdagrad", inputs: []string{"var", "accum", "lr", "l1", "l2", "grad"}, slots: 2, limits: proximalLimits}, adagradProximal[float32], adagradProximal[float64])
	adagradDAOptimizer                     = newOptimizer(optimizer{name: "AdagradDA", inputs: []string{"var", "gradient_accumulator", "gradient_squared_accumulator", "grad", "lr", "l1", "l2", "global_step"}, slots: 3}, adagradDual[float32], adagradDual[float64])
	sparseAdagradDAOptimizer               = newOptimizer(optimizer{name: "AdagradDA", inputs: []string{"var", "gradient_accumulator", "gradient_squared_accumulator", "grad", "lr", "l1", "l2", "global_step"}, slots: 3}, adagradDualRows[float32], adagradDualRows[float64])
	adadeltaOptimizer                      = newOptimizer(optimizer{name: "Adadelta", inputs: []string{"var", "accum", "accum_update", "lr", "rho", "epsilon", "grad"}, slots: 3}, adadelta[float32], adadelta[float64]).withComplex(adadeltaComplex[complex64], adadeltaComplex[complex128])
	rmsPropOptimizer                       = newOptimizer(optimizer{name: "RMSProp", inputs: []string{"var", "ms", "mom", "lr", "rho", "momentum", "epsilon", "grad"}, slots: 3}, rmsProp32, rmsProp[float64]).withComplex(rmsPropComplex[complex64], rmsPropComplex[complex128])
	centeredRMSPropOptimizer               = newOptimizer(optimizer{name: "CenteredRMSProp", inputs: []string{"var", "mg", "ms", "mom", "lr", "rho", "momentum", "epsilon", "grad"}, slots: 4}, rmsPropCentered32, rmsPropCentered[float64]).withComplex(rmsPropCenteredComplex[complex64], rmsPropCenteredComplex[complex128])
	ftrlOptimizer                          = newOptimizer(optimizer{name: "Ftrl", inputs: []string{"var", "accum", "linear", "grad", "lr", "l1", "l2", "lr_power"}, slots: 3, flag: "multiply_linear_by_lr", limits: ftrlLimits}, ftrl32, ftrl[float64])
	ftrlV2Optimizer                        = newOptimizer(optimizer{name: "FtrlV2", inputs: []string{"var", "accum", "linear", "grad", "lr", "l1", "l2", "l2_shrinkage", "lr_power"}, slots: 3, flag: "multiply_linear_by_lr", limits: ftrlLimits}, ftrlV232, ftrlV2[float64])
	addSignOptimizer                       = newOptimizer(optimizer{name: "AddSign", inputs: []string{"var", "m", "lr", "alpha", "sign_decay", "beta", "grad"}, slots: 2}, addSign[float32], addSign[float64])
	powerSignOptimizer                     = newOptimizer(optimizer{name: "PowerSign", inputs: []string{"var", "m", "lr", "logbase", "sign_decay", "beta", "grad"}, slots: 2}, powerSign[float32], powerSign[float64])
)

// newOptimizer adds the updates of the floating-point types to an optimizer. Half types use the float32 update.
func newOptimizer(o optimizer, f32 update[float32], f64 update[float64]) *optimizer {
	addUpdate(&o, f32, scalar32)
	addUpdate(&o, f64, func(t *tensor.Tensor) float64 {
		if t.DType() == tensor.Int64 {
			return float64(tensor.Of[int64](t)[0])
		}
		return tensor.Of[float64](t)[0]
	})
	addUpdate(&o, halfUpdate[element.Float16](f32), func(t *tensor.Tensor) element.Float16 {
		if t.DType() == tensor.Int64 {
			return element.ToFloat16(scalar32(t))
		}
		return tensor.Of[element.Float16](t)[0]
	})
	addUpdate(&o, halfUpdate[element.BFloat16](f32), func(t *tensor.Tensor) element.BFloat16 {
		if t.DType() == tensor.Int64 {
			return element.ToBFloat16(scalar32(t))
		}
		return tensor.Of[element.BFloat16](t)[0]
	})
	return &o
}

func scalar32(t *tensor.Tensor) float32 {
	if t.DType() == tensor.Int64 { // global_step
		return float32(tensor.Of[int64](t)[0])
	}
	return tensor.Of[float32](t)[0]
}

// withComplex adds the updates of the complex types.
func (o *optimizer) withComplex(c64 update[complex64], c128 update[complex128]) *optimizer {
	addUpdate(o, c64, func(t *tensor.Tensor) complex64 { return tensor.Of[complex64](t)[0] })
	addUpdate(o, c128, func(t *tensor.Tensor) complex128 { return tensor.Of[complex128](t)[0] })
	return o
}

// addUpdate adds the row of one element type. scalarOf reads a scalar input.
func addUpdate[T any](o *optimizer, f update[T], scalarOf func(*tensor.Tensor) T) {
	dtype := element.DTypeOf[T]()
	o.types = append(o.types, func(in form) kernels.Def {
		return kernels.Def{Types: dtypes.Only("T", dtype), New: func(c *kernels.Construction) (any, error) {
			k := &optimizerKernel[T]{optimizer: o, dtype: dtype, update: f, form: in, scalarOf: scalarOf}
			return k, k.configure(c)
		}}
	})
}

// rows returns the rows of one form of the optimizer, including those for GPUs that support it.
func (o *optimizer) rows(in form) (rows []kernels.Def) {
	for _, row := range o.types {
		rows = append(rows, row(in))
	}
	return append(rows, o.gpuRows(in)...)
}
