package shape

import (
	"math"

	"github.com/troupe-run/troupe/graph/tensor"
)

// queueOps are queues, barriers, accumulators, stages, stacks and session tensors.
var queueOps = []row{
	{"FIFOQueue PaddingFIFOQueue PriorityQueue RandomShuffleQueue Barrier Stack StackV2 FakeQueue", func(c *call) {
		c.set(0, Of(2))
		c.components()
	}},
	{"FIFOQueueV2 PaddingFIFOQueueV2 PriorityQueueV2 RandomShuffleQueueV2", func(c *call) {
		c.set(0, Scalar())
		c.components()
	}},
	{"QueueEnqueueV2", func(c *call) { c.enqueued(0) }},
	{"QueueEnqueueManyV2", func(c *call) { c.enqueued(1) }},
	{"QueueEnqueue QueueEnqueueMany", unknown},
	{"QueueDequeueV2", func(c *call) { c.dequeued(Scalar()) }},
	{"QueueDequeueManyV2", func(c *call) {
		n, ok := c.scalarInt(1)
		if ok && n < 0 {
			c.fail("Input 'n' must be >= 0, but is %d", n)
		}
		c.dequeued(Of(orUnknown(n, ok)))
	}},
	{"QueueDequeueUpToV2", func(c *call) { c.dequeued(Of(-1)) }},
	{"QueueDequeue QueueDequeueMany QueueDequeueUpTo", unknown},
	{"QueueClose QueueSize BarrierClose BarrierIncompleteSize BarrierReadySize StackClose StackCloseV2", pairsToScalars},
	{"QueueCloseV2", noOutputs},
	{"QueueSizeV2", func(c *call) { c.set(0, c.in(0)) }},
	{"QueueIsClosed QueueIsClosedV2", scalarOut},
	{"BarrierInsertMany", func(c *call) {
		c.pair(0)
		c.merge(c.vector(1), Of(c.atLeast(c.in(2), 1).at(0)))
	}},
	{"BarrierTakeMany", unknown},
	{"StackPush StackPushV2", func(c *call) { c.set(0, c.in(1)) }},
	{"StackPop StackPopV2", unknown},
	{"ConditionalAccumulator ResourceConditionalAccumulator SparseConditionalAccumulator", pairOut},
	{`AccumulatorApplyGradient AccumulatorSetGlobalStep ResourceAccumulatorApplyGradient ResourceAccumulatorSetGlobalStep
		SparseAccumulatorApplyGradient AccumulatorTakeGradient ResourceAccumulatorTakeGradient SparseAccumulatorTakeGradient`, takes(-1, 0)},
	{"AccumulatorNumAccumulated ResourceAccumulatorNumAccumulated", scalarOut},
	{"Stage Unstage StagePeek StageClear RecordInput", unknown},
	{"StageSize MapSize MapIncompleteSize OrderedMapSize OrderedMapIncompleteSize", scalarOut},
	{"MapStage MapClear OrderedMapStage OrderedMapClear", noOutputs},
	{"MapPeek MapUnstage MapUnstageNoKey OrderedMapPeek OrderedMapUnstage OrderedMapUnstageNoKey", unknown},
	{"GetSessionHandle GetSessionHandleV2", scalarOut},
	{"GetSessionTensor DeleteSessionTensor", takes(0)},
}

// components notes what a queue's elements consist of. TensorFlow's client does so in Python.
func (c *call) components() {
	if !c.has("component_types") || !c.has("shapes") {
		return
	}
	types, err := c.Attrs.TypeList("component_types")
	c.check(err)
	shapes := c.attrShapes("shapes")
	h := make([]Handle, 0, len(types)+1)
	if c.Op == "PriorityQueue" || c.Op == "PriorityQueueV2" {
		h = append(h, Handle{DType: tensor.Int64, Shape: Scalar()}) // the priority, an int64, is the first component
	}
	for i, t := range types {
		e := Handle{DType: t}
		if len(shapes) == len(types) {
			e.Shape = shapes[i]
		}
		h = append(h, e)
	}
	c.setHandles(0, h)
}

// enqueued demands that values fit the queue's components, behind a number of batch dimensions.
func (c *call) enqueued(batch int) {
	h := c.handles(0)
	if len(h) == 0 {
		return
	}
	if len(h) != len(c.In)-1 {
		c.fail("The queue's elements have %d components, but %d values are put in", len(h), len(c.In)-1)
		return
	}
	first := int64(-1)
	for i, e := range h {
		s := c.in(i + 1)
		if batch > 0 {
			s = c.atLeast(s, batch)
			first = c.equal(first, s.at(0))
		}
		rest := c.sub(s, batch, math.MaxInt)
		if _, err := rest.Merge(e.Shape); err != nil {
			c.fail("Shape mismatch in tuple component %d. Expected %v, got %v", i, e.Shape, rest)
		}
	}
}

// dequeued states the queue's components behind the batch dimensions, where they are known.
func (c *call) dequeued(batch Shape) {
	if h := c.handles(0); len(h) == len(c.Out) {
		for i, e := range h {
			c.set(i, join(batch, e.Shape))
		}
	}
}
