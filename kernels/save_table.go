package kernels

// The ops of tf.train.Saver, of both formats, and those that start from another model's checkpoint.
func init() {
	Register(
		Def{Op: "SaveV2", New: func(*Construction) (any, error) { return onDisk(saveV2), nil }},
		Def{Op: "RestoreV2", New: newRestoreV2},
		Def{Op: "MergeV2Checkpoints", New: newMergeCheckpoints},
		Def{Op: "Save", New: func(*Construction) (any, error) { return saveV1(2), nil }},
		Def{Op: "SaveSlices", New: func(*Construction) (any, error) { return saveV1(3), nil }},
		Def{Op: "Restore", New: newRestoreV1},
		Def{Op: "RestoreSlice", New: newRestoreV1},
		Def{Op: "ShardedFilespec", New: always(shardedFilespec)},
		Def{Op: "GenerateVocabRemapping", New: newVocabRemapping},
		Def{Op: "LoadAndRemapMatrix", New: newRemapMatrix},
	)
}
