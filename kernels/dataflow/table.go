package dataflow

import (
	"github.com/troupe-run/troupe/containers/barrier"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/queues"
)

// Table returns the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addAccumulator(table)
	addBarrier(table)
	addLoop(table)
	addMutex(table)
	addQueue(table)
	addStaging(table)
	addLoopGPU(table)
	return table
}

// Ops on conditional accumulators. Dense ones have a resource handle or a reference to a container and a name, sparse ones only such a
// reference. Applying adds whole gradients, so it is expensive.
func addAccumulator(table *kernels.Table) {
	types := map[string][]tensor.DType{"dtype": {tensor.Float16, tensor.Float32, tensor.Float64}}
	table.Add([]kernels.Def{
		{Op: "ConditionalAccumulator", Types: types, New: newDenseAccumulator},
		{Op: "AccumulatorApplyGradient", Expensive: true, New: kernels.Always(applyGradient)},
		{Op: "AccumulatorTakeGradient", New: newTakeGradient},
		{Op: "AccumulatorSetGlobalStep", New: kernels.Always(setGlobalStep)},
		{Op: "AccumulatorNumAccumulated", New: kernels.Always(numAccumulated)},
		{Op: "ResourceConditionalAccumulator", Types: types, New: newDenseAccumulator},
		{Op: "ResourceAccumulatorApplyGradient", Expensive: true, New: kernels.Always(applyGradient)},
		{Op: "ResourceAccumulatorTakeGradient", New: newTakeGradient},
		{Op: "ResourceAccumulatorSetGlobalStep", New: kernels.Always(setGlobalStep)},
		{Op: "ResourceAccumulatorNumAccumulated", New: kernels.Always(numAccumulated)},
	}...)
	table.Add([]kernels.Def{
		{Op: "SparseConditionalAccumulator", Types: types, New: newSparseAccumulator},
		{Op: "SparseAccumulatorApplyGradient", Expensive: true, New: newApplySparseGradient},
		{Op: "SparseAccumulatorTakeGradient", New: newTakeGradient},
	}...)
}

// Ops on barriers.
func addBarrier(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "Barrier", New: newBarrier},
		{Op: "BarrierInsertMany", New: newBarrierInsert},
		{Op: "BarrierTakeMany", New: newBarrierTake},
		{Op: "BarrierClose", New: newBarrierClose},
		{Op: "BarrierReadySize", New: kernels.Always(barrierSize((*barrier.Barrier).ReadySize))},
		{Op: "BarrierIncompleteSize", New: kernels.Always(barrierSize((*barrier.Barrier).IncompleteSize))},
	}...)
}

// The stacks and arrays of TensorFlow 1's loops, which are in the container of their step.
func addLoop(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "Stack", New: newStack(true)},
		{Op: "StackV2", New: newStack(false)},
		{Op: "StackPush", New: kernels.Always(stackPush)},
		{Op: "StackPushV2", New: kernels.Always(stackPush)},
		{Op: "StackPop", New: newStackPop},
		{Op: "StackPopV2", New: newStackPop},
		{Op: "StackClose", New: kernels.Always(stackClose)},
		{Op: "StackCloseV2", New: kernels.Always(stackClose)},
	}...)

	// The handle is a reference to strings in the first version, strings in the second, and a resource in the third.
	table.Add([]kernels.Def{
		{Op: "TensorArray", New: newTensorArray(refHandle)},
		{Op: "TensorArrayGrad", New: newTensorArrayGrad(refHandle)},
		{Op: "TensorArrayWrite", New: kernels.Always(tensorArrayWrite)},
		{Op: "TensorArrayRead", New: arrayReader(tensorArrayRead)},
		{Op: "TensorArrayGather", New: arrayReader(tensorArrayGather)},
		{Op: "TensorArrayConcat", New: arrayReader(tensorArrayConcat)},
		{Op: "TensorArrayScatter", New: kernels.Always(tensorArrayScatter)},
		{Op: "TensorArraySplit", New: kernels.Always(tensorArraySplit)},
		{Op: "TensorArraySize", New: kernels.Always(tensorArraySize)},
		{Op: "TensorArrayClose", New: kernels.Always(tensorArrayClose)},
		{Op: "TensorArrayV2", New: newTensorArray(stringHandle)},
		{Op: "TensorArrayGradV2", New: newTensorArrayGrad(stringHandle)},
		{Op: "TensorArrayWriteV2", New: kernels.Always(tensorArrayWrite)},
		{Op: "TensorArrayReadV2", New: arrayReader(tensorArrayRead)},
		{Op: "TensorArrayGatherV2", New: arrayReader(tensorArrayGather)},
		{Op: "TensorArrayConcatV2", New: arrayReader(tensorArrayConcat)},
		{Op: "TensorArrayScatterV2", New: kernels.Always(tensorArrayScatter)},
		{Op: "TensorArraySplitV2", New: kernels.Always(tensorArraySplit)},
		{Op: "TensorArraySizeV2", New: kernels.Always(tensorArraySize)},
		{Op: "TensorArrayCloseV2", New: kernels.Always(tensorArrayClose)},
		{Op: "TensorArrayV3", New: newTensorArray(resourceHandle)},
		{Op: "TensorArrayGradV3", New: newTensorArrayGrad(resourceHandle)},
		{Op: "TensorArrayWriteV3", New: kernels.Always(tensorArrayWrite)},
		{Op: "TensorArrayReadV3", New: arrayReader(tensorArrayRead)},
		{Op: "TensorArrayGatherV3", New: arrayReader(tensorArrayGather)},
		{Op: "TensorArrayConcatV3", New: arrayReader(tensorArrayConcat)},
		{Op: "TensorArrayScatterV3", New: kernels.Always(tensorArrayScatter)},
		{Op: "TensorArraySplitV3", New: kernels.Always(tensorArraySplit)},
		{Op: "TensorArraySizeV3", New: kernels.Always(tensorArraySize)},
		{Op: "TensorArrayCloseV3", New: kernels.Always(tensorArrayClose)},
	}...)
	table.Add([]kernels.Def{
		{Op: "TensorArrayGradWithShape", New: newTensorArrayGrad(resourceHandle)},
		{Op: "TensorArrayPack", New: arrayReader(tensorArrayPack)},
		{Op: "TensorArrayUnpack", New: kernels.Always(tensorArrayUnpack)},
	}...)
}

// Ops of critical sections.
func addMutex(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "MutexV2", New: newMutex},
		{Op: "MutexLock", New: func(*kernels.Construction) (any, error) { return kernels.AsyncFunc(lockMutex), nil }},
		{Op: "ConsumeMutexLock", New: kernels.Always(consumeLock)},
	}...)
}

// Ops on queues. Each op takes a resource handle (V2) or a reference to a container and a name; one kernel serves both.
func addQueue(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "FIFOQueue", New: newQueue(queues.FIFO)},
		{Op: "FIFOQueueV2", New: newQueue(queues.FIFO)},
		{Op: "PaddingFIFOQueue", New: newQueue(queues.PaddingFIFO)},
		{Op: "PaddingFIFOQueueV2", New: newQueue(queues.PaddingFIFO)},
		{Op: "RandomShuffleQueue", New: newQueue(queues.RandomShuffle)},
		{Op: "RandomShuffleQueueV2", New: newQueue(queues.RandomShuffle)},
		{Op: "PriorityQueue", New: newQueue(queues.Priority)},
		{Op: "PriorityQueueV2", New: newQueue(queues.Priority)},
		{Op: "FakeQueue", New: newFakeQueue},
		{Op: "QueueEnqueue", New: newEnqueue},
		{Op: "QueueEnqueueV2", New: newEnqueue},
		{Op: "QueueEnqueueMany", New: newEnqueueMany},
		{Op: "QueueEnqueueManyV2", New: newEnqueueMany},
		{Op: "QueueDequeue", New: newDequeue},
		{Op: "QueueDequeueV2", New: newDequeue},
		{Op: "QueueDequeueMany", New: newDequeueMany},
		{Op: "QueueDequeueManyV2", New: newDequeueMany},
		{Op: "QueueDequeueUpTo", New: newDequeueUpTo},
		{Op: "QueueDequeueUpToV2", New: newDequeueUpTo},
		{Op: "QueueClose", New: newQueueClose},
		{Op: "QueueCloseV2", New: newQueueClose},
		{Op: "QueueSize", New: newQueueSize},
		{Op: "QueueSizeV2", New: newQueueSize},
		{Op: "QueueIsClosed", New: newQueueIsClosed},
		{Op: "QueueIsClosedV2", New: newQueueIsClosed},
	}...)

	// Ops that TensorFlow lacks: graph/ownops.go.
	table.Add([]kernels.Def{
		{Op: "TroupeQueueLease", New: newLease},
		{Op: "TroupeQueueAcknowledge", New: settleLeases((*queues.Queue).Acknowledge)},
		{Op: "TroupeQueueReturn", New: settleLeases((*queues.Queue).Return)},
		{Op: "TroupeQueueRenew", New: settleLeases((*queues.Queue).Renew)},
		{Op: "TroupeQueueEnqueueManyOnce", New: newEnqueueManyOnce},
	}...)
}

// Ops on staging areas. Whichever of them names an area first creates it.
func addStaging(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "Stage", New: bufferOp(stage)},
		{Op: "Unstage", New: bufferOp(unstage)},
		{Op: "StagePeek", New: bufferOp(stagePeek)},
		{Op: "StageSize", New: bufferOp(atOnce(stageSize))},
		{Op: "StageClear", New: bufferOp(stageClear)},
	}...)
	table.Add([]kernels.Def{
		{Op: "MapStage", New: mapOp(false, mapStage)},
		{Op: "MapUnstage", New: mapOp(false, mapUnstage)},
		{Op: "MapUnstageNoKey", New: mapOp(false, mapUnstageNoKey)},
		{Op: "MapPeek", New: mapOp(false, mapPeek)},
		{Op: "MapSize", New: mapOp(false, atOnce(mapSize))},
		{Op: "MapIncompleteSize", New: mapOp(false, atOnce(mapIncompleteSize))},
		{Op: "MapClear", New: mapOp(false, mapClear)},
		{Op: "OrderedMapStage", New: mapOp(true, mapStage)},
		{Op: "OrderedMapUnstage", New: mapOp(true, mapUnstage)},
		{Op: "OrderedMapUnstageNoKey", New: mapOp(true, mapUnstageNoKey)},
		{Op: "OrderedMapPeek", New: mapOp(true, mapPeek)},
		{Op: "OrderedMapSize", New: mapOp(true, atOnce(mapSize))},
		{Op: "OrderedMapIncompleteSize", New: mapOp(true, atOnce(mapIncompleteSize))},
		{Op: "OrderedMapClear", New: mapOp(true, mapClear)},
	}...)
}
