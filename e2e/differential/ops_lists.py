"""What is not tried, and what differs on purpose. Each with its reason."""
import re

import numpy as np
import tensorflow.compat.v1 as tf

import ops_values as v
from ops_call import Kept, Ref, Var, parts_of
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
    "its numbers are never the same": "NonDeterministicInts",
    "prints, or tells the time": "Print PrintV2 Timestamp",
    "the debugger's, which the runtime puts into graphs": "Copy CopyHost DebugIdentity DebugNanCount DebugNumericSummary",
    "its result is an encoding that only its counterpart reads": "RaggedTensorToVariant RaggedTensorToVariantGradient CompositeTensorVariantFromComponents "
        "CompositeTensorVariantToComponents",
    "compressed bytes depend on the library's version": "EncodePng ImageSummary EncodeJpeg EncodeJpegVariableQuality",
    "its files are compressed by a library that is not here; the goldens have some": "DecodeWebP",
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
    ("MaxPoolGrad MaxPoolGradV2", lambda c: min(windows_of(c)) <= 0, "writes where a window without elements would be"),
    ("Conv2DBackpropFilter Conv3DBackpropFilter Conv3DBackpropInput Conv3DBackpropFilterV2 Conv3DBackpropInputV2", lambda c: any(x.size == 0 for x in c.arrays()), "divides by a size that is 0"),
    ("MatrixExponential MatrixLogarithm MatrixSquareRoot", lambda c: not finite(Outcome(c.arrays())), "does not end where there is no number"),
    ("MatrixLogarithm MatrixSquareRoot", lambda c: rank_is_less(c.inputs["input"]), "does not end for singular matrices"),
    ("HistogramSummary", lambda c: v.is_float(c.inputs["values"].dtype) and (c.inputs["values"].astype(np.float64) == np.finfo(np.float64).max).any(),
     "counts the greatest number beyond the last bucket"),
    ("FakeQuantWithMinMaxVarsPerChannel FakeQuantWithMinMaxVarsPerChannelGradient", lambda c: c.inputs["inputs"].ndim == 0, "takes the last of no dimensions"),
    ("MaxPoolGradWithArgmax", lambda c: ((c.inputs["argmax"] < 0) | (c.inputs["argmax"] >= c.inputs["input"].size)).any(), "writes beyond the result"),
    ("RaggedCross", lambda c: c.attrs["hashed_output"] and c.attrs["num_buckets"] == 0, "divides by no buckets"),
    ("CombinedNonMaxSuppression", lambda c: c.inputs["scores"].ndim != 3, "takes a size before it looks at the rank"),
    ("CropAndResizeGradImage CropAndResizeGradBoxes", lambda c: c.inputs["boxes"].ndim != 2 or c.inputs["box_ind"].ndim != 1, "looks at no rank without boxes"),
    ("CropAndResizeGradImage CropAndResizeGradBoxes", lambda c: not np.isfinite(c.inputs["boxes"]).all() or huge(c.inputs["boxes"]), "takes what is no number for a place in the image"),
    ("BatchNormWithGlobalNormalization BatchNormWithGlobalNormalizationGrad", lambda c: any(x.size == 0 for x in c.arrays()), "reads a number for each channel that is not there"),
    ("BlockLSTM BlockLSTMV2 BlockLSTMGrad BlockLSTMGradV2", lambda c: not steps_match(c), "does not compare all sizes"),
    ("LSTMBlockCell LSTMBlockCellGrad", lambda c: not cell_matches(c), "does not compare all sizes"),
    ("LRNGrad", lambda c: len({x.shape for x in c.arrays()}) > 1, "does not compare shapes"),
    ("FractionalAvgPoolGrad FractionalMaxPoolGrad", lambda c: not sequences_match(c), "writes where the sequences say"),
    ("NearestNeighbors", lambda c: int(c.inputs["k"].reshape(-1)[0]) < 0, "makes a list of so many"),
    ("RaggedCross", lambda c: lacks_features(c), "takes a feature that a row does not have"),
    ("RaggedGather", lambda c: c.inputs["indices"].ndim == 0 or c.attrs["OUTPUT_RAGGED_RANK"] != len(c.inputs["params_nested_splits"]) + c.inputs["indices"].ndim - 1, "counts the dimensions of the indices"),
    ("QuantizedAvgPool", lambda c: min(c.attrs["ksize"] + c.attrs["strides"]) <= 0, "divides by windows without elements"),
    ("QuantizedInstanceNorm", lambda c: c.inputs["x"].ndim != 4 or not c.inputs["x"].size, "looks at no rank, and divides by no elements"),
    ("QuantizedConv2D QuantizedConv2DPerChannel", lambda c: no_filter(c), "divides by the filter's size"),
    ("CTCLoss", lambda c: c.inputs["inputs"].size == 0, "takes the last of no classes"),
    ("MatrixDiagV2 MatrixDiagV3 MatrixDiagPartV2 MatrixDiagPartV3 MatrixSetDiagV2 MatrixSetDiagV3", lambda c: (np.abs(c.inputs["k"].astype(np.int64)) > 2**30).any(), "counts diagonals in 32 bits"),
    ("ParseSequenceExample ParseSequenceExampleV2 ParseSingleSequenceExample", lambda c: "feature_list_dense_shapes" in c.attrs and len(c.attrs["feature_list_dense_shapes"]) != len(
        c.attrs.get("feature_list_dense_types", [])), "takes the shapes of all dense features"),
    ("DecodeImage", lambda c: c.attrs.get("dtype", "uint8") != "uint8" and begins_at_the_top(c.inputs["contents"]), "takes the height of a BMP that begins at the top, which is negative, for a size"),
    ("Bincount DenseBincount RaggedBincount SparseBincount", lambda c: (c.inputs["size"] > 2**31).any(), "makes a result of that size"),
    ("RaggedTensorToTensor", lambda c: any((x < 0).any() for x in c.inputs["row_partition_tensors"]), "reads before the values"),
    ("SparseMatrixSparseCholesky", lambda c: parts_of(c.inputs["input"])[0].shape[-1] == 3, "fails for batches of matrices"),
    ("UnicodeDecodeWithOffsets", lambda c: c.attrs.get("Tsplits") == "int32", "writes splits of 64 bits into those of 32"),
    ("StatefulRandomBinomial StatelessRandomBinomial", lambda c: any(np.isnan(c.inputs[k].astype(np.float64)).any() for k in ("counts", "probs")), "searches for ever"),
    ("RandomPoisson RandomPoissonV2", lambda c: np.isnan(c.inputs["rate"].astype(np.float64)).any(), "searches for ever"),
    ("KmeansPlusPlusInitialization", lambda c: not np.isfinite(c.inputs["points"]).all(), "samples by distances that are no numbers"),
    ("SparseBincount", lambda c: c.inputs["dense_shape"].size == 0, "takes the first of no dimensions"),
    ("AdjustHue", lambda c: not np.isfinite(c.inputs["delta"]).all(), "turns the hue until it is in range"),
    ("ResourceGather", lambda c: c.attrs.get("batch_dims", 0) > 0 and parts_of(c.inputs["resource"])[0].ndim <= c.attrs["batch_dims"], "takes dimensions that the variable does not have"),
    ("RandomCrop", lambda c: (c.inputs["size"] < 0).any() or (c.inputs["size"] > 2**31).any(), "makes an image of that size"),
    ("RandomIndexShuffle", lambda c: c.attrs.get("rounds", 4) < 4 or c.attrs.get("rounds", 4) % 2, "repeats what does not end with fewer rounds"),
    ("RaggedTensorToTensor", lambda c: c.inputs["values"].shape[:1] == (0,), "reads the values that the partitions tell"),
    ("ApplyAdadelta ResourceApplyAdadelta ApplyAdamWithAmsgrad ResourceApplyAdamWithAmsgrad", lambda c: len({parts_of(x)[0].shape for x in c.inputs.values() if isinstance(x, (Var, Ref))}) > 1,
     "does not compare the shapes of all slots"),
    ("ResourceScatterAdd ResourceScatterSub ResourceScatterMul ResourceScatterDiv ResourceScatterMin ResourceScatterMax ResourceScatterUpdate",
     lambda c: c.inputs["indices"].size > 0 and (c.inputs["updates"].size == 0) != (parts_of(c.inputs["resource"])[0].size == 0), "does not compare the rows' sizes"),
    ("ResourceScatterNdUpdate ResourceScatterNdAdd ResourceScatterNdSub ResourceScatterNdMin ResourceScatterNdMax ScatterNdUpdate ScatterNdAdd ScatterNdSub ScatterNdMin ScatterNdMax",
     lambda c: c.inputs["indices"].ndim == 0, "takes the last of no dimensions"),
]


def steps_match(call):
    """Whether the inputs of an LSTM of many steps have the sizes of the first ones."""
    x, cs = call.inputs["x"], call.inputs["cs_prev"]
    if x.ndim != 3 or cs.ndim != 2:
        return False
    (steps, batch, inputs), cell = x.shape, cs.shape[1]
    return 0 <= int(call.inputs["seq_len_max"].reshape(-1)[0]) <= steps and all(i.shape == s for i, s in sized(call, inputs, batch, cell, (steps, batch, cell)))


def cell_matches(call):
    x, cs = call.inputs["x"], call.inputs["cs_prev"]
    if x.ndim != 2 or cs.ndim != 2:
        return False
    return all(i.shape == s for i, s in sized(call, x.shape[1], x.shape[0], cs.shape[1], (x.shape[0], cs.shape[1])))


def sized(call, inputs, batch, cell, others):
    """The inputs of an LSTM, each with the shape that it should have."""
    known = dict.fromkeys(("cs_prev", "h_prev"), (batch, cell))
    known.update(dict.fromkeys(("wci", "wcf", "wco"), (cell,)), w=(inputs + cell, 4 * cell), b=(4 * cell,))
    return [(i, known.get(name, others)) for name, i in call.inputs.items() if name not in ("x", "seq_len_max")]


def sequences_match(call):
    """Whether a gradient of fractional pooling fits its sequences, and these the image."""
    grad = call.inputs["out_backprop"].shape
    shape = call.inputs["orig_input_tensor_shape"] if "orig_input_tensor_shape" in call.inputs else np.asarray(call.inputs["orig_input"].shape)
    rows, cols = call.inputs["row_pooling_sequence"], call.inputs["col_pooling_sequence"]
    if len(grad) != 4 or shape.shape != (4,) or rows.ndim != 1 or cols.ndim != 1:
        return False
    if grad != (shape[0], len(rows) - 1, len(cols) - 1, shape[3]):
        return False
    return all(np.array_equal(s, np.sort(s)) and 0 <= s[0] and s[-1] <= n for s, n in ((rows, shape[1]), (cols, shape[2])))


def lacks_features(call):
    """Whether a row that is crossed has nothing of one of the inputs."""
    rows = [np.diff(x) for x in call.inputs["ragged_row_splits"]] + [np.asarray(x.shape[1:]) for x in call.inputs["dense_inputs"]]
    for x, shape in zip(call.inputs["sparse_indices"], call.inputs["sparse_shape"]):
        if x.ndim != 2 or not x.shape[1] or not shape.size:
            return True
        rows.append(np.isin(np.arange(min(int(shape.reshape(-1)[0]), 100)), x[:, 0]))
    return any(not x.all() for x in rows)


def outside(call):
    """Whether indices lie beyond a list of any length, or of that which is given."""
    i = call.inputs["indices"]
    n = sum(parts_of(call.inputs["input_handle"])[0].shape[:1]) if "input_handle" in call.inputs else 100
    return bool(((i < 0) | (i >= n)).any())


def divides_by_zero(x):
    return x.dtype.kind in "iu" and not x.all()


# Differences that stay, as (ops, condition, reason). The condition gets the call, TensorFlow's outcome and ours.
ACCEPTED = [
    ("StatefulRandomBinomial", lambda c, t, o: first_outputs(c, t, o, 1),
     "TensorFlow's generator does not go on if somebody else holds its variable's memory, and gives the same numbers again"),
    ("Cholesky BatchCholesky", lambda c, t, o: not finite(o),
     "a matrix that is not positive definite gives NaN here; zeros in TensorFlow if it is complex, with uninitialized elements if it is not"),
    ("SparseSlice", lambda c, t, o: overflows(c.inputs["start"], c.inputs["size"]), "TensorFlow's sum of start and size overflows, and it finds nothing or takes a negative size"),
    ("SparseReorder SparseConcat SparseSoftmax", lambda c, t, o: equal_indices(c), "the order of equal indices is not said"),
    ("SparseMatrixOrderingAMD", lambda c, t, o: equal_indices(c), "the order of matrices that name an element twice is not said"),
    ("SparseConcat", lambda c, t, o: "overflow" in t.message and o.error == "InvalidArgumentError", "a negative size is INTERNAL in TensorFlow, as if it were too large; it is INVALID_ARGUMENT here"),
    ("AdjustSaturation AdjustHue", lambda c, t, o: not finite(Outcome(c.arrays())), "which of NaN and a number is greater depends on TensorFlow's vectors; NaN is here"),
    ("RandomGamma StatelessRandomGammaV2 StatelessRandomGammaV3", lambda c, t, o: "No sample would be found" in o.message, "TensorFlow searches for ever for some negative alphas, and gives NaN for others"),
    ("UniformQuantize UniformDequantize UniformRequantize UniformQuantizedAdd UniformQuantizedClipByValue UniformQuantizedDot UniformQuantizedDotHybrid UniformQuantizedConvolution "
     "UniformQuantizedConvolutionHybrid", lambda c, t, o: any((np.abs(x.astype(np.float64)) > 2**30).any() for k, x in c.inputs.items() if k.endswith("zero_points")), "TensorFlow subtracts zero points in 32 bits"),
    ("AudioSpectrogram", lambda c, t, o: not finite(Outcome(c.arrays())), "how far infinite samples spread depends on the steps of the transform"),
    ("CTCLoss", lambda c, t, o: c.inputs["labels_values"].max(initial=0) >= c.inputs["inputs"].shape[-1] - 1, "TensorFlow counts the probability of the blank twice where it is a label"),
    ("QuantizedMatMul", lambda c, t, o: c.inputs["a"].size == 0, "TensorFlow leaves products of no elements uninitialized; they are zero here"),
    ("QuantizedConcat", lambda c, t, o: any(x.size == 0 for x in c.inputs["values"]), "TensorFlow leaves out empty parts, but not their ranges, and takes these for those of others"),
    ("QuantizedBatchNormWithGlobalNormalization", lambda c, t, o: min(c.inputs[k].min(initial=0) for k in ("v_min", "v_max")) < 0 or not 0 <= c.attrs["variance_epsilon"] < 1e9, "numbers that are none, such as roots of negative variances, become what the processor makes of them in TensorFlow"),
    ("DecodeRaw", lambda c, t, o: c.attrs["out_type"] == "bool" and o.error is None, "bytes other than 0 and 1 become bools in TensorFlow that cannot be sent"),
    ("ExtractGlimpse ExtractGlimpseV2", lambda c, t, o: c.attrs.get("noise", "uniform") not in ("uniform", "gaussian", "zero"), "TensorFlow goes on with what is in memory for an unknown noise"),
    ("QuantizeV2 QuantizedBiasAdd QuantizedAdd QuantizedMul QuantizedMatMul QuantizedConv2D QuantizedBatchNormWithGlobalNormalization QuantizedInstanceNorm QuantizedReshape QuantizedConcat "
     "Requantize RequantizePerChannel RequantizationRangePerChannel QuantizeAndDequantize QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 QuantizeAndDequantizeV4", lambda c, t, o: not finite(Outcome(c.arrays())), "numbers that are none have no place in a range, and become what the processor makes of them in TensorFlow"),
    ("Pad PadV2 MirrorPad", lambda c, t, o: "cannot be padded" in o.message and overflows(c.inputs["paddings"], c.inputs["paddings"]), "TensorFlow's sum of paddings overflows"),
    ("FractionalMaxPoolGrad", lambda c, t, o: not t.error and o.error == "InvalidArgumentError" and c.inputs["orig_output"].shape[1:3] != (len(c.inputs["row_pooling_sequence"]) - 1, len(c.inputs["col_pooling_sequence"]) - 1),
     "TensorFlow leaves out what a sequence has beyond the result"),
    ("QuantizedResizeBilinear", lambda c, t, o: "Missing" in t.message, "TensorFlow makes no range for images without elements"),
    ("Conv2DBackpropInput", lambda c, t, o: "grouped convolutions" in t.message, "TensorFlow's gradients of grouped convolutions are for GPUs only; they work here"),
    ("Conv3DBackpropInput Conv3DBackpropInputV2 Conv3DBackpropFilter Conv3DBackpropFilterV2",
     lambda c, t, o: "input and filter_sizes must have the same number of channels" in t.message and not o.error, "the same of volumes"),
    ("MatrixSolveLs BatchMatrixSolveLs", lambda c, t, o: c.inputs["matrix"].size == 0, "TensorFlow leaves the solution of no equations uninitialized; it is zero here"),
    ("RaggedGather", lambda c, t, o: not t.error and "must not point past values" in o.message, "TensorFlow does not compare the splits with the values that no index comes to"),
    ("RaggedTensorToSparse", lambda c, t, o: any(x.ndim > 1 for x in c.inputs["rt_nested_splits"]), "TensorFlow takes a matrix of splits for some of a row each"),
    ("ParameterizedTruncatedNormal", lambda c, t, o: t.error == "InternalError" and o.error == "InvalidArgumentError", "parameters of no distribution are INTERNAL in TensorFlow, after a search; they are INVALID_ARGUMENT here"),
    ("Multinomial StatelessMultinomial", lambda c, t, o: not t.error and not o.error and len(t.values[0]) > 1 and (t.values[0][0] == o.values[0][0]).all(),
     "TensorFlow's numbers depend on how it divides the rows among threads"),
    ("ParameterizedTruncatedNormal", lambda c, t, o: not t.error and not o.error and any(x.ndim for x in c.arrays()[1:]), "TensorFlow's numbers depend on how it divides the batches among threads"),
    ("ParseSequenceExample ParseSequenceExampleV2", lambda c, t, o: c.inputs["serialized"].ndim == 0, "TensorFlow leaves the lengths of features of a single example uninitialized"),
    ("RaggedTensorToTensor", lambda c, t, o: o.error == "ResourceExhaustedError" and (c.inputs["shape"] > 2**31).any(), "TensorFlow cuts the size to 32 bits"),
    ("StatefulRandomBinomial StatelessRandomBinomial", lambda c, t, o: not finite(Outcome([c.inputs["counts"], c.inputs["probs"]])), "numbers that are none become what the processor makes of them in TensorFlow"),
    ("RaggedTensorToTensor", lambda c, t, o: "row partitions tell of" in o.message, "TensorFlow reads the values that the partitions tell, also beyond those that there are"),
    ("RaggedCross", lambda c, t, o: not t.error and "Invalid SparseTensor" in o.message, "TensorFlow does not compare the numbers of indices and values"),
    ("KmeansPlusPlusInitialization", lambda c, t, o: "num_retries_per_sample" in o.message and not t.error, "TensorFlow's number of retries overflows"),
    ("TensorListScatterIntoExistingList", lambda c, t, o: "Specified a list with shape" in o.message and not t.error, "TensorFlow does not compare an element's shape with the list's"),
    ("Dilation2D FusedPadConv2D FusedResizeAndPadConv2D", lambda c, t, o: o.error == "InvalidArgumentError" and no_filter(c), "a filter without elements is refused; TensorFlow's sums of nothing are what is in memory, its greatest of nothing the least number"),
    ("FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3", lambda c, t, o: not finite(o), "infinite variances times zero are no number here; TensorFlow's products of bfloat16 leave one of them out"),
    ("Round", lambda c, t, o: c.inputs["x"].dtype.kind in "iu", "TensorFlow rounds integers to 0; they stay here"),
    ("BesselJ0 BesselJ1 BesselY0 BesselY1", lambda c, t, o: huge(c.inputs["x"]),
     "of huge arguments nothing of the phase is left, and TensorFlow's limit is NaN; the results are as small here, and 0 at infinity"),
    ("BesselY1", lambda c, t, o: (c.inputs["x"] == 0).any(), "the pole is NaN in TensorFlow's single precision; it is -inf here, as in double precision"),
    ("Expint Spence", lambda c, t, o: huge(c.inputs["x"]), "TensorFlow's terms overflow to NaN; the limits are taken here"),
    ("TruncateDiv TruncateMod", lambda c, t, o: t.error == "InternalError" and o.error == "InvalidArgumentError",
     "a division of integers by zero is INTERNAL in TensorFlow; it is INVALID_ARGUMENT here, as in the other divisions"),
    ("BlockLSTMGrad BlockLSTMGradV2 BlockLSTM BlockLSTMV2 LSTMBlockCell LSTMBlockCellGrad", lambda c, t, o: o.error == "InvalidArgumentError",
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
    ("ResourceApplyAdamWithAmsgrad ApplyAdaMax ResourceApplyAdaMax", lambda c, t, o: not finite(Outcome(c.arrays())), "which of NaN and a number is greater depends on TensorFlow's vectors; NaN is here"),
    ("MatrixSolve BatchMatrixSolve MatrixSolveLs BatchMatrixSolveLs Eig Lu SelfAdjointEig SelfAdjointEigV2 BatchSelfAdjointEig BatchSelfAdjointEigV2 MatrixInverse BatchMatrixInverse "
     "Cholesky BatchCholesky TridiagonalSolve BandedTriangularSolve", lambda c, t, o: not finite(Outcome(c.arrays())) and bool(t.error) != bool(o.error),
     "whether a matrix with infinite elements is found singular differs"),
    ("MatrixTriangularSolve BatchMatrixTriangularSolve BandedTriangularSolve MatrixSolve BatchMatrixSolve TridiagonalSolve", lambda c, t, o: not o.error and not t.error and not (finite(t) and finite(o)),
     "what is left of a singular system differs"),
    ("Dawsn", lambda c, t, o: huge(c.inputs["x"]), "the sign of a huge argument's result is lost in TensorFlow; it is kept here"),
    ("MatrixDeterminant BatchMatrixDeterminant LogMatrixDeterminant MatrixInverse BatchMatrixInverse Lu Qr Svd BatchSvd SelfAdjointEig SelfAdjointEigV2 "
     "BatchSelfAdjointEig BatchSelfAdjointEigV2 Eig MatrixSolveLs BatchMatrixSolveLs CholeskyGrad BatchCholeskyGrad",
     lambda c, t, o: not t.error and not o.error and not finite(Outcome(c.arrays())), "what a decomposition makes of infinite elements differs"),
    ("SegmentMax SegmentMin UnsortedSegmentMax UnsortedSegmentMin ScatterMax ScatterMin ResourceScatterMax ResourceScatterMin ScatterNdMax ScatterNdMin "
     "ResourceScatterNdMax ResourceScatterNdMin TensorScatterMax TensorScatterMin", lambda c, t, o: not_a_number(c),
     "which of NaN and a number is greater depends on TensorFlow's vectors; NaN is here"),
    ("AvgPool3D MaxPool3D Conv3D Conv", lambda c, t, o: (c.op != "Conv" or c.inputs["input"].ndim == 5) and c.attrs["padding"] == "SAME" and any(k < s for k, s in zip(
        c.attrs.get("ksize") or (1,) + c.inputs["filter"].shape[:3], c.attrs["strides"])),
     "TensorFlow centers windows smaller than their stride in volumes, though not in the gradients; they begin at the edge here, as in images"),
    ("Erf Erfc", lambda c, t, o: huge(c.inputs["x"]), "the greatest arguments overflow to NaN in TensorFlow; the limit is taken here"),
    ("Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2 ListDiff", lambda c, t, o: c.inputs["x"].dtype.itemsize == 2 and (c.inputs["x"] == 0).any(),
     "zeros of both signs are two values in TensorFlow if they are halves; they are one here, as of other types"),
    ("Cast", lambda c, t, o: not t.error and not o.error and beyond(c.inputs["x"], t.values[0].dtype), "C++ does not say what numbers beyond an integer's range become; in TensorFlow that depends on their place in the tensor"),
    ("Cast", lambda c, t, o: c.attrs.get("Truncate") and c.inputs["x"].dtype == np.float64 and o.values[0].dtype == np.complex64, "TensorFlow clears bits of the exponent, too; only the fraction is cut here"),
    ("FloorDiv FloorMod TruncateDiv", lambda c, t, o: c.inputs["x"].dtype.itemsize == 2 and c.inputs["x"].dtype.kind not in "iu",
     "quotients of halves are rounded to halves before they become whole in TensorFlow; they are rounded once here"),
    ("Tile Where", lambda c, t, o: t.error == "UnimplementedError", "TensorFlow has not all types in all ranks"),
    ("TensorListGather", lambda c, t, o: o.error == "InvalidArgumentError" and not t.error and t.values[0].size == 0, "TensorFlow looks at no index where elements are empty"),
    ("SoftmaxCrossEntropyWithLogits", lambda c, t, o: not finite(Outcome(c.arrays())), "labels of zero count for nothing here, even where the logit is infinite"),
    ("Svd BatchSvd", lambda c, t, o: undetermined(t), "vectors of equal singular values, and those of none, are not determined"),
    ("SelfAdjointEig SelfAdjointEigV2 BatchSelfAdjointEig BatchSelfAdjointEigV2", lambda c, t, o: not t.error and not o.error and equal_eigenvalues(c), "vectors of equal eigenvalues are not determined"),
    ("ScalarSummary HistogramSummary AudioSummary AudioSummaryV2 TensorSummaryV2", lambda c, t, o: not all(valid_utf8(b) for b in c.inputs["tags" if "tags" in c.inputs else "tag"].reshape(-1)), "a summary's tags are UTF-8 here, as its format demands"),
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
    ("RaggedBincount DenseBincount Bincount SparseBincount", lambda c, t, o: "same size" in o.message and not t.error, "TensorFlow does not compare the numbers of weights and values"),
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
    ("Conv3DBackpropFilter Conv3DBackpropFilterV2 Conv3DBackpropInput Conv3DBackpropInputV2 DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput", lambda c, t, o: not t.error and not o.error and not finite(Outcome(c.arrays())),
     "TensorFlow multiplies infinite elements with the zeros that it pads gradients with"),
    ("TopK TopKV2 ApproxTopK", lambda c, t, o: not_a_number(c), "which of NaN and a number is greater depends on TensorFlow's order of comparisons; NaN is here"),
    ("TopK TopKV2", lambda c, t, o: c.attrs.get("sorted") is False and not t.error and not o.error and pairs(t) == pairs(o),
     "the order of the greatest is not said where they need not be sorted"),
    ("ApplyAddSign ResourceApplyAddSign ApplyPowerSign ResourceApplyPowerSign", lambda c, t, o: c.inputs["sign_decay"].ndim > 0, "TensorFlow checks another input in place of sign_decay"),
    ("InvGrad ReciprocalGrad SqrtGrad RsqrtGrad SigmoidGrad TanhGrad", lambda c, t, o: c.inputs["y"].dtype.itemsize == 2 and not finite(t),
     "products of halves overflow before they are multiplied again in TensorFlow; they are rounded once here"),
    ("MaxPoolGradGrad MaxPoolGradGradV2 MaxPool3DGradGrad MaxPool3DGrad AvgPoolGrad", lambda c, t, o: o.error == "InvalidArgumentError" and min(windows_of(c)) <= 0,
     "TensorFlow takes windows without elements where it does not pool forward"),
    ("Dilation2D Dilation2DBackpropInput Dilation2DBackpropFilter", lambda c, t, o: min(c.attrs["rates"]) <= 0 and o.error == "InvalidArgumentError", "TensorFlow does not check the rates, and reads before the image"),
    ("DrawBoundingBoxes DrawBoundingBoxesV2", lambda c, t, o: "box" in t.message and c.inputs["images"].size == 0, "TensorFlow refuses some boxes on images without elements, on which there is nothing to draw"),
    ("ImageProjectiveTransformV2 ImageProjectiveTransformV3", lambda c, t, o: "Supported types" in o.message, "TensorFlow logs an unknown interpolation or mode, and goes on with what is in memory"),
    ("KmeansPlusPlusInitialization", lambda c, t, o: not finite(Outcome(c.arrays())), "which of the points that are infinitely far apart is taken is not determined"),
    ("Qr", lambda c, t, o: rank_is_less(c.inputs["input"]), "the vectors beyond a matrix's rank are not determined"),
    ("ParseExample ParseExampleV2", lambda c, t, o: repeated_keys(c), "TensorFlow's table of features breaks where a key comes twice"),
    ("SparseSplit", lambda c, t, o: c.inputs["shape"].max(initial=0) >= 2**31, "TensorFlow cuts the size to 32 bits"),
    ("DenseCountSparseOutput SparseCountSparseOutput RaggedCountSparseOutput", lambda c, t, o: c.inputs["values"].max(initial=0) == np.iinfo(np.int64).max, "TensorFlow's size, one more than the greatest value, overflows"),
    ("Roll", lambda c, t, o: any((np.abs(c.inputs[k].astype(np.float64)) >= 2**31).any() for k in ("shift", "axis")), "TensorFlow cuts shifts and axes to 32 bits"),
    ("StatelessRandomUniformV2 StatelessRandomNormalV2 StatelessTruncatedNormalV2 StatelessRandomUniformIntV2 StatelessRandomUniformFullIntV2 StatelessRandomGammaV3 StatelessShuffle",
     lambda c, t, o: c.inputs["counter"].shape == (1,), "TensorFlow reads beyond a counter of one number where it may choose the algorithm"),
    ("RegexReplace RegexFullMatch StaticRegexReplace StaticRegexFullMatch", lambda c, t, o: not all(valid_utf8(b) for b in c.inputs["input"].reshape(-1)),
     "bytes that are not UTF-8 match no class in TensorFlow; here each matches like U+FFFD"),
]


def beyond(x, integers):
    """Whether some numbers are not in the range of an integer type."""
    if not tf.as_dtype(integers).is_integer or x.dtype.fields or x.dtype.kind in "biu":
        return False
    with np.errstate(all="ignore"):
        x = np.real(x.astype(np.complex128))
    return not ((x > float(tf.as_dtype(integers).min) - 1) & (x < float(tf.as_dtype(integers).max) + 1)).all()


def equal_indices(call):
    """Whether two of a list of indices are equal."""
    lists = next(call.inputs[k] for k in ("input_indices", "sp_indices", "indices", "input") if k in call.inputs)
    if isinstance(lists, Kept):
        lists = parts_of(lists)[0]
    return any(len({row.tobytes() for row in x}) < len(x) for x in (lists if isinstance(lists, list) else [lists]) if x.ndim == 2)


def begins_at_the_top(files):
    """Whether one of the files is a BMP of a negative height."""
    return any(b[:2] == b"BM" and len(b) > 25 and b[25] >= 128 for b in files.reshape(-1))


def no_filter(call):
    return not call.inputs["filter"].size


def windows_of(call):
    return np.asarray(call.inputs["ksize"] if "ksize" in call.inputs else call.attrs["ksize"]).reshape(-1)


def rank_is_less(matrices):
    """Whether some of the matrices have columns that others make up."""
    if not matrices.size or not finite(Outcome([matrices])):
        return bool(matrices.size)
    wide = matrices.astype(np.complex128)
    return bool((np.linalg.matrix_rank(wide, tol=1e-2 * np.abs(wide).max()) < min(matrices.shape[-2:])).any())


def equal_eigenvalues(call):
    matrices = call.inputs["input"].astype(np.complex128)
    values = np.linalg.eigvalsh(matrices)
    return bool((np.diff(values, axis=-1) < 1e-3 * (np.abs(matrices).max(initial=0) + 1e-3)).any())


def repeated_keys(call):
    keys = [b for name in ("sparse_keys", "dense_keys", "ragged_keys") for x in np.atleast_1d(np.asarray(call.inputs.get(name, []), object)) for b in np.asarray(x, object).reshape(-1)]
    return len(set(keys)) < len(keys)


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


def utf8(strings):
    """Whether all of an array's strings are text."""
    try:
        return all(isinstance(b.decode(), str) for b in strings.reshape(-1))
    except UnicodeDecodeError:
        return False


def overflows(start, size):
    """Whether the end of a slice is beyond int64."""
    return any(int(a) + int(b) >= 2**63 or int(b) <= -2**62 for a, b in zip(start.reshape(-1), size.reshape(-1)))


def accepted(call, theirs, ours):
    """Why a difference is all right, or None."""
    if "No OpKernel was registered" in theirs.message or "Unsupported data type" in theirs.message:
        return "a type or attribute for which TensorFlow has no kernel on CPUs"
    if re.search(r"only supports ?(the )?ND?HWC", theirs.message):
        return "a layout for which TensorFlow's kernel for CPUs needs another build"
    if theirs.error == "UnimplementedError" and theirs.told() in ("", "Graph execution error:") and any(x.dtype == object and not utf8(x) for x in call.arrays()):
        return "TensorFlow's error quotes bytes that are no text, and its client cannot read it"
    if not theirs.error and not ours.error and denormal(call):
        return "TensorFlow's servers take the least numbers for zero, and results that would be as small"
    for ops, condition, reason in ACCEPTED:
        if call.op in ops.split() and condition(call, theirs, ours):
            return reason
    return None
