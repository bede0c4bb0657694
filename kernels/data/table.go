package data

import (
	"slices"

	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/batching"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/data/internal/iterator"
	"github.com/troupe-run/troupe/kernels/data/internal/mapping"
	"github.com/troupe-run/troupe/kernels/data/internal/passthrough"
	"github.com/troupe-run/troupe/kernels/data/internal/selection"
	"github.com/troupe-run/troupe/kernels/data/internal/source"
	"github.com/troupe-run/troupe/kernels/data/internal/storage"
)

// Table returns the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	table.Add(datasetDefs()...)
	for _, ops := range [][]kernels.Def{source.Ops(), mapping.Ops(), storage.Ops(), passthrough.Ops(), iterator.Ops()} {
		table.Add(ops...)
	}
	return table
}

// datasetDefs returns the ops that create a dataset from their inputs.
func datasetDefs() []kernels.Def {
	return slices.Concat(source.Datasets(), selection.Datasets(), mapping.Datasets(), batching.Datasets(), storage.Datasets(), passthrough.Datasets())
}

// Register installs the functions that read datasets, iterator states and compressed elements from other processes. It must be called once
// per process.
func Register() {
	var ops []string
	for _, def := range datasetDefs() {
		ops = append(ops, def.Op)
	}
	dataset.Register(ops)
	storage.Register()
}
