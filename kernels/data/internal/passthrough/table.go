package passthrough

import (
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
)

// Datasets returns the ops that create datasets of this package.
func Datasets() []kernels.Def {
	return []kernels.Def{
		{Op: "AutoShardDataset", New: dataset.New(newAutoShard)},
		{Op: "ExperimentalAutoShardDataset", New: dataset.New(newAutoShard)},
		{Op: "OptionsDataset", New: dataset.New(newOptions)},
		{Op: "AssertCardinalityDataset", New: dataset.New(newAssertCardinality)},
		{Op: "IgnoreErrorsDataset", New: dataset.New(newIgnoreErrors)},
		{Op: "ExperimentalIgnoreErrorsDataset", New: dataset.New(newIgnoreErrors)},
		{Op: "SleepDataset", New: dataset.New(newSleep)},
		{Op: "ExperimentalSleepDataset", New: dataset.New(newSleep)},
		{Op: "NonSerializableDataset", New: dataset.New(newTransient)},
		{Op: "ExperimentalNonSerializableDataset", New: dataset.New(newTransient)},
		{Op: "FinalizeDataset", New: dataset.New(newPass)},
		{Op: "ModelDataset", New: dataset.New(newPass)},
		{Op: "RewriteDataset", New: dataset.New(newPass)},
		{Op: "LatencyStatsDataset", New: dataset.New(newMeasured(false))},
		{Op: "ExperimentalLatencyStatsDataset", New: dataset.New(newMeasured(false))},
		{Op: "BytesProducedStatsDataset", New: dataset.New(newMeasured(true))},
		{Op: "ExperimentalBytesProducedStatsDataset", New: dataset.New(newMeasured(true))},
		{Op: "SetStatsAggregatorDataset", New: dataset.New(newSetStats)},
		{Op: "ExperimentalSetStatsAggregatorDataset", New: dataset.New(newSetStats)},
		{Op: "ThreadPoolDataset", New: dataset.New(newThreadPoolDataset)},
		{Op: "ExperimentalThreadPoolDataset", New: dataset.New(newThreadPoolDataset)},
		{Op: "OptimizeDataset", New: dataset.New(newOptimize)},
		{Op: "OptimizeDatasetV2", New: dataset.New(newOptimize)},
		{Op: "AssertNextDataset", New: dataset.New(newAssertNext)},
		{Op: "ExperimentalAssertNextDataset", New: dataset.New(newAssertNext)},
		{Op: "AssertPrevDataset", New: dataset.New(newAssertPrev)},
		{Op: "MaxIntraOpParallelismDataset", New: dataset.New(newPass)},
		{Op: "ExperimentalMaxIntraOpParallelismDataset", New: dataset.New(newPass)},
		{Op: "PrivateThreadPoolDataset", New: dataset.New(newPass)},
		{Op: "ExperimentalPrivateThreadPoolDataset", New: dataset.New(newPass)},
	}
}

// Ops returns the other ops.
func Ops() []kernels.Def {
	return []kernels.Def{
		{Op: "GetOptions", New: dataset.WithPlace(getOptions)},
		{Op: "StatsAggregatorHandle", New: newStatsAggregator(false)},
		{Op: "ExperimentalStatsAggregatorHandle", New: newStatsAggregator(false)},
		{Op: "StatsAggregatorHandleV2", New: newStatsAggregator(true)},
		{Op: "StatsAggregatorSummary", New: kernels.Always(statsSummary)},
		{Op: "ExperimentalStatsAggregatorSummary", New: kernels.Always(statsSummary)},
		{Op: "StatsAggregatorSetSummaryWriter", New: kernels.Always(setStatsWriter)},
		{Op: "ThreadPoolHandle", New: newThreadPool},
		{Op: "ExperimentalThreadPoolHandle", New: newThreadPool},
	}
}
