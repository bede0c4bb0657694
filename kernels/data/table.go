package data

import (
	"github.com/troupe-run/troupe/kernels"
)

// Table is the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addSources(table)
	addTransformations(table)
	addUnchanged(table)
	addIterators(table)
	return table
}

// addSources adds the datasets that are made of no other.
func addSources(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "RangeDataset", New: dataset(newRange)},
		{Op: "TensorDataset", New: dataset(newTensors)},
		{Op: "TensorSliceDataset", New: dataset(newSlices)},
		{Op: "SparseTensorSliceDataset", New: datasetOf(newSparseSlices)},
		{Op: "ListDataset", New: dataset(newList)},
		{Op: "WindowOp", New: dataset(newList)},
		{Op: "GeneratorDataset", New: dataset(newGenerator)},
		{Op: "RandomDataset", New: dataset(newRandom)},
		{Op: "ExperimentalRandomDataset", New: dataset(newRandom)},
		{Op: "RandomDatasetV2", New: dataset(newRandomV2)},
		{Op: "TextLineDataset", New: datasetOf(newTextLines)},
		{Op: "TFRecordDataset", New: datasetOf(newTFRecords)},
		{Op: "TFRecordDatasetV2", New: datasetOf(newTFRecords)},
		{Op: "CSVDataset", New: dataset(newCSV)},
		{Op: "CSVDatasetV2", New: dataset(newCSV)},
		{Op: "ExperimentalCSVDataset", New: dataset(newCSV)},
		{Op: "FixedLengthRecordDataset", New: datasetOf(newFixedLength)},
		{Op: "FixedLengthRecordDatasetV2", New: datasetOf(newFixedLength)},
		{Op: "MatchingFilesDataset", New: datasetOf(newMatching)},
		{Op: "ExperimentalMatchingFilesDataset", New: datasetOf(newMatching)},
	}...)
}

// addTransformations adds the datasets that are made of others.
func addTransformations(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "TakeDataset", New: dataset(newTake)},
		{Op: "SkipDataset", New: dataset(newSkip)},
		{Op: "ShardDataset", New: dataset(newShard)},
		{Op: "RepeatDataset", New: dataset(newRepeat)},
		{Op: "ZipDataset", New: dataset(newZip)},
		{Op: "ConcatenateDataset", New: dataset(newConcatenate)},
		{Op: "MapDataset", New: dataset(newMap)},
		{Op: "ExperimentalMapDataset", New: dataset(newMap)},
		{Op: "ParallelMapDataset", New: dataset(newParallelMapV1)},
		{Op: "ParallelMapDatasetV2", New: dataset(newParallelMap)},
		{Op: "MapAndBatchDataset", New: dataset(newMapAndBatch)},
		{Op: "ExperimentalMapAndBatchDataset", New: dataset(newMapAndBatch)},
		{Op: "FilterDataset", New: dataset(newFilter)},
		{Op: "ParallelFilterDataset", New: dataset(newParallelFilter)},
		{Op: "FilterByLastComponentDataset", New: dataset(newFilterLast)},
		{Op: "TakeWhileDataset", New: dataset(newTakeWhile)},
		{Op: "ExperimentalTakeWhileDataset", New: dataset(newTakeWhile)},
		{Op: "FlatMapDataset", New: dataset(newFlatMap)},
		{Op: "InterleaveDataset", New: dataset(newInterleave)},
		{Op: "ParallelInterleaveDatasetV2", New: dataset(newParallelInterleave(""))},
		{Op: "ParallelInterleaveDatasetV3", New: dataset(newParallelInterleave("deterministic"))},
		{Op: "ParallelInterleaveDatasetV4", New: dataset(newParallelInterleave("deterministic"))},
		{Op: "ParallelInterleaveDataset", New: dataset(newLegacyInterleave(true))},
		{Op: "ExperimentalParallelInterleaveDataset", New: dataset(newLegacyInterleave(true))},
		{Op: "LegacyParallelInterleaveDatasetV2", New: dataset(newLegacyInterleave(false))},
		{Op: "BatchDataset", New: dataset(newBatchKeeping)},
		{Op: "BatchDatasetV2", New: dataset(newBatch)},
		{Op: "RebatchDatasetV2", New: dataset(newRebatch)},
		{Op: "DenseToSparseBatchDataset", New: dataset(newSparseBatch)},
		{Op: "ExperimentalDenseToSparseBatchDataset", New: dataset(newSparseBatch)},
		{Op: "ParallelBatchDataset", New: dataset(newParallelBatch)},
		{Op: "PaddedBatchDataset", New: dataset(newPaddedBatch(false))},
		{Op: "PaddedBatchDatasetV2", New: dataset(newPaddedBatch(true))},
		{Op: "UnbatchDataset", New: dataset(newUnbatch)},
		{Op: "ExperimentalUnbatchDataset", New: dataset(newUnbatch)},
		{Op: "ShuffleDataset", New: dataset(newShuffle)},
		{Op: "ShuffleDatasetV3", New: dataset(newShuffle)},
		{Op: "ShuffleDatasetV2", New: dataset(newShuffleV2)},
		{Op: "ShuffleAndRepeatDataset", New: dataset(newShuffleAndRepeat)},
		{Op: "ShuffleAndRepeatDatasetV2", New: dataset(newShuffleAndRepeat)},
		{Op: "GlobalShuffleDataset", New: dataset(newShuffleAll)},
		{Op: "WindowDataset", New: dataset(newWindow)},
		{Op: "SlidingWindowDataset", New: dataset(newSlidingWindow)},
		{Op: "ExperimentalSlidingWindowDataset", New: dataset(newSlidingWindow)},
		{Op: "SamplingDataset", New: dataset(newSampling)},
		{Op: "ParseExampleDataset", New: dataset(newParseExamples)},
		{Op: "ParseExampleDatasetV2", New: dataset(newParseExamples)},
		{Op: "ExperimentalParseExampleDataset", New: dataset(newParseExamples)},
		{Op: "GroupByWindowDataset", New: dataset(newGroupByWindow)},
		{Op: "ExperimentalGroupByWindowDataset", New: dataset(newGroupByWindow)},
		{Op: "GroupByReducerDataset", New: dataset(newGroupByReducer)},
		{Op: "ExperimentalGroupByReducerDataset", New: dataset(newGroupByReducer)},
		{Op: "ScanDataset", New: dataset(newScan)},
		{Op: "ExperimentalScanDataset", New: dataset(newScan)},
		{Op: "UniqueDataset", New: dataset(newUnique)},
		{Op: "ExperimentalUniqueDataset", New: dataset(newUnique)},
		{Op: "DirectedInterleaveDataset", New: dataset(newDirected)},
		{Op: "ExperimentalDirectedInterleaveDataset", New: dataset(newDirected)},
		{Op: "CacheDataset", New: dataset(newCache)},
		{Op: "CacheDatasetV2", New: dataset(newCacheV2)},
		{Op: "PrefetchDataset", New: dataset(newPrefetch)},
	}...)
}

// addUnchanged adds the datasets whose elements are those of their inputs.
func addUnchanged(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "OptionsDataset", New: dataset(newOptions)},
		{Op: "AssertCardinalityDataset", New: dataset(newAssertCardinality)},
		{Op: "IgnoreErrorsDataset", New: dataset(newIgnoreErrors)},
		{Op: "ExperimentalIgnoreErrorsDataset", New: dataset(newIgnoreErrors)},
		{Op: "SleepDataset", New: dataset(newSleep)},
		{Op: "ExperimentalSleepDataset", New: dataset(newSleep)},
		{Op: "NonSerializableDataset", New: dataset(newTransient)},
		{Op: "ExperimentalNonSerializableDataset", New: dataset(newTransient)},
		{Op: "FinalizeDataset", New: dataset(newPass)},
		{Op: "ModelDataset", New: dataset(newPass)},
		{Op: "RewriteDataset", New: dataset(newPass)},
		{Op: "LatencyStatsDataset", New: dataset(newPass)},
		{Op: "ExperimentalLatencyStatsDataset", New: dataset(newPass)},
		{Op: "BytesProducedStatsDataset", New: dataset(newPass)},
		{Op: "ExperimentalBytesProducedStatsDataset", New: dataset(newPass)},
		{Op: "MaxIntraOpParallelismDataset", New: dataset(newPass)},
		{Op: "ExperimentalMaxIntraOpParallelismDataset", New: dataset(newPass)},
		{Op: "PrivateThreadPoolDataset", New: dataset(newPass)},
		{Op: "ExperimentalPrivateThreadPoolDataset", New: dataset(newPass)},
	}...)
}

// addIterators adds the ops on iterators, those that use a dataset within their step, and what datasets share.
func addIterators(table *kernels.Table) {
	wait := func(run func(*kernels.Context) error) func(*kernels.Construction) (any, error) {
		return func(*kernels.Construction) (any, error) { return waiting(run), nil }
	}
	table.Add([]kernels.Def{
		{Op: "Iterator", New: newIterator},
		{Op: "IteratorV2", New: newIterator},
		{Op: "AnonymousIterator", New: newAnonymousIterator},
		{Op: "AnonymousIteratorV2", New: newAnonymousIterator},
		{Op: "AnonymousIteratorV3", New: newAnonymousIterator},
		{Op: "OneShotIterator", New: newOneShotIterator},
		{Op: "MakeIterator", New: waitingWithPlace(makeIterator)},
		{Op: "DeleteIterator", New: kernels.Always(deleteResource(kindIterator))},
		{Op: "IteratorGetNext", New: newGetNext},
		{Op: "IteratorGetNextSync", New: newGetNext},
		{Op: "IteratorGetNextAsOptional", New: newGetNextAsOptional},
		{Op: "IteratorToStringHandle", New: kernels.Always(toString(iteratorToken))},
		{Op: "IteratorFromStringHandle", New: fromString(kindIterator)},
		{Op: "IteratorFromStringHandleV2", New: fromString(kindIterator)},
		{Op: "IteratorGetDevice", New: kernels.Always(iteratorDevice)},
		{Op: "SerializeIterator", New: newSerialize},
		{Op: "DeserializeIterator", New: wait(deserialize)},

		{Op: "MultiDeviceIterator", New: newDealer},
		{Op: "AnonymousMultiDeviceIterator", New: newDealer},
		{Op: "AnonymousMultiDeviceIteratorV3", New: newDealer},
		{Op: "DeleteMultiDeviceIterator", New: kernels.Always(deleteResource(kindMultiDevice))},
		{Op: "MultiDeviceIteratorInit", New: waitingWithPlace(multiDeviceInit)},
		{Op: "MultiDeviceIteratorGetNextFromShard", New: newMultiDeviceNext},
		{Op: "MultiDeviceIteratorToStringHandle", New: kernels.Always(toString(dealerToken))},
		{Op: "MultiDeviceIteratorFromStringHandle", New: fromString(kindMultiDevice)},

		{Op: "ReduceDataset", New: newReduce},
		{Op: "DatasetToSingleElement", New: newSingleElement},
		{Op: "GetElementAtIndex", New: newElementAt},
		{Op: "DatasetCardinality", New: withPlace(cardinality)},
		{Op: "ExperimentalDatasetCardinality", New: withPlace(cardinality)},
		{Op: "DatasetToTFRecord", New: waitingWithPlace(toTFRecord)},
		{Op: "ExperimentalDatasetToTFRecord", New: waitingWithPlace(toTFRecord)},
		{Op: "InitializeTableFromDataset", New: waitingWithPlace(initializeTable)},
		{Op: "WrapDatasetVariant", New: kernels.Always(sameDataset)},
		{Op: "UnwrapDatasetVariant", New: kernels.Always(sameDataset)},
		{Op: "DatasetToGraph", New: newToGraph},
		{Op: "DatasetToGraphV2", New: newToGraph},
		{Op: "DatasetFromGraph", New: withPlace(fromGraph)},
		{Op: "GetOptions", New: withPlace(getOptions)},

		{Op: "AnonymousSeedGenerator", New: newSeedGenerator},
		{Op: "AnonymousRandomSeedGenerator", New: newSeedGenerator},
		{Op: "DeleteSeedGenerator", New: kernels.Always(deleteResource(kindSeeds))},
		{Op: "DeleteRandomSeedGenerator", New: kernels.Always(deleteResource(kindSeeds))},
		{Op: "DummySeedGenerator", New: kernels.Always(dummyResource)},
		{Op: "AnonymousMemoryCache", New: newMemoryCache},
		{Op: "DeleteMemoryCache", New: kernels.Always(deleteResource(kindMemory))},
		{Op: "DummyMemoryCache", New: kernels.Always(dummyResource)},
	}...)
}
