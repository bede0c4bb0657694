package kernels

// The ops of tf.train.Saver.
func init() {
	Register(
		Def{Op: "SaveV2", New: func(*Construction) (any, error) { return onDisk(saveV2), nil }},
		Def{Op: "RestoreV2", New: newRestoreV2},
		Def{Op: "MergeV2Checkpoints", New: newMergeCheckpoints},
	)
}
