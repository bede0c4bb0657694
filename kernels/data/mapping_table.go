package data

import (
	"github.com/troupe-run/troupe/kernels"
)

// mappingDatasets returns the ops that create datasets of this package.
func mappingDatasets() []kernels.Def {
	return []kernels.Def{
		{Op: "MapDataset", New: New(newMap)},
		{Op: "ExperimentalMapDataset", New: New(newMap)},
		{Op: "ParallelMapDataset", New: New(newParallelMapV1)},
		{Op: "ParallelMapDatasetV2", New: New(newParallelMap)},
		{Op: "FilterDataset", New: New(newFilter)},
		{Op: "ParallelFilterDataset", New: New(newParallelFilter)},
		{Op: "FilterByLastComponentDataset", New: New(newFilterLast)},
		{Op: "TakeWhileDataset", New: New(newTakeWhile)},
		{Op: "ExperimentalTakeWhileDataset", New: New(newTakeWhile)},
		{Op: "FlatMapDataset", New: New(newFlatMap)},
		{Op: "IndexFlatMapDataset", New: New(newIndexFlatMap)},
		{Op: "WeightedFlatMapDataset", New: New(newWeighted)},
		{Op: "InterleaveDataset", New: New(newInterleave)},
		{Op: "ParallelInterleaveDatasetV2", New: New(newParallelInterleave(""))},
		{Op: "ParallelInterleaveDatasetV3", New: New(newParallelInterleave("deterministic"))},
		{Op: "ParallelInterleaveDatasetV4", New: New(newParallelInterleave("deterministic"))},
		{Op: "ParallelInterleaveDataset", New: New(newLegacyInterleave(true))},
		{Op: "ExperimentalParallelInterleaveDataset", New: New(newLegacyInterleave(true))},
		{Op: "LegacyParallelInterleaveDatasetV2", New: New(newLegacyInterleave(false))},
		{Op: "ParseExampleDataset", New: New(newParseExamples)},
		{Op: "ParseExampleDatasetV2", New: New(newParseExamples)},
		{Op: "ExperimentalParseExampleDataset", New: New(newParseExamples)},
		{Op: "GroupByWindowDataset", New: New(newGroupByWindow)},
		{Op: "ExperimentalGroupByWindowDataset", New: New(newGroupByWindow)},
		{Op: "GroupByReducerDataset", New: New(newGroupByReducer)},
		{Op: "ExperimentalGroupByReducerDataset", New: New(newGroupByReducer)},
		{Op: "ScanDataset", New: New(newScan)},
		{Op: "ExperimentalScanDataset", New: New(newScan)},
		{Op: "PrefetchDataset", New: New(newPrefetch)},
		{Op: "ChooseFastestDataset", New: New(newFastest)},
		{Op: "ExperimentalChooseFastestDataset", New: New(newFastest)},
		{Op: "ChooseFastestBranchDataset", New: New(newFastestBranch)},
	}
}

// mappingOps returns the other ops.
func mappingOps() []kernels.Def {
	return []kernels.Def{
		{Op: "MapDefun", New: newMapDefun},
	}
}
