package training

import (
	"github.com/troupe-run/troupe/kernels"
)

// Table is the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addOpt(table)
	return table
}

func addOpt(table *kernels.Table) {
	gradientDescent := optimizer{"GradientDescent", []string{"var", "alpha", "delta"}, 1, "", denseForms}
	optimizers(table, gradientDescent, descend32, descend[float64])
	complexOptimizers(table, gradientDescent, descend[complex64], descend[complex128])
	proximal := optimizer{"ProximalGradientDescent", []string{"var", "alpha", "l1", "l2", "delta"}, 1, "", denseForms}
	optimizers(table, proximal, descendProximal[float32], descendProximal[float64])
	proximal.inputs = []string{"var", "alpha", "l1", "l2", "grad"}
	proximal.forms = optimizerForms{sparseRef: true, sparseResource: true}
	optimizers(table, proximal, descendProximal[float32], descendProximal[float64])

	withMomentum := optimizer{"Momentum", []string{"var", "accum", "lr", "grad", "momentum"}, 2, "use_nesterov", allForms}
	optimizers(table, withMomentum, momentum32, momentum[float64])
	complexOptimizers(table, withMomentum, momentum[complex64], momentum[complex128])
	keras := optimizer{"KerasMomentum", withMomentum.inputs, 2, "use_nesterov", optimizerForms{resource: true, sparseResource: true}}
	optimizers(table, keras, momentumKeras[float32], momentumKeras[float64])
	complexOptimizers(table, keras, momentumKeras[complex64], momentumKeras[complex128])

	withAdam := optimizer{"Adam", []string{"var", "m", "v", "beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon", "grad"}, 3, "use_nesterov", denseForms}
	optimizers(table, withAdam, adam32, adam[float64])
	complexOptimizers(table, withAdam, adamComplex[complex64], adamComplex[complex128])
	optimizers(table, optimizer{"AdamWithAmsgrad", []string{"var", "m", "v", "vhat", "beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon", "grad"}, 4, "", optimizerForms{resource: true}}, amsgrad[float32], amsgrad[float64])
	optimizers(table, optimizer{"AdaMax", []string{"var", "m", "v", "beta1_power", "lr", "beta1", "beta2", "epsilon", "grad"}, 3, "", denseForms}, adaMax[float32], adaMax[float64])
	withAdagrad := optimizer{"Adagrad", []string{"var", "accum", "lr", "grad"}, 2, "update_slots", allForms}
	optimizers(table, withAdagrad, adagrad32, adagrad[float64])
	complexOptimizers(table, withAdagrad, adagradComplex[complex64], adagradComplex[complex128])
	withAdagradV2 := optimizer{"AdagradV2", []string{"var", "accum", "lr", "epsilon", "grad"}, 2, "update_slots", allForms}
	optimizers(table, withAdagradV2, adagradV232, adagradV2[float64])
	complexOptimizers(table, withAdagradV2, adagradV2Complex[complex64], adagradV2Complex[complex128])
	optimizers(table, optimizer{"ProximalAdagrad", []string{"var", "accum", "lr", "l1", "l2", "grad"}, 2, "", allForms}, adagradProximal[float32], adagradProximal[float64])
	optimizers(table, optimizer{"AdagradDA", []string{"var", "gradient_accumulator", "gradient_squared_accumulator", "grad", "lr", "l1", "l2", "global_step"}, 3, "", allForms}, adagradDual[float32], adagradDual[float64])
	withAdadelta := optimizer{"Adadelta", []string{"var", "accum", "accum_update", "lr", "rho", "epsilon", "grad"}, 3, "", allForms}
	optimizers(table, withAdadelta, adadelta[float32], adadelta[float64])
	complexOptimizers(table, withAdadelta, adadeltaComplex[complex64], adadeltaComplex[complex128])
	withRMSProp := optimizer{"RMSProp", []string{"var", "ms", "mom", "lr", "rho", "momentum", "epsilon", "grad"}, 3, "", allForms}
	optimizers(table, withRMSProp, rmsProp32, rmsProp[float64])
	complexOptimizers(table, withRMSProp, rmsPropComplex[complex64], rmsPropComplex[complex128])
	withCenteredRMSProp := optimizer{"CenteredRMSProp", []string{"var", "mg", "ms", "mom", "lr", "rho", "momentum", "epsilon", "grad"}, 4, "", allForms}
	optimizers(table, withCenteredRMSProp, rmsPropCentered32, rmsPropCentered[float64])
	complexOptimizers(table, withCenteredRMSProp, rmsPropCenteredComplex[complex64], rmsPropCenteredComplex[complex128])
	optimizers(table, optimizer{"Ftrl", []string{"var", "accum", "linear", "grad", "lr", "l1", "l2", "lr_power"}, 3, "multiply_linear_by_lr", allForms}, ftrl32, ftrl[float64])
	optimizers(table, optimizer{"FtrlV2", []string{"var", "accum", "linear", "grad", "lr", "l1", "l2", "l2_shrinkage", "lr_power"}, 3, "multiply_linear_by_lr", allForms}, ftrlV232, ftrlV2[float64])
	optimizers(table, optimizer{"AddSign", []string{"var", "m", "lr", "alpha", "sign_decay", "beta", "grad"}, 2, "", denseForms}, addSign[float32], addSign[float64])
	optimizers(table, optimizer{"PowerSign", []string{"var", "m", "lr", "logbase", "sign_decay", "beta", "grad"}, 2, "", denseForms}, powerSign[float32], powerSign[float64])
}
