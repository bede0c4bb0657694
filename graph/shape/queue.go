package shape

import (
	"math"

	"github.com/troupe-run/troupe/graph/tensor"
)

// queueOps are the ops on queues, barriers, accumulators, stages, stacks and session tensors.
var queueOps = []row{
	{"FIFOQueue PaddingFIFOQueue PriorityQueue RandomShuffleQueue Barrier Stack StackV2 FakeQueue", func(c *call) {
		c.set(0, Of(2))
		c.components()
	}},
	{"FIFOQueueV2 PaddingFIFOQueueV2 PriorityQueueV2 RandomShuffleQueueV2", func(c *call) {
		c.set(0, Scalar())
		c.components()
	}},
	{"QueueEnqueueV2", func(c *call) { c.enqueued(0, 1) }},
	{"QueueEnqueueManyV2", func(c *call) { c.enqueued(1, 1) }},
	{"QueueEnqueue QueueEnqueueMany", unknown},
	{"QueueDequeueV2", func(c *call) { c.dequeued(Scalar(), 0) }},
	{"QueueDequeueManyV2", func(c *call) {
		n, ok := c.scalarInt(1)
		if ok && n < 0 {
			c.fail("Input 'n' must be >= 0, but is %d", n)
		}
		c.dequeued(Of(orUnknown(n, ok)), 0)
	}},
	{"QueueDequeueUpToV2", func(c *call) { c.dequeued(Of(-1), 0) }},
	{"QueueDequeue QueueDequeueMany QueueDequeueUpTo", unknown},
	{"TroupeQueueLease", func(c *call) {
		c.set(0, Scalar())
		c.set(1, c.in(2))
		c.dequeued(Of(-1), 2)
	}},
	{"TroupeQueueAcknowledge TroupeQueueReturn TroupeQueueRenew", func(c *call) { c.set(0, c.in(1)) }},
	{"TroupeQueueEnqueueManyOnce", func(c *call) {
		c.scalar(1)
		c.scalar(2)
		c.enqueued(1, 3)
	}},
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

// components sets the components of a queue's elements. TensorFlow's client does this in Python.
func (c *call) components() {
	if !c.Has("component_types") || !c.Has("shapes") {
		return
	}
	types := c.TypeList("component_types")
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

// enqueued checks that values, which begin at input from, match the queue's components, after a number of batch dimensions.
func (c *call) enqueued(batch, from int) {
	h := c.handles(0)
	if len(h) == 0 {
		return
	}
	if len(h) != len(c.In)-from {
		c.fail("The queue's elements have %d components, but %d values are put in", len(h), len(c.In)-from)
		return
	}
	first := int64(-1)
	for i, e := range h {
		s := c.in(i + from)
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

// dequeued sets the outputs from a position on to the queue's components after the batch dimensions, if they are known.
func (c *call) dequeued(batch Shape, from int) {
	if h := c.handles(0); len(h) == len(c.Out)-from {
		for i, e := range h {
			c.set(i+from, join(batch, e.Shape))
		}
	}
}
