package data

import (
	"github.com/troupe-run/troupe/kernels"
)

// passthroughDatasets returns the ops that create datasets of this package.
func passthroughDatasets() []kernels.Def {
	return []kernels.Def{
		{Op: "AutoShardDataset", New: New(newAutoShard)},
		{Op: "ExperimentalAutoShardDataset", New: New(newAutoShard)},
		{Op: "OptionsDataset", New: New(newOptions)},
		{Op: "AssertCardinalityDataset", New: New(newAssertCardinality)},
		{Op: "IgnoreErrorsDataset", New: New(newIgnoreErrors)},
		{Op: "ExperimentalIgnoreErrorsDataset", New: New(newIgnoreErrors)},
		{Op: "SleepDataset", New: New(newSleep)},
		{Op: "ExperimentalSleepDataset", New: New(newSleep)},
		{Op: "NonSerializableDataset", New: New(newTransient)},
		{Op: "ExperimentalNonSerializableDataset", New: New(newTransient)},
		{Op: "FinalizeDataset", New: New(newPass)},
		{Op: "ModelDataset", New: New(newPass)},
		{Op: "RewriteDataset", New: New(newPass)},
		{Op: "LatencyStatsDataset", New: New(newMeasured(false))},
		{Op: "ExperimentalLatencyStatsDataset", New: New(newMeasured(false))},
		{Op: "BytesProducedStatsDataset", New: New(newMeasured(true))},
		{Op: "ExperimentalBytesProducedStatsDataset", New: New(newMeasured(true))},
		{Op: "SetStatsAggregatorDataset", New: New(newSetStats)},
		{Op: "ExperimentalSetStatsAggregatorDataset", New: New(newSetStats)},
		{Op: "ThreadPoolDataset", New: New(newThreadPoolDataset)},
		{Op: "ExperimentalThreadPoolDataset", New: New(newThreadPoolDataset)},
		{Op: "OptimizeDataset", New: New(newOptimize)},
		{Op: "OptimizeDatasetV2", New: New(newOptimize)},
		{Op: "AssertNextDataset", New: New(newAssertNext)},
		{Op: "ExperimentalAssertNextDataset", New: New(newAssertNext)},
		{Op: "AssertPrevDataset", New: New(newAssertPrev)},
		{Op: "MaxIntraOpParallelismDataset", New: New(newPass)},
		{Op: "ExperimentalMaxIntraOpParallelismDataset", New: New(newPass)},
		{Op: "PrivateThreadPoolDataset", New: New(newPass)},
		{Op: "ExperimentalPrivateThreadPoolDataset", New: New(newPass)},
	}
}

// passthroughOps returns the other ops.
func passthroughOps() []kernels.Def {
	return []kernels.Def{
		{Op: "GetOptions", New: WithPlace(getOptions)},
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
