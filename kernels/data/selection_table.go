package data

import (
	"github.com/troupe-run/troupe/kernels"
)

// selectionDatasets returns the ops that create datasets of this package.
func selectionDatasets() []kernels.Def {
	return []kernels.Def{
		{Op: "TakeDataset", New: New(newTake)},
		{Op: "SkipDataset", New: New(newSkip)},
		{Op: "ShardDataset", New: New(newShard)},
		{Op: "RepeatDataset", New: New(newRepeat)},
		{Op: "ZipDataset", New: New(newZip)},
		{Op: "ConcatenateDataset", New: New(newConcatenate)},
		{Op: "ShuffleDataset", New: New(newShuffle)},
		{Op: "ShuffleDatasetV3", New: New(newShuffle)},
		{Op: "ShuffleDatasetV2", New: New(newShuffleV2)},
		{Op: "ShuffleAndRepeatDataset", New: New(newShuffleAndRepeat)},
		{Op: "ShuffleAndRepeatDatasetV2", New: New(newShuffleAndRepeat)},
		{Op: "GlobalShuffleDataset", New: New(newShuffleAll)},
		{Op: "SamplingDataset", New: New(newSampling)},
		{Op: "UniqueDataset", New: New(newUnique)},
		{Op: "ExperimentalUniqueDataset", New: New(newUnique)},
		{Op: "DirectedInterleaveDataset", New: New(newDirected)},
		{Op: "ExperimentalDirectedInterleaveDataset", New: New(newDirected)},
	}
}
