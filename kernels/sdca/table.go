package sdca

import "github.com/troupe-run/troupe/kernels"

// Table returns the ops of the family.
func Table() *kernels.Table {
	table := &kernels.Table{}
	table.Add([]kernels.Def{
		{Op: "SdcaOptimizer", Expensive: true, New: newOptimizer("adaptative")},
		{Op: "SdcaOptimizerV2", Expensive: true, New: newOptimizer("adaptive")},
		{Op: "SdcaShrinkL1", Expensive: true, New: newShrink},
		{Op: "SdcaFprint", New: kernels.Always(fingerprint)},
	}...)
	return table
}
