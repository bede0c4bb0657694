"""What is not tried, and what differs on purpose. Each with its reason."""
import numpy as np

import ops_values as v
from ops_call import Ref, Var, parts_of
from ops_compare import Outcome, difference
from ops_make import ROWS

# Ops without calls of their own, by what is said of them.
NOT_COVERED = {
    "control flow, whose result is which of several nodes run": "Abort Assert Case ControlTrigger Enter Exit For If LoopCond Merge NextIteration NoOp "
        "PartitionedCall RefEnter RefExit RefMerge RefNextIteration RefSelect RefSwitch RemoteCall StatefulPartitionedCall StatelessCase StatelessIf "
        "StatelessWhile SymbolicGradient While _If _While",
    "the runtime's own, which clients do not send": "_Arg _ArrayToList _DeviceArg _DeviceRetval _EagerConst _HostRecv _HostSend _ListToArray _Recv _Retval "
        "_Send FakeParam DeviceIndex",
    "no inputs and no result to compare": "Const Placeholder PlaceholderV2 VarHandleOp Variable VariableV2 TemporaryVariable DestroyTemporaryVariable "
        "DestroyResourceOp DisableCopyOnRead OptionalNone EmptyTensorMap StatelessRandomGetAlg",
    "queues, barriers, accumulators, stages and mutexes: their state outlives the call": "AccumulatorApplyGradient AccumulatorNumAccumulated "
        "AccumulatorSetGlobalStep AccumulatorTakeGradient Barrier BarrierClose BarrierIncompleteSize BarrierInsertMany BarrierReadySize BarrierTakeMany "
        "ConditionalAccumulator SparseAccumulatorApplyGradient SparseAccumulatorTakeGradient SparseConditionalAccumulator ResourceAccumulatorApplyGradient "
        "ResourceAccumulatorNumAccumulated ResourceAccumulatorSetGlobalStep ResourceAccumulatorTakeGradient ResourceConditionalAccumulator ConsumeMutexLock "
        "MutexLock MutexV2 FIFOQueue FIFOQueueV2 FakeQueue PaddingFIFOQueue PaddingFIFOQueueV2 PriorityQueue PriorityQueueV2 QueueClose QueueCloseV2 "
        "QueueDequeue QueueDequeueMany QueueDequeueManyV2 QueueDequeueUpTo QueueDequeueUpToV2 QueueDequeueV2 QueueEnqueue QueueEnqueueMany "
        "QueueEnqueueManyV2 QueueEnqueueV2 QueueIsClosed QueueIsClosedV2 QueueSize QueueSizeV2 RandomShuffleQueue RandomShuffleQueueV2 MapClear "
        "MapIncompleteSize MapPeek MapSize MapStage MapUnstage MapUnstageNoKey OrderedMapClear OrderedMapIncompleteSize OrderedMapPeek OrderedMapSize "
        "OrderedMapStage OrderedMapUnstage OrderedMapUnstageNoKey Stage StageClear StagePeek StageSize Unstage Stack StackClose StackCloseV2 StackPop "
        "StackPopV2 StackPush StackPushV2 StackV2 GetSessionHandle GetSessionHandleV2 GetSessionTensor DeleteSessionTensor AddManySparseToTensorsMap "
        "AddSparseToTensorsMap TakeManySparseFromTensorsMap",
    "datasets and iterators, whose elements e2e/datasets compares": "DenseToSparseBatchDataset ExperimentalDenseToSparseBatchDataset DatasetFromGraph DatasetToGraph DatasetToGraphV2 WindowOp CSVDataset CSVDatasetV2 "
        "ExperimentalCSVDataset RebatchDatasetV2 AnonymousIterator AnonymousIteratorV2 AnonymousIteratorV3 AnonymousMemoryCache AnonymousMultiDeviceIterator AnonymousMultiDeviceIteratorV3 "
        "AnonymousRandomSeedGenerator AnonymousSeedGenerator AssertCardinalityDataset BatchDataset BatchDatasetV2 BytesProducedStatsDataset CacheDataset "
        "CacheDatasetV2 ConcatenateDataset DatasetCardinality DatasetToSingleElement DatasetToTFRecord DeleteIterator DeleteMemoryCache "
        "DeleteMultiDeviceIterator DeleteRandomSeedGenerator DeleteSeedGenerator DeserializeIterator DirectedInterleaveDataset DummyMemoryCache "
        "DummySeedGenerator ExperimentalBytesProducedStatsDataset ExperimentalDatasetCardinality ExperimentalDatasetToTFRecord "
        "ExperimentalDirectedInterleaveDataset ExperimentalGroupByReducerDataset ExperimentalGroupByWindowDataset ExperimentalIgnoreErrorsDataset "
        "ExperimentalLatencyStatsDataset ExperimentalMapAndBatchDataset ExperimentalMapDataset ExperimentalMatchingFilesDataset "
        "ExperimentalMaxIntraOpParallelismDataset ExperimentalNonSerializableDataset ExperimentalParallelInterleaveDataset ExperimentalPrivateThreadPoolDataset "
        "ExperimentalRandomDataset ExperimentalScanDataset ExperimentalSleepDataset ExperimentalTakeWhileDataset ExperimentalUnbatchDataset "
        "ExperimentalUniqueDataset FilterByLastComponentDataset FilterDataset FinalizeDataset FixedLengthRecordDataset FixedLengthRecordDatasetV2 "
        "FlatMapDataset GeneratorDataset GetElementAtIndex GetOptions GlobalShuffleDataset GroupByReducerDataset GroupByWindowDataset IgnoreErrorsDataset "
        "InterleaveDataset Iterator IteratorFromStringHandle IteratorFromStringHandleV2 IteratorGetDevice IteratorGetNext IteratorGetNextAsOptional "
        "IteratorGetNextSync IteratorToStringHandle IteratorV2 LatencyStatsDataset LegacyParallelInterleaveDatasetV2 ListDataset MakeIterator "
        "MapAndBatchDataset MapDataset MatchingFilesDataset MaxIntraOpParallelismDataset ModelDataset MultiDeviceIterator MultiDeviceIteratorFromStringHandle "
        "MultiDeviceIteratorGetNextFromShard MultiDeviceIteratorInit MultiDeviceIteratorToStringHandle NonSerializableDataset OneShotIterator OptionsDataset "
        "PaddedBatchDataset PaddedBatchDatasetV2 ParallelBatchDataset ParallelFilterDataset ParallelInterleaveDataset ParallelInterleaveDatasetV2 "
        "ParallelInterleaveDatasetV3 ParallelInterleaveDatasetV4 ParallelMapDataset ParallelMapDatasetV2 PrefetchDataset PrivateThreadPoolDataset RandomDataset "
        "RandomDatasetV2 RangeDataset ReduceDataset RepeatDataset RewriteDataset ScanDataset SerializeIterator ShardDataset ShuffleAndRepeatDataset "
        "ShuffleAndRepeatDatasetV2 ShuffleDataset ShuffleDatasetV2 ShuffleDatasetV3 SkipDataset SleepDataset SparseTensorSliceDataset TFRecordDataset "
        "TFRecordDatasetV2 TakeDataset TakeWhileDataset TensorDataset TensorSliceDataset TextLineDataset UnbatchDataset UniqueDataset WindowDataset ZipDataset "
        "ExperimentalParseExampleDataset ExperimentalSlidingWindowDataset InitializeTableFromDataset ParseExampleDataset ParseExampleDatasetV2 "
        "SamplingDataset SlidingWindowDataset UnwrapDatasetVariant WrapDatasetVariant AssertNextDataset AssertPrevDataset AutoShardDataset "
        "ChooseFastestBranchDataset ChooseFastestDataset ComputeBatchSize DatasetFingerprint ExperimentalAssertNextDataset ExperimentalAutoShardDataset "
        "ExperimentalChooseFastestDataset ExperimentalRebatchDataset ExperimentalSetStatsAggregatorDataset ExperimentalThreadPoolDataset IndexFlatMapDataset "
        "OptimizeDataset OptimizeDatasetV2 RebatchDataset SaveDataset SaveDatasetV2 SetStatsAggregatorDataset SnapshotDataset SnapshotDatasetV2 "
        "SnapshotNestedDatasetReader ThreadPoolDataset CompressElement UncompressElement WeightedFlatMapDataset "
        "ExperimentalIteratorGetDevice IteratorGetModelProto ExperimentalStatsAggregatorSummary StatsAggregatorSummary",
    "batches of several steps": "Batch BatchFunction Unbatch UnbatchGrad",
    "reads or writes files": "CloseSummaryWriter CreateSummaryDbWriter CreateSummaryFileWriter FixedLengthRecordReader FixedLengthRecordReaderV2 "
        "FlushSummaryWriter GenerateVocabRemapping IdentityReader IdentityReaderV2 ImportEvent InitializeTableFromTextFile InitializeTableFromTextFileV2 "
        "LMDBReader LoadAndRemapMatrix MatchingFiles MergeV2Checkpoints ReadFile ReaderNumRecordsProduced ReaderNumRecordsProducedV2 "
        "ReaderNumWorkUnitsCompleted ReaderNumWorkUnitsCompletedV2 ReaderRead ReaderReadUpTo ReaderReadUpToV2 ReaderReadV2 ReaderReset ReaderResetV2 "
        "ReaderRestoreState ReaderRestoreStateV2 ReaderSerializeState ReaderSerializeStateV2 RecordInput Restore RestoreSlice RestoreV2 Save SaveSlices "
        "SaveV2 StatsAggregatorSetSummaryWriter SummaryWriter TFRecordReader TFRecordReaderV2 TextLineReader TextLineReaderV2 WholeFileReader WholeFileReaderV2 WriteAudioSummary WriteFile "
        "WriteGraphSummary WriteHistogramSummary WriteImageSummary WriteRawProtoSummary WriteScalarSummary WriteSummary",
    "makes a table, which the lookups' calls do": "AnonymousHashTable AnonymousMutableDenseHashTable AnonymousMutableHashTable "
        "AnonymousMutableHashTableOfTensors HashTable HashTableV2 MutableDenseHashTable MutableDenseHashTableV2 MutableHashTable MutableHashTableOfTensors "
        "MutableHashTableOfTensorsV2 MutableHashTableV2 InitializeTable InitializeTableV2",
    "the order of a hash table's content is not said": "LookupTableExport LookupTableExportV2",
    "the old form of an op whose new one is covered and shares its kernel": "LookupTableFind LookupTableImport LookupTableInsert LookupTableSize "
        "TensorArray TensorArrayClose TensorArrayCloseV2 TensorArrayConcat TensorArrayConcatV2 TensorArrayGather TensorArrayGatherV2 TensorArrayGrad "
        "TensorArrayGradV2 TensorArrayPack TensorArrayRead TensorArrayReadV2 TensorArrayScatter TensorArrayScatterV2 TensorArraySize TensorArraySizeV2 "
        "TensorArraySplit TensorArraySplitV2 TensorArrayUnpack TensorArrayV2 TensorArrayWrite TensorArrayWriteV2",
    "makes, ends or differentiates a TensorArray; graphs with several ops do that": "TensorArrayV3 TensorArrayCloseV3 TensorArrayGradV3 TensorArrayGradWithShape",
    "takes the examples in random order, single ones are compared by the goldens": "SdcaOptimizer SdcaOptimizerV2",
    "its random numbers depend on TensorFlow's vector registers": "StochasticCastToInt",
    "prints, or tells the time": "Print PrintV2 Timestamp",
    "the debugger's, which the runtime puts into graphs": "Copy CopyHost DebugIdentity DebugNanCount DebugNumericSummary",
    "its result is an encoding that only its counterpart reads": "RaggedTensorToVariant RaggedTensorToVariantGradient CompositeTensorVariantFromComponents "
        "CompositeTensorVariantToComponents",
    "compressed bytes depend on the library's version, files are decoded by the goldens": "EncodePng DecodePng DecodeImage ImageSummary "
        "DecodeJpeg DecodeAndCropJpeg DecodeGif DecodeBmp DecodeWebP EncodeJpeg EncodeJpegVariableQuality ExtractJpegShape",
}

FTRL = "SparseApplyFtrl ResourceSparseApplyFtrl SparseApplyFtrlV2 ResourceSparseApplyFtrlV2 ApplyFtrl ResourceApplyFtrl ApplyFtrlV2 ResourceApplyFtrlV2"
ROWS_OF_OPTIMIZERS = " ".join("%sSparseApply%s" % (p, n) for p in ("", "Resource") for n in (
    "Momentum KerasMomentum Adadelta RMSProp CenteredRMSProp Adagrad AdagradV2 AdagradDA ProximalAdagrad ProximalGradientDescent").split())

# Calls that end TensorFlow's server, as (ops, condition, reason).
CRASHES = [
    ("ScatterDiv ResourceScatterDiv", lambda c: divides_by_zero(c.inputs["updates"]), "SIGFPE of a division of integers by zero"),
    ("TensorListSetItem", lambda c: int(c.inputs["index"]) < 0 and c.attrs.get("resize_if_index_out_of_bounds"), "writes before the list's start"),
    (FTRL + " " + ROWS_OF_OPTIMIZERS, lambda c: len({parts_of(x)[0].ndim for k, x in c.inputs.items() if k == "grad" or isinstance(x, (Var, Ref))}) > 1, "does not compare ranks"),
    ("IRFFT IRFFT2D IRFFT3D RFFT RFFT2D RFFT3D", lambda c: (c.inputs["fft_length"] <= 0).any(), "divides by a length of 0"),
    ("TensorListScatterIntoExistingList TensorListScatter TensorListScatterV2", lambda c: outside(c), "writes beyond the list"),
    ("Conv2DBackpropFilter Conv3DBackpropFilterV2 Conv3DBackpropInputV2", lambda c: any(x.size == 0 for x in c.arrays()), "divides by a size that is 0"),
    ("MatrixExponential MatrixLogarithm MatrixSquareRoot", lambda c: not finite(Outcome(c.arrays())), "does not end where there is no number"),
    ("HistogramSummary", lambda c: v.is_float(c.inputs["values"].dtype) and (c.inputs["values"].astype(np.float64) == np.finfo(np.float64).max).any(),
     "counts the greatest number beyond the last bucket"),
    ("FakeQuantWithMinMaxVarsPerChannel FakeQuantWithMinMaxVarsPerChannelGradient", lambda c: c.inputs["inputs"].ndim == 0, "takes the last of no dimensions"),
    ("MaxPoolGradWithArgmax", lambda c: ((c.inputs["argmax"] < 0) | (c.inputs["argmax"] >= c.inputs["input"].size)).any(), "writes beyond the result"),
    ("RaggedCross", lambda c: c.attrs["hashed_output"] and c.attrs["num_buckets"] == 0, "divides by no buckets"),
    ("CombinedNonMaxSuppression", lambda c: c.inputs["scores"].ndim != 3, "takes a size before it looks at the rank"),
    ("CropAndResizeGradImage CropAndResizeGradBoxes", lambda c: c.inputs["boxes"].ndim != 2 or c.inputs["box_ind"].ndim != 1, "looks at no rank without boxes"),
]


def outside(call):
    """Whether indices lie beyond a list of any length, or of that which is given."""
    i = call.inputs["indices"]
    n = parts_of(call.inputs["input_handle"])[0].shape[0] if "input_handle" in call.inputs else 100
    return bool(((i < 0) | (i >= n)).any())


def divides_by_zero(x):
    return x.dtype.kind in "iu" and not x.all()


# Differences that stay, as (ops, condition, reason). The condition gets the call, TensorFlow's outcome and ours.
ACCEPTED = [
    ("StatefulRandomBinomial", lambda c, t, o: first_outputs(c, t, o, 1),
     "TensorFlow's generator does not go on if somebody else holds its variable's memory, and gives the same numbers again"),
    ("Cholesky BatchCholesky", lambda c, t, o: not finite(o),
     "a matrix that is not positive definite gives NaN here; zeros in TensorFlow if it is complex, with uninitialized elements if it is not"),
    ("Round", lambda c, t, o: c.inputs["x"].dtype.kind in "iu", "TensorFlow rounds integers to 0; they stay here"),
    ("BesselJ0 BesselJ1 BesselY0 BesselY1", lambda c, t, o: huge(c.inputs["x"]),
     "of huge arguments nothing of the phase is left, and TensorFlow's limit is NaN; the results are as small here, and 0 at infinity"),
    ("BesselY1", lambda c, t, o: (c.inputs["x"] == 0).any(), "the pole is NaN in TensorFlow's single precision; it is -inf here, as in double precision"),
    ("Expint Spence", lambda c, t, o: huge(c.inputs["x"]), "TensorFlow's terms overflow to NaN; the limits are taken here"),
    ("TruncateDiv TruncateMod", lambda c, t, o: t.error == "InternalError" and o.error == "InvalidArgumentError",
     "a division of integers by zero is INTERNAL in TensorFlow; it is INVALID_ARGUMENT here, as in the other divisions"),
    ("BlockLSTMGrad BlockLSTMGradV2 BlockLSTM BlockLSTMV2", lambda c, t, o: o.error == "InvalidArgumentError",
     "TensorFlow looks at some sizes only when it computes a step; all are checked here"),
    ("FusedBatchNormV3", lambda c, t, o: first_outputs(c, t, o, 5), "the last reserved output is empty here, as with oneDNN"),
    (FTRL, lambda c, t, o: not t.error and not o.error, "a weight that has learned nothing is 0 by 0 in TensorFlow; it is 0 here"),
    (ROWS_OF_OPTIMIZERS, lambda c, t, o: o.error == "InvalidArgumentError", "TensorFlow does not compare the ranks of variable and gradient"),
    ("MaxPool3D MaxPool3DGrad MaxPool3DGradGrad MaxPool MaxPoolV2 MaxPoolGrad MaxPoolGradV2 MaxPoolGradGrad MaxPoolGradGradV2 NthElement",
     lambda c, t, o: not_a_number(c), "which of NaN and a number is greater depends on TensorFlow's vectors; NaN is here"),
    ("TensorListConcat", lambda c, t, o: "uninitialized" in t.message, "TensorFlow takes a list for an empty one where the element's shape is not given"),
    ("BesselK1 BesselK1e BesselK0 BesselK0e", lambda c, t, o: small(c.inputs["x"]), "TensorFlow's terms overflow to NaN for the least arguments; the limit is taken here"),
    ("DepthwiseConv2dNativeBackpropFilter", lambda c, t, o: c.inputs["out_backprop"].size == 0,
     "TensorFlow leaves the result uninitialized without gradients; it is zero here"),
    ("ScatterNd TensorScatterAdd TensorScatterSub TensorScatterMax TensorScatterMin TensorScatterUpdate ScatterNdNonAliasingAdd",
     lambda c, t, o: c.inputs["indices"].ndim == 1, "a vector of indices is one index, as documented; TensorFlow's checks take it for one and for many"),
    ("SelfAdjointEigV2 BatchSelfAdjointEigV2 Eig Svd BatchSvd", lambda c, t, o: not c.attrs.get("compute_v", c.attrs.get("compute_uv", True)) and first_outputs(c, t, o, 1),
     "TensorFlow leaves the vectors uninitialized that were not asked for; they are zero here"),
    ("Pow Xlogy Xlog1py", lambda c, t, o: any(x.dtype.kind == "c" and (x == 0).any() for x in c.arrays()), "powers of a complex zero are NaN in TensorFlow; they are those of a real one here"),
    ("AvgPoolGrad AvgPool3DGrad", lambda c, t, o: o.error == "InvalidArgumentError", "TensorFlow does not check the gradient's shape"),
    ("ResourceScatterAdd ResourceScatterSub ResourceScatterMul ResourceScatterDiv ResourceScatterMin ResourceScatterMax ResourceScatterUpdate",
     lambda c, t, o: o.error == "InvalidArgumentError", "TensorFlow does not check that updates have the shape of what they update"),
    ("ResourceApplyAdamWithAmsgrad ApplyAdaMax ResourceApplyAdaMax", lambda c, t, o: not_a_number(c), "which of NaN and a number is greater depends on TensorFlow's vectors; NaN is here"),
    ("MatrixTriangularSolve BatchMatrixTriangularSolve BandedTriangularSolve MatrixSolve BatchMatrixSolve TridiagonalSolve", lambda c, t, o: not o.error and not t.error and not (finite(t) and finite(o)),
     "what is left of a singular system differs"),
    ("Dawsn", lambda c, t, o: huge(c.inputs["x"]), "the sign of a huge argument's result is lost in TensorFlow; it is kept here"),
    ("MatrixDeterminant BatchMatrixDeterminant LogMatrixDeterminant MatrixInverse BatchMatrixInverse Lu Qr Svd BatchSvd SelfAdjointEig SelfAdjointEigV2 "
     "BatchSelfAdjointEig BatchSelfAdjointEigV2 Eig MatrixSolveLs BatchMatrixSolveLs",
     lambda c, t, o: not t.error and not o.error and not finite(Outcome(c.arrays())), "what a decomposition makes of infinite elements differs"),
    ("SegmentMax SegmentMin UnsortedSegmentMax UnsortedSegmentMin", lambda c, t, o: not_a_number(c),
     "which of NaN and a number is greater depends on TensorFlow's vectors; NaN is here"),
    ("AvgPool3D MaxPool3D Conv3D Conv", lambda c, t, o: (c.op != "Conv" or c.inputs["input"].ndim == 5) and c.attrs["padding"] == "SAME" and any(k < s for k, s in zip(
        c.attrs.get("ksize") or (1,) + c.inputs["filter"].shape[:3], c.attrs["strides"])),
     "TensorFlow centers windows smaller than their stride in volumes, though not in the gradients; they begin at the edge here, as in images"),
    ("Erf Erfc", lambda c, t, o: huge(c.inputs["x"]), "the greatest arguments overflow to NaN in TensorFlow; the limit is taken here"),
    ("Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2", lambda c, t, o: c.inputs["x"].dtype.itemsize == 2 and (c.inputs["x"] == 0).any(),
     "zeros of both signs are two values in TensorFlow if they are halves; they are one here, as of other types"),
    ("FloorDiv FloorMod TruncateDiv", lambda c, t, o: c.inputs["x"].dtype.itemsize == 2 and c.inputs["x"].dtype.kind not in "iu",
     "quotients of halves are rounded to halves before they become whole in TensorFlow; they are rounded once here"),
    ("Tile Where", lambda c, t, o: t.error == "UnimplementedError", "TensorFlow has not all types in all ranks"),
    ("TensorListGather", lambda c, t, o: o.error == "InvalidArgumentError" and not t.error and t.values[0].size == 0, "TensorFlow looks at no index where elements are empty"),
    ("SoftmaxCrossEntropyWithLogits", lambda c, t, o: not finite(Outcome(c.arrays())), "labels of zero count for nothing here, even where the logit is infinite"),
    ("Svd BatchSvd", lambda c, t, o: undetermined(t), "vectors of equal singular values, and those of none, are not determined"),
    ("ScalarSummary", lambda c, t, o: not all(valid_utf8(b) for b in c.inputs["tags"].reshape(-1)), "a summary's tags are UTF-8 here, as its format demands"),
    ("DataFormatDimMap", lambda c, t, o: o.error == "InvalidArgumentError", "TensorFlow reads beyond its table for dimensions out of range"),
    ("MaxPool3DGradGrad MaxPool3DGrad", lambda c, t, o: "empty tensor" in t.message, "TensorFlow refuses volumes without elements"),
    ("Reverse", lambda c, t, o: t.error and c.inputs["tensor"].size == 0, "TensorFlow refuses a tensor without elements"),
    ("SplitV", lambda c, t, o: "only one output" in t.message, "TensorFlow does not infer the size of an only output"),
    ("TensorArraySplitV3 TensorArrayScatterV3 TensorArrayWriteV3", lambda c, t, o: "inconsistent shapes" in o.message,
     "TensorFlow gathers elements of different shapes if the first is empty"),
    ("Zeta Polygamma", lambda c, t, o: not t.error and not o.error and not finite(t), "TensorFlow's sum is NaN where a term overflows; it is infinite here"),
    ("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3", lambda c, t, o: c.inputs["x"].size == 0,
     "TensorFlow leaves the reserved outputs uninitialized without elements; they are zero here"),
    ("StringFormat", lambda c, t, o: any((x.size == 0 or c.attrs.get("summarize") == 0) and x.dtype == bool for x in c.arrays()),
     "TensorFlow prints nothing where none of the bools of a tensor is to be printed; brackets here, as for other types"),
    ("SparseBincount DenseBincount RaggedBincount Bincount", lambda c, t, o: bool(t.error) != bool(o.error) and c.inputs["size"] == 0, "where there are no bins, not all is checked in the same order"),
    ("Conv3D Conv Conv2DBackpropFilter Conv2DBackpropInput Conv3DBackpropFilterV2 Conv3DBackpropInputV2 DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput",
     lambda c, t, o: "dilation" in t.message or "dilated rates" in t.message,
     "TensorFlow's dilated convolutions of volumes and some gradients of dilated convolutions are for GPUs only; they work here"),
    ("RFFT RFFT2D RFFT3D IRFFT IRFFT2D IRFFT3D", lambda c, t, o: c.inputs["input"].size == 0, "TensorFlow pads signals without elements with what is in memory; with zeros here"),
    ("RandomGammaGrad", lambda c, t, o: not t.error and not o.error, "the derivative at samples that are all but impossible underflows in TensorFlow; it is kept here"),
    ("BlockLSTM BlockLSTMV2", lambda c, t, o: c.inputs["seq_len_max"] < c.inputs["x"].shape[0],
     "TensorFlow leaves the steps after seq_len_max uninitialized; they are zero here"),
    ("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3", lambda c, t, o: not c.attrs["is_training"] and first_outputs(c, t, o, 3),
     "TensorFlow leaves the reserved outputs uninitialized without training; they are zero here"),
    ("SparseSegmentSumGrad SparseSegmentMeanGrad SparseSegmentSqrtNGrad", lambda c, t, o: c.inputs["indices"].size == 0,
     "TensorFlow leaves the result uninitialized without indices; it is zero here"),
    ("TensorMapStackKeys", lambda c, t, o: sorted(map(repr, t.values[0])) == sorted(map(repr, o.values[0])),
     "the order of a map's keys is that of TensorFlow's hash table; here it is that of insertion"),
    ("TopK", lambda c, t, o: "index_type" in t.message, "TensorFlow 2.21 finds no kernel for the first version of TopK; it works here"),
    ("BatchNormWithGlobalNormalization BatchNormWithGlobalNormalizationGrad", lambda c, t, o: o.error == "InvalidArgumentError" and not t.error,
     "TensorFlow does not check that there is a number for each channel"),
    ("ExtractVolumePatches", lambda c, t, o: c.attrs["padding"] == "SAME" and any(k < s for k, s in zip(c.attrs["ksizes"], c.attrs["strides"])),
     "TensorFlow centers windows smaller than their stride in volumes; they begin at the edge here, as in images"),
    ("Conv3DBackpropFilter Conv3DBackpropFilterV2 Conv3DBackpropInput Conv3DBackpropInputV2", lambda c, t, o: not t.error and not o.error and not finite(Outcome(c.arrays())),
     "TensorFlow multiplies infinite elements with the zeros that it pads gradients with"),
    ("TopK TopKV2", lambda c, t, o: c.attrs.get("sorted") is False and not t.error and not o.error and pairs(t) == pairs(o),
     "the order of the greatest is not said where they need not be sorted"),
    ("RegexReplace RegexFullMatch StaticRegexReplace StaticRegexFullMatch", lambda c, t, o: not all(valid_utf8(b) for b in c.inputs["input"].reshape(-1)),
     "bytes that are not UTF-8 match no class in TensorFlow; here each matches like U+FFFD"),
]


def pairs(outcome):
    """The rows of two outputs, each as a set of pairs."""
    values, indices = (np.asarray(x) for x in outcome.values)
    width = values.shape[-1]
    return [sorted(zip(map(int, i), map(repr, x))) for x, i in zip(values.reshape(-1, width), indices.reshape(-1, width))] if width else []


def first_outputs(call, theirs, ours, n):
    """Whether the first outputs are the same."""
    return not difference(call, Outcome(theirs.values[:n]), Outcome(ours.values[:n]))


def huge(x):
    with np.errstate(invalid="ignore"):
        return bool((np.abs(x.astype(np.float64)) > (1e2 if x.dtype.itemsize == 2 else 1e4)).any())


def denormal(call):
    """Whether inputs are so small that a quotient or a difference is denormal."""
    for x in call.arrays():
        if v.is_float(x.dtype) and x.dtype.itemsize > 2 or x.dtype == v.BFLOAT16:
            size = np.abs(x.astype(np.float64))
            if ((size > 0) & (size < v.limits(x.dtype)[1] * 1e6)).any():
                return True
    return False


def small(x):
    return bool((np.abs(x.astype(np.float64)) < (1e-300 if x.dtype == np.float64 else 1e-35)).any())


def undetermined(outcome):
    s = np.asarray(outcome.values[0])
    u, w = (np.asarray(x).shape for x in outcome.values[1:3])
    return bool((np.abs(np.diff(s, axis=-1, append=0)) < 1e-2 * (np.abs(s[..., :1]) + 1e-3)).any()) or u[-1] != w[-1] or s.shape[-1] < max(u[-2], w[-2])


def finite(outcome):
    return all(np.isfinite(np.asarray(x).astype(np.complex128)).all() for x in outcome.values or [])


def not_a_number(call):
    return any(v.is_float(x.dtype) and np.isnan(x.astype(np.float64)).any() for x in call.arrays())


def valid_utf8(b):
    try:
        b.decode()
    except UnicodeDecodeError:
        return False
    return True


def stale(known):
    """Names in NOT_COVERED that are not known, or that are made all the same."""
    return [op for ops in NOT_COVERED.values() for op in ops.split() if op not in known or op in ROWS]


def reason_not_covered(op):
    for reason, ops in NOT_COVERED.items():
        if op in ops.split():
            return reason
    return None


def crashes(call):
    return any(call.op in ops.split() and condition(call) for ops, condition, _ in CRASHES)


def accepted(call, theirs, ours):
    """Why a difference is all right, or None."""
    if "No OpKernel was registered" in theirs.message or "Unsupported data type" in theirs.message:
        return "a type or attribute for which TensorFlow has no kernel on CPUs"
    if not theirs.error and not ours.error and denormal(call):
        return "TensorFlow's servers take the least numbers for zero, and results that would be as small"
    for ops, condition, reason in ACCEPTED:
        if call.op in ops.split() and condition(call, theirs, ours):
            return reason
    return None
