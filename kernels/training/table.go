package training

import (
	"github.com/troupe-run/troupe/kernels"
)

// Table returns the ops of the family: each optimizer of optimizers.go in the forms that TensorFlow has.
func Table() *kernels.Table {
	table := &kernels.Table{}
	op := table.Op
	op("ApplyGradientDescent", gradientDescentOptimizer.rows(byRef))
	op("ResourceApplyGradientDescent", gradientDescentOptimizer.rows(byHandle))

	op("ApplyProximalGradientDescent", proximalGradientDescentOptimizer.rows(byRef))
	op("ResourceApplyProximalGradientDescent", proximalGradientDescentOptimizer.rows(byHandle))
	op("SparseApplyProximalGradientDescent", sparseProximalGradientDescentOptimizer.rows(sparseByRef))
	op("ResourceSparseApplyProximalGradientDescent", sparseProximalGradientDescentOptimizer.rows(sparseByHandle))

	op("ApplyMomentum", momentumOptimizer.rows(byRef))
	op("ResourceApplyMomentum", momentumOptimizer.rows(byHandle))
	op("SparseApplyMomentum", momentumOptimizer.rows(sparseByRef))
	op("ResourceSparseApplyMomentum", momentumOptimizer.rows(sparseByHandle))

	op("ResourceApplyKerasMomentum", kerasMomentumOptimizer.rows(byHandle))
	op("ResourceSparseApplyKerasMomentum", kerasMomentumOptimizer.rows(sparseByHandle))

	op("ApplyAdam", adamOptimizer.rows(byRef))
	op("ResourceApplyAdam", adamOptimizer.rows(byHandle))

	op("ResourceApplyAdamWithAmsgrad", adamWithAmsgradOptimizer.rows(byHandle))

	op("ApplyAdaMax", adaMaxOptimizer.rows(byRef))
	op("ResourceApplyAdaMax", adaMaxOptimizer.rows(byHandle))

	op("ApplyAdagrad", adagradOptimizer.rows(byRef))
	op("ResourceApplyAdagrad", adagradOptimizer.rows(byHandle))
	op("SparseApplyAdagrad", adagradOptimizer.rows(sparseByRef))
	op("ResourceSparseApplyAdagrad", adagradOptimizer.rows(sparseByHandle))

	op("ApplyAdagradV2", adagradV2Optimizer.rows(byRef))
	op("ResourceApplyAdagradV2", adagradV2Optimizer.rows(byHandle))
	op("SparseApplyAdagradV2", adagradV2Optimizer.rows(sparseByRef))
	op("ResourceSparseApplyAdagradV2", adagradV2Optimizer.rows(sparseByHandle))

	op("ApplyProximalAdagrad", proximalAdagradOptimizer.rows(byRef))
	op("ResourceApplyProximalAdagrad", proximalAdagradOptimizer.rows(byHandle))
	op("SparseApplyProximalAdagrad", proximalAdagradOptimizer.rows(sparseByRef))
	op("ResourceSparseApplyProximalAdagrad", proximalAdagradOptimizer.rows(sparseByHandle))

	op("ApplyAdagradDA", adagradDAOptimizer.rows(byRef))
	op("ResourceApplyAdagradDA", adagradDAOptimizer.rows(byHandle))
	op("SparseApplyAdagradDA", sparseAdagradDAOptimizer.rows(sparseByRef))
	op("ResourceSparseApplyAdagradDA", sparseAdagradDAOptimizer.rows(sparseByHandle))

	op("ApplyAdadelta", adadeltaOptimizer.rows(byRef))
	op("ResourceApplyAdadelta", adadeltaOptimizer.rows(byHandle))
	op("SparseApplyAdadelta", adadeltaOptimizer.rows(sparseByRef))
	op("ResourceSparseApplyAdadelta", adadeltaOptimizer.rows(sparseByHandle))

	op("ApplyRMSProp", rmsPropOptimizer.rows(byRef))
	op("ResourceApplyRMSProp", rmsPropOptimizer.rows(byHandle))
	op("SparseApplyRMSProp", rmsPropOptimizer.rows(sparseByRef))
	op("ResourceSparseApplyRMSProp", rmsPropOptimizer.rows(sparseByHandle))

	op("ApplyCenteredRMSProp", centeredRMSPropOptimizer.rows(byRef))
	op("ResourceApplyCenteredRMSProp", centeredRMSPropOptimizer.rows(byHandle))
	op("SparseApplyCenteredRMSProp", centeredRMSPropOptimizer.rows(sparseByRef))
	op("ResourceSparseApplyCenteredRMSProp", centeredRMSPropOptimizer.rows(sparseByHandle))

	op("ApplyFtrl", ftrlOptimizer.rows(byRef))
	op("ResourceApplyFtrl", ftrlOptimizer.rows(byHandle))
	op("SparseApplyFtrl", ftrlOptimizer.rows(sparseByRef))
	op("ResourceSparseApplyFtrl", ftrlOptimizer.rows(sparseByHandle))

	op("ApplyFtrlV2", ftrlV2Optimizer.rows(byRef))
	op("ResourceApplyFtrlV2", ftrlV2Optimizer.rows(byHandle))
	op("SparseApplyFtrlV2", ftrlV2Optimizer.rows(sparseByRef))
	op("ResourceSparseApplyFtrlV2", ftrlV2Optimizer.rows(sparseByHandle))

	op("ApplyAddSign", addSignOptimizer.rows(byRef))
	op("ResourceApplyAddSign", addSignOptimizer.rows(byHandle))

	op("ApplyPowerSign", powerSignOptimizer.rows(byRef))
	op("ResourceApplyPowerSign", powerSignOptimizer.rows(byHandle))
	return table
}
