package save

import (
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/disk"
)

// Table returns the ops of the family.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addSave(table)
	return table
}

// addSave adds the ops of tf.train.Saver, in both formats, and those that initialize from another model's checkpoint.
func addSave(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "SaveV2", New: func(*kernels.Construction) (any, error) { return disk.Async(saveV2), nil }},
		{Op: "RestoreV2", New: newRestoreV2},
		{Op: "MergeV2Checkpoints", New: newMergeCheckpoints},
		{Op: "Save", New: func(*kernels.Construction) (any, error) { return saveV1(2), nil }},
		{Op: "SaveSlices", New: func(*kernels.Construction) (any, error) { return saveV1(3), nil }},
		{Op: "Restore", New: newRestoreV1},
		{Op: "RestoreSlice", New: newRestoreV1},
		{Op: "ShardedFilespec", New: kernels.Always(shardedFilespec)},
		{Op: "GenerateVocabRemapping", New: newVocabRemapping},
		{Op: "LoadAndRemapMatrix", New: newRemapMatrix},
	}...)
}
