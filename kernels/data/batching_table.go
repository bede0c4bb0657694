package data

import (
	"github.com/troupe-run/troupe/kernels"
)

// batchingDatasets returns the ops that create datasets of this package.
func batchingDatasets() []kernels.Def {
	return []kernels.Def{
		{Op: "MapAndBatchDataset", New: New(newMapAndBatch)},
		{Op: "ExperimentalMapAndBatchDataset", New: New(newMapAndBatch)},
		{Op: "BatchDataset", New: New(newBatchKeeping)},
		{Op: "BatchDatasetV2", New: New(newBatch)},
		{Op: "RebatchDataset", New: New(newSplit)},
		{Op: "ExperimentalRebatchDataset", New: New(newSplit)},
		{Op: "RebatchDatasetV2", New: New(newRebatch)},
		{Op: "DenseToSparseBatchDataset", New: New(newSparseBatch)},
		{Op: "ExperimentalDenseToSparseBatchDataset", New: New(newSparseBatch)},
		{Op: "ParallelBatchDataset", New: New(newParallelBatch)},
		{Op: "PaddedBatchDataset", New: New(newPaddedBatch(false))},
		{Op: "PaddedBatchDatasetV2", New: New(newPaddedBatch(true))},
		{Op: "UnbatchDataset", New: New(newUnbatch)},
		{Op: "ExperimentalUnbatchDataset", New: New(newUnbatch)},
		{Op: "WindowDataset", New: New(newWindow)},
		{Op: "SlidingWindowDataset", New: New(newSlidingWindow)},
		{Op: "ExperimentalSlidingWindowDataset", New: New(newSlidingWindow)},
	}
}
