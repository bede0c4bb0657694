package dataflow

import (
	"github.com/troupe-run/troupe/containers/barrier"
	"github.com/troupe-run/troupe/containers/staging"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/queues"
)

// Table is the family's ops.
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

// The ops on conditional accumulators. Dense ones have a resource handle or a reference to a pair of container
// and name, sparse ones such a reference alone. Applying adds up whole gradients, so it is expensive.
func addAccumulator(table *kernels.Table) {
	types := map[string][]tensor.DType{"dtype": {tensor.Float16, tensor.Float32, tensor.Float64}}
	for _, family := range []string{"", "Resource"} {
		table.Add([]kernels.Def{
			{Op: family + "ConditionalAccumulator", Types: types, New: newDenseAccumulator},
			{Op: family + "AccumulatorApplyGradient", Expensive: true, New: kernels.Always(applyGradient)},
			{Op: family + "AccumulatorTakeGradient", New: newTakeGradient},
			{Op: family + "AccumulatorSetGlobalStep", New: kernels.Always(setGlobalStep)},
			{Op: family + "AccumulatorNumAccumulated", New: kernels.Always(numAccumulated)},
		}...)
	}
	table.Add([]kernels.Def{
		{Op: "SparseConditionalAccumulator", Types: types, New: newSparseAccumulator},
		{Op: "SparseAccumulatorApplyGradient", Expensive: true, New: newApplySparseGradient},
		{Op: "SparseAccumulatorTakeGradient", New: newTakeGradient},
	}...)
}

// The ops on barriers.
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

// The stacks and arrays of TensorFlow 1's loops, which live in the container of their step.
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

	// The handle of the first version is a reference to strings, that of the second strings, that of the third a resource.
	for version, kind := range map[string]handleKind{"": refHandle, "V2": stringHandle, "V3": resourceHandle} {
		table.Add([]kernels.Def{
			{Op: "TensorArray" + version, New: newTensorArray(kind)},
			{Op: "TensorArrayGrad" + version, New: newTensorArrayGrad(kind)},
			{Op: "TensorArrayWrite" + version, New: kernels.Always(tensorArrayWrite)},
			{Op: "TensorArrayRead" + version, New: arrayReader(tensorArrayRead)},
			{Op: "TensorArrayGather" + version, New: arrayReader(tensorArrayGather)},
			{Op: "TensorArrayConcat" + version, New: arrayReader(tensorArrayConcat)},
			{Op: "TensorArrayScatter" + version, New: kernels.Always(tensorArrayScatter)},
			{Op: "TensorArraySplit" + version, New: kernels.Always(tensorArraySplit)},
			{Op: "TensorArraySize" + version, New: kernels.Always(tensorArraySize)},
			{Op: "TensorArrayClose" + version, New: kernels.Always(tensorArrayClose)},
		}...)
	}
	table.Add([]kernels.Def{
		{Op: "TensorArrayGradWithShape", New: newTensorArrayGrad(resourceHandle)},
		{Op: "TensorArrayPack", New: arrayReader(tensorArrayPack)},
		{Op: "TensorArrayUnpack", New: kernels.Always(tensorArrayUnpack)},
	}...)
}

// The ops of critical sections.
func addMutex(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "MutexV2", New: newMutex},
		{Op: "MutexLock", New: func(*kernels.Construction) (any, error) { return kernels.AsyncFunc(lockMutex), nil }},
		{Op: "ConsumeMutexLock", New: kernels.Always(consumeLock)},
	}...)
}

// The ops on queues. Each op on a queue takes a resource handle (V2) or a reference to a pair
// of container and name, and one kernel serves both.
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
}

// The ops on staging areas. All of them may be the first that names an area, and make it.
func addStaging(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "Stage", New: bufferOp(stage)},
		{Op: "Unstage", New: bufferOp(unstage)},
		{Op: "StagePeek", New: bufferOp(stagePeek)},
		{Op: "StageSize", New: bufferOp(atOnce(stageSize))},
		{Op: "StageClear", New: bufferOp(atOnce(func(_ *kernels.Context, b *staging.Buffer) error { return b.Clear() }))},
	}...)
	for family, ordered := range map[string]bool{"Map": false, "OrderedMap": true} {
		table.Add([]kernels.Def{
			{Op: family + "Stage", New: mapOp(ordered, mapStage)},
			{Op: family + "Unstage", New: mapOp(ordered, mapUnstage)},
			{Op: family + "UnstageNoKey", New: mapOp(ordered, mapUnstageNoKey)},
			{Op: family + "Peek", New: mapOp(ordered, mapPeek)},
			{Op: family + "Size", New: mapOp(ordered, atOnce(mapSize))},
			{Op: family + "IncompleteSize", New: mapOp(ordered, atOnce(mapIncompleteSize))},
			{Op: family + "Clear", New: mapOp(ordered, atOnce(func(_ *kernels.Context, m *staging.Map) error { return m.Clear() }))},
		}...)
	}
}
