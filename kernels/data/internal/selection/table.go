package selection

import (
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
)

// Datasets returns the ops that create datasets of this package.
func Datasets() []kernels.Def {
	return []kernels.Def{
		{Op: "TakeDataset", New: dataset.New(newTake)},
		{Op: "SkipDataset", New: dataset.New(newSkip)},
		{Op: "ShardDataset", New: dataset.New(newShard)},
		{Op: "RepeatDataset", New: dataset.New(newRepeat)},
		{Op: "ZipDataset", New: dataset.New(newZip)},
		{Op: "ConcatenateDataset", New: dataset.New(newConcatenate)},
		{Op: "ShuffleDataset", New: dataset.New(newShuffle)},
		{Op: "ShuffleDatasetV3", New: dataset.New(newShuffle)},
		{Op: "ShuffleDatasetV2", New: dataset.New(newShuffleV2)},
		{Op: "ShuffleAndRepeatDataset", New: dataset.New(newShuffleAndRepeat)},
		{Op: "ShuffleAndRepeatDatasetV2", New: dataset.New(newShuffleAndRepeat)},
		{Op: "GlobalShuffleDataset", New: dataset.New(newShuffleAll)},
		{Op: "SamplingDataset", New: dataset.New(newSampling)},
		{Op: "UniqueDataset", New: dataset.New(newUnique)},
		{Op: "ExperimentalUniqueDataset", New: dataset.New(newUnique)},
		{Op: "DirectedInterleaveDataset", New: dataset.New(newDirected)},
		{Op: "ExperimentalDirectedInterleaveDataset", New: dataset.New(newDirected)},
	}
}
