package mapping

import (
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
)

// Datasets returns the ops that create datasets of this package.
func Datasets() []kernels.Def {
	return []kernels.Def{
		{Op: "MapDataset", New: dataset.New(newMap)},
		{Op: "ExperimentalMapDataset", New: dataset.New(newMap)},
		{Op: "ParallelMapDataset", New: dataset.New(newParallelMapV1)},
		{Op: "ParallelMapDatasetV2", New: dataset.New(newParallelMap)},
		{Op: "FilterDataset", New: dataset.New(newFilter)},
		{Op: "ParallelFilterDataset", New: dataset.New(newParallelFilter)},
		{Op: "FilterByLastComponentDataset", New: dataset.New(newFilterLast)},
		{Op: "TakeWhileDataset", New: dataset.New(newTakeWhile)},
		{Op: "ExperimentalTakeWhileDataset", New: dataset.New(newTakeWhile)},
		{Op: "FlatMapDataset", New: dataset.New(newFlatMap)},
		{Op: "IndexFlatMapDataset", New: dataset.New(newIndexFlatMap)},
		{Op: "WeightedFlatMapDataset", New: dataset.New(newWeighted)},
		{Op: "InterleaveDataset", New: dataset.New(newInterleave)},
		{Op: "ParallelInterleaveDatasetV2", New: dataset.New(newParallelInterleave(""))},
		{Op: "ParallelInterleaveDatasetV3", New: dataset.New(newParallelInterleave("deterministic"))},
		{Op: "ParallelInterleaveDatasetV4", New: dataset.New(newParallelInterleave("deterministic"))},
		{Op: "ParallelInterleaveDataset", New: dataset.New(newLegacyInterleave(true))},
		{Op: "ExperimentalParallelInterleaveDataset", New: dataset.New(newLegacyInterleave(true))},
		{Op: "LegacyParallelInterleaveDatasetV2", New: dataset.New(newLegacyInterleave(false))},
		{Op: "ParseExampleDataset", New: dataset.New(newParseExamples)},
		{Op: "ParseExampleDatasetV2", New: dataset.New(newParseExamples)},
		{Op: "ExperimentalParseExampleDataset", New: dataset.New(newParseExamples)},
		{Op: "GroupByWindowDataset", New: dataset.New(newGroupByWindow)},
		{Op: "ExperimentalGroupByWindowDataset", New: dataset.New(newGroupByWindow)},
		{Op: "GroupByReducerDataset", New: dataset.New(newGroupByReducer)},
		{Op: "ExperimentalGroupByReducerDataset", New: dataset.New(newGroupByReducer)},
		{Op: "ScanDataset", New: dataset.New(newScan)},
		{Op: "ExperimentalScanDataset", New: dataset.New(newScan)},
		{Op: "PrefetchDataset", New: dataset.New(newPrefetch)},
		{Op: "ChooseFastestDataset", New: dataset.New(newFastest)},
		{Op: "ExperimentalChooseFastestDataset", New: dataset.New(newFastest)},
		{Op: "ChooseFastestBranchDataset", New: dataset.New(newFastestBranch)},
	}
}

// Ops returns the other ops.
func Ops() []kernels.Def {
	return []kernels.Def{
		{Op: "MapDefun", New: newMapDefun},
	}
}
