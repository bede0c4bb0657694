package shape

import "strings"

// Datasets and iterators are scalars. Attributes hold what is known about their elements.
var dataOps = []row{
	{strings.Join([]string{
		"AnonymousIterator AnonymousIteratorV2 AnonymousIteratorV3 AnonymousMemoryCache AnonymousMultiDeviceIterator AnonymousMultiDeviceIteratorV3",
		"AnonymousRandomSeedGenerator AnonymousSeedGenerator DummyMemoryCache DummySeedGenerator Iterator IteratorV2 OneShotIterator MultiDeviceIterator",
		"DatasetCardinality ExperimentalDatasetCardinality GetOptions IteratorFromStringHandle IteratorFromStringHandleV2 IteratorGetDevice",
		"IteratorGetNextAsOptional IteratorToStringHandle MultiDeviceIteratorFromStringHandle MultiDeviceIteratorInit MultiDeviceIteratorToStringHandle",
		"ConcatenateDataset DirectedInterleaveDataset ExperimentalDirectedInterleaveDataset ExperimentalGroupByReducerDataset",
		"ExperimentalGroupByWindowDataset ExperimentalIgnoreErrorsDataset ExperimentalMapDataset ExperimentalMaxIntraOpParallelismDataset",
		"ExperimentalNonSerializableDataset ExperimentalParallelInterleaveDataset ExperimentalPrivateThreadPoolDataset ExperimentalScanDataset",
		"ExperimentalTakeWhileDataset ExperimentalUnbatchDataset ExperimentalUniqueDataset FilterByLastComponentDataset FilterDataset FinalizeDataset",
		"FlatMapDataset GeneratorDataset GroupByReducerDataset GroupByWindowDataset IgnoreErrorsDataset InterleaveDataset",
		"LegacyParallelInterleaveDatasetV2 ListDataset MapDataset MaxIntraOpParallelismDataset ModelDataset NonSerializableDataset OptionsDataset",
		"ParallelFilterDataset ParallelInterleaveDataset ParallelInterleaveDatasetV2 ParallelInterleaveDatasetV3 ParallelInterleaveDatasetV4",
		"ParallelMapDataset ParallelMapDatasetV2 PrivateThreadPoolDataset RewriteDataset ScanDataset SparseTensorSliceDataset TakeWhileDataset",
		"TensorDataset TensorSliceDataset UnbatchDataset UniqueDataset ZipDataset",
		"DatasetFromGraph DatasetToGraph DatasetToGraphV2 DatasetFingerprint UnwrapDatasetVariant WindowOp WrapDatasetVariant",
		"RebatchDataset ExperimentalRebatchDataset RebatchDatasetV2 AutoShardDataset ExperimentalAutoShardDataset",
		"ChooseFastestBranchDataset ChooseFastestDataset CompressElement ComputeBatchSize DummyIterationCounter ExperimentalChooseFastestDataset",
		"ExperimentalIteratorGetDevice ExperimentalSetStatsAggregatorDataset ExperimentalStatsAggregatorHandle ExperimentalStatsAggregatorSummary",
		"ExperimentalThreadPoolDataset ExperimentalThreadPoolHandle IndexFlatMapDataset IteratorGetModelProto OptimizeDataset OptimizeDatasetV2",
		"SetStatsAggregatorDataset SnapshotNestedDatasetReader StatsAggregatorHandle StatsAggregatorHandleV2 StatsAggregatorSummary",
		"ThreadPoolDataset ThreadPoolHandle WeightedFlatMapDataset",
	}, " "), allScalars()},
	{"AssertCardinalityDataset BatchDataset CacheDataset PaddedBatchDataset PrefetchDataset RepeatDataset SkipDataset TakeDataset", allScalars(1)},
	{"BytesProducedStatsDataset ExperimentalBytesProducedStatsDataset LatencyStatsDataset ExperimentalLatencyStatsDataset", allScalars(1)},
	{"BatchDatasetV2 CacheDatasetV2 ShardDataset ShuffleDatasetV2", allScalars(1, 2)},
	{"GlobalShuffleDataset ParallelBatchDataset SamplingDataset ShuffleDataset SlidingWindowDataset ExperimentalSlidingWindowDataset", allScalars(1, 2, 3)},
	{"ShuffleAndRepeatDataset ShuffleDatasetV3 WindowDataset", allScalars(1, 2, 3, 4)},
	{"ShuffleAndRepeatDatasetV2", allScalars(1, 2, 3, 4, 5)},
	{"LoadDataset SnapshotChunkDataset ListSnapshotChunksDataset", allScalars(0)},
	{"SnapshotDatasetReader", allScalars(0, 1)},
	{"SaveDatasetV2 SnapshotDataset SnapshotDatasetV2", allScalars(1)},
	{"SaveDataset", func(c *call) { c.scalar(1) }},
	{"AssertNextDataset ExperimentalAssertNextDataset AssertPrevDataset", func(c *call) {
		c.vector(1)
		allScalars()(c)
	}},
	{"MapDefun", mapDefun},
	{"RandomDataset ExperimentalRandomDataset SleepDataset ExperimentalSleepDataset", allScalars(0, 1)},
	{"RandomDatasetV2 RangeDataset", allScalars(0, 1, 2)},
	{"PaddedBatchDatasetV2", func(c *call) { allScalars(1, len(c.In)-1)(c) }},
	{"MapAndBatchDataset ExperimentalMapAndBatchDataset", func(c *call) { allScalars(len(c.In)-3, len(c.In)-2, len(c.In)-1)(c) }},
	{"ParseExampleDataset ParseExampleDatasetV2 ExperimentalParseExampleDataset", allScalars(1)},
	{"DenseToSparseBatchDataset ExperimentalDenseToSparseBatchDataset", func(c *call) {
		c.vector(2)
		allScalars(1)(c)
	}},
	{"TextLineDataset TFRecordDataset", ofFiles(1, 2)},
	{"TFRecordDatasetV2", func(c *call) {
		ofFiles(1, 2)(c)
		c.atMost(c.in(3), 1)
	}},
	{"FixedLengthRecordDataset FixedLengthRecordDatasetV2", ofFiles(1, 2, 3, 4)},
	{"CSVDataset CSVDatasetV2 ExperimentalCSVDataset", csvDataset},
	{"MatchingFilesDataset ExperimentalMatchingFilesDataset", ofFiles()},
	{"DatasetToTFRecord ExperimentalDatasetToTFRecord DeleteIterator DeleteMemoryCache DeleteMultiDeviceIterator DeleteRandomSeedGenerator DeleteSeedGenerator DeserializeIterator InitializeTableFromDataset MakeIterator StatsAggregatorSetSummaryWriter", noOutputs},
	{"DatasetToSingleElement GetElementAtIndex IteratorGetNext IteratorGetNextSync MultiDeviceIteratorGetNextFromShard ReduceDataset UncompressElement", elementOut},
	{"SerializeIterator", func(c *call) { c.set(0, Of(-1)) }},
}

// allScalars is the rule of ops whose outputs are all scalars, and so are the given inputs.
func allScalars(inputs ...int) rule {
	return func(c *call) {
		for _, i := range inputs {
			c.scalar(i)
		}
		c.setAll(Scalar())
	}
}

// ofFiles is allScalars for ops whose first input is a file name or a list of file names.
func ofFiles(inputs ...int) rule {
	return func(c *call) {
		c.atMost(c.in(0), 1)
		allScalars(inputs...)(c)
	}
}

// csvDataset is for ops whose inputs from the ninth on are column defaults; an additional last one may select columns.
func csvDataset(c *call) {
	ofFiles(1, 2, 3, 4, 5, 6)(c)
	c.vector(7)
	types := c.TypeList("output_types")
	for i := 8; i < len(c.In); i++ {
		if i >= 8+len(types) {
			c.vector(i)
			continue
		}
		if s := c.atMost(c.in(i), 1); s.known && len(s.dims) == 1 && s.dims[0] > 1 {
			c.fail("Shape of a default must be a length-0 or length-1 vector, or a scalar.")
		}
	}
}

// elementOut is the rule of ops whose outputs form one element.
func elementOut(c *call) {
	if shapes := c.attrShapes("output_shapes"); len(shapes) != len(c.Out) {
		c.fail("`output_shapes` must be the same length as `output_types` (%d vs. %d)", len(shapes), len(c.Out))
		return
	}
	listed("output_shapes")(c)
}

// mapDefun is the rule of an op that calls a function for each row of its arguments.
func mapDefun(c *call) {
	outputs := c.attrShapes("output_shapes")
	if len(outputs) != len(c.Out) {
		c.fail("`output_shapes` must be the same length as `output_types` (%d vs. %d)", len(outputs), len(c.Out))
		return
	}
	rows := int64(-1)
	for i := range c.TypeList("Targuments") {
		s := c.in(i)
		switch {
		case !s.known:
		case len(s.dims) == 0:
			c.fail("Arguments must have rank at least 1. Input %d has rank of 0.", i)
		case rows == -1:
			rows = s.dims[0]
		case s.dims[0] >= 0 && s.dims[0] != rows:
			c.fail("Arguments must have the same dimension 0.")
		}
	}
	for i, s := range outputs {
		if !s.known {
			c.set(i, Unknown())
			continue
		}
		c.set(i, Of(append([]int64{rows}, s.dims...)...))
	}
}
