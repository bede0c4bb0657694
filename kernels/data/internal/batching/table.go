package batching

import (
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
)

// Datasets returns the ops that create datasets of this package.
func Datasets() []kernels.Def {
	return []kernels.Def{
		{Op: "MapAndBatchDataset", New: dataset.New(newMapAndBatch)},
		{Op: "ExperimentalMapAndBatchDataset", New: dataset.New(newMapAndBatch)},
		{Op: "BatchDataset", New: dataset.New(newBatchKeeping)},
		{Op: "BatchDatasetV2", New: dataset.New(newBatch)},
		{Op: "RebatchDataset", New: dataset.New(newSplit)},
		{Op: "ExperimentalRebatchDataset", New: dataset.New(newSplit)},
		{Op: "RebatchDatasetV2", New: dataset.New(newRebatch)},
		{Op: "DenseToSparseBatchDataset", New: dataset.New(newSparseBatch)},
		{Op: "ExperimentalDenseToSparseBatchDataset", New: dataset.New(newSparseBatch)},
		{Op: "ParallelBatchDataset", New: dataset.New(newParallelBatch)},
		{Op: "PaddedBatchDataset", New: dataset.New(newPaddedBatch(false))},
		{Op: "PaddedBatchDatasetV2", New: dataset.New(newPaddedBatch(true))},
		{Op: "UnbatchDataset", New: dataset.New(newUnbatch)},
		{Op: "ExperimentalUnbatchDataset", New: dataset.New(newUnbatch)},
		{Op: "WindowDataset", New: dataset.New(newWindow)},
		{Op: "SlidingWindowDataset", New: dataset.New(newSlidingWindow)},
		{Op: "ExperimentalSlidingWindowDataset", New: dataset.New(newSlidingWindow)},
	}
}
