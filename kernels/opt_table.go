package kernels

import "github.com/troupe-run/troupe/graph/tensor"

// optimizers makes the rows of an optimizer for the floating types. The halves use the float update.
func optimizers(o optimizer, f32 update[float32], f64 update[float64]) {
	registerOptimizer(&o, f32, scalar32)
	registerOptimizer(&o, f64, func(t *tensor.Tensor) float64 {
		if t.DType() == tensor.Int64 {
			return float64(tensor.Of[int64](t)[0])
		}
		return tensor.Of[float64](t)[0]
	})
	registerOptimizer(&o, halfUpdate[float16](f32), func(t *tensor.Tensor) float16 {
		if t.DType() == tensor.Int64 {
			return toFloat16(scalar32(t))
		}
		return tensor.Of[float16](t)[0]
	})
	registerOptimizer(&o, halfUpdate[bfloat16](f32), func(t *tensor.Tensor) bfloat16 {
		if t.DType() == tensor.Int64 {
			return toBFloat16(scalar32(t))
		}
		return tensor.Of[bfloat16](t)[0]
	})
	registerGPUOptimizer(&o)
}

func scalar32(t *tensor.Tensor) float32 {
	if t.DType() == tensor.Int64 { // global_step
		return float32(tensor.Of[int64](t)[0])
	}
	return tensor.Of[float32](t)[0]
}

// complexOptimizers makes the rows for the complex types.
func complexOptimizers(o optimizer, c64 update[complex64], c128 update[complex128]) {
	registerOptimizer(&o, c64, func(t *tensor.Tensor) complex64 { return tensor.Of[complex64](t)[0] })
	registerOptimizer(&o, c128, func(t *tensor.Tensor) complex128 { return tensor.Of[complex128](t)[0] })
}

func init() {
	gradientDescent := optimizer{"GradientDescent", []string{"var", "alpha", "delta"}, 1, "", denseForms}
	optimizers(gradientDescent, descend32, descend[float64])
	complexOptimizers(gradientDescent, descend[complex64], descend[complex128])
	proximal := optimizer{"ProximalGradientDescent", []string{"var", "alpha", "l1", "l2", "delta"}, 1, "", denseForms}
	optimizers(proximal, descendProximal[float32], descendProximal[float64])
	proximal.inputs = []string{"var", "alpha", "l1", "l2", "grad"}
	proximal.forms = optimizerForms{sparseRef: true, sparseResource: true}
	optimizers(proximal, descendProximal[float32], descendProximal[float64])

	withMomentum := optimizer{"Momentum", []string{"var", "accum", "lr", "grad", "momentum"}, 2, "use_nesterov", allForms}
	optimizers(withMomentum, momentum32, momentum[float64])
	complexOptimizers(withMomentum, momentum[complex64], momentum[complex128])
	keras := optimizer{"KerasMomentum", withMomentum.inputs, 2, "use_nesterov", optimizerForms{resource: true, sparseResource: true}}
	optimizers(keras, momentumKeras[float32], momentumKeras[float64])
	complexOptimizers(keras, momentumKeras[complex64], momentumKeras[complex128])

	withAdam := optimizer{"Adam", []string{"var", "m", "v", "beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon", "grad"}, 3, "use_nesterov", denseForms}
	optimizers(withAdam, adam32, adam[float64])
	complexOptimizers(withAdam, adamComplex[complex64], adamComplex[complex128])
	optimizers(optimizer{"AdamWithAmsgrad", []string{"var", "m", "v", "vhat", "beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon", "grad"}, 4, "", optimizerForms{resource: true}}, amsgrad[float32], amsgrad[float64])
	optimizers(optimizer{"AdaMax", []string{"var", "m", "v", "beta1_power", "lr", "beta1", "beta2", "epsilon", "grad"}, 3, "", denseForms}, adaMax[float32], adaMax[float64])
	withAdagrad := optimizer{"Adagrad", []string{"var", "accum", "lr", "grad"}, 2, "update_slots", allForms}
	optimizers(withAdagrad, adagrad32, adagrad[float64])
	complexOptimizers(withAdagrad, adagradComplex[complex64], adagradComplex[complex128])
	withAdagradV2 := optimizer{"AdagradV2", []string{"var", "accum", "lr", "epsilon", "grad"}, 2, "update_slots", allForms}
	optimizers(withAdagradV2, adagradV232, adagradV2[float64])
	complexOptimizers(withAdagradV2, adagradV2Complex[complex64], adagradV2Complex[complex128])
	optimizers(optimizer{"ProximalAdagrad", []string{"var", "accum", "lr", "l1", "l2", "grad"}, 2, "", allForms}, adagradProximal[float32], adagradProximal[float64])
	optimizers(optimizer{"AdagradDA", []string{"var", "gradient_accumulator", "gradient_squared_accumulator", "grad", "lr", "l1", "l2", "global_step"}, 3, "", allForms}, adagradDual[float32], adagradDual[float64])
	withAdadelta := optimizer{"Adadelta", []string{"var", "accum", "accum_update", "lr", "rho", "epsilon", "grad"}, 3, "", allForms}
	optimizers(withAdadelta, adadelta[float32], adadelta[float64])
	complexOptimizers(withAdadelta, adadeltaComplex[complex64], adadeltaComplex[complex128])
	withRMSProp := optimizer{"RMSProp", []string{"var", "ms", "mom", "lr", "rho", "momentum", "epsilon", "grad"}, 3, "", allForms}
	optimizers(withRMSProp, rmsProp32, rmsProp[float64])
	complexOptimizers(withRMSProp, rmsPropComplex[complex64], rmsPropComplex[complex128])
	withCenteredRMSProp := optimizer{"CenteredRMSProp", []string{"var", "mg", "ms", "mom", "lr", "rho", "momentum", "epsilon", "grad"}, 4, "", allForms}
	optimizers(withCenteredRMSProp, rmsPropCentered32, rmsPropCentered[float64])
	complexOptimizers(withCenteredRMSProp, rmsPropCenteredComplex[complex64], rmsPropCenteredComplex[complex128])
	optimizers(optimizer{"Ftrl", []string{"var", "accum", "linear", "grad", "lr", "l1", "l2", "lr_power"}, 3, "multiply_linear_by_lr", allForms}, ftrl32, ftrl[float64])
	optimizers(optimizer{"FtrlV2", []string{"var", "accum", "linear", "grad", "lr", "l1", "l2", "l2_shrinkage", "lr_power"}, 3, "multiply_linear_by_lr", allForms}, ftrlV232, ftrlV2[float64])
	optimizers(optimizer{"AddSign", []string{"var", "m", "lr", "alpha", "sign_decay", "beta", "grad"}, 2, "", denseForms}, addSign[float32], addSign[float64])
	optimizers(optimizer{"PowerSign", []string{"var", "m", "lr", "logbase", "sign_decay", "beta", "grad"}, 2, "", denseForms}, powerSign[float32], powerSign[float64])
}
