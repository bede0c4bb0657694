package kernels

import "github.com/troupe-run/troupe/queues"

// The ops on queues. Each op on a queue takes a resource handle (V2) or a reference to a pair
// of container and name, and one kernel serves both.
func init() {
	Register(
		Def{Op: "FIFOQueue", New: newQueue(queues.FIFO)},
		Def{Op: "FIFOQueueV2", New: newQueue(queues.FIFO)},
		Def{Op: "PaddingFIFOQueue", New: newQueue(queues.PaddingFIFO)},
		Def{Op: "PaddingFIFOQueueV2", New: newQueue(queues.PaddingFIFO)},
		Def{Op: "RandomShuffleQueue", New: newQueue(queues.RandomShuffle)},
		Def{Op: "RandomShuffleQueueV2", New: newQueue(queues.RandomShuffle)},
		Def{Op: "PriorityQueue", New: newQueue(queues.Priority)},
		Def{Op: "PriorityQueueV2", New: newQueue(queues.Priority)},
		Def{Op: "FakeQueue", New: newFakeQueue},
		Def{Op: "QueueEnqueue", New: newEnqueue},
		Def{Op: "QueueEnqueueV2", New: newEnqueue},
		Def{Op: "QueueEnqueueMany", New: newEnqueueMany},
		Def{Op: "QueueEnqueueManyV2", New: newEnqueueMany},
		Def{Op: "QueueDequeue", New: newDequeue},
		Def{Op: "QueueDequeueV2", New: newDequeue},
		Def{Op: "QueueDequeueMany", New: newDequeueMany},
		Def{Op: "QueueDequeueManyV2", New: newDequeueMany},
		Def{Op: "QueueDequeueUpTo", New: newDequeueUpTo},
		Def{Op: "QueueDequeueUpToV2", New: newDequeueUpTo},
		Def{Op: "QueueClose", New: newQueueClose},
		Def{Op: "QueueCloseV2", New: newQueueClose},
		Def{Op: "QueueSize", New: newQueueSize},
		Def{Op: "QueueSizeV2", New: newQueueSize},
		Def{Op: "QueueIsClosed", New: newQueueIsClosed},
		Def{Op: "QueueIsClosedV2", New: newQueueIsClosed},
	)
}
