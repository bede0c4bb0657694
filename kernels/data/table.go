package data

import (
	"slices"

	"github.com/troupe-run/troupe/kernels"
)

// Table returns the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	table.Add(datasetDefs()...)
	for _, ops := range [][]kernels.Def{sourceOps(), mappingOps(), storageOps(), passthroughOps(), iteratorOps()} {
		table.Add(ops...)
	}
	return table
}

// datasetDefs returns the ops that create a dataset from their inputs.
func datasetDefs() []kernels.Def {
	return slices.Concat(sourceDatasets(), selectionDatasets(), mappingDatasets(), batchingDatasets(), storageDatasets(), passthroughDatasets())
}

// Register installs the functions that read datasets, iterator states and compressed elements from other processes. It must be called once
// per process.
func Register() {
	var ops []string
	for _, def := range datasetDefs() {
		ops = append(ops, def.Op)
	}
	register(ops)
	registerCompressed()
}
