package queues

// Kind is a kind of queue: in which order its elements leave, and what they look like.
type Kind int8

const (
	// FIFO is first in, first out.
	FIFO Kind = iota
	// PaddingFIFO is FIFO with components whose shapes are known in part. What is dequeued as a batch is
	// padded with zeros to the largest of it.
	PaddingFIFO
	// RandomShuffle gives any element, and keeps a number of them back while it is open, to choose from.
	RandomShuffle
	// Priority gives the element whose first component, an int64 scalar, is least. A batch is dequeued when
	// the queue has all of it, so that it is sorted.
	Priority
)

// String is the name of the op that makes such a queue.
func (k Kind) String() string {
	return [...]string{"FIFOQueue", "PaddingFIFOQueue", "RandomShuffleQueue", "PriorityQueue"}[k]
}

// says is the kind's name in messages about an action. TensorFlow's PaddingFIFOQueue is a FIFOQueue but for
// dequeuing batches, and says so.
func (k Kind) says(a action) string {
	if k == PaddingFIFO && a != dequeueMany && a != dequeueUpTo {
		return FIFO.String()
	}
	return k.String()
}

// scatters tells whether elements that came together leave one by one.
func (k Kind) scatters() bool { return k == RandomShuffle || k == Priority }

func (o *Options) order() order {
	switch o.Kind {
	case RandomShuffle:
		return &shuffle{random: o.Random}
	case Priority:
		return &heap{}
	default:
		return &fifo{}
	}
}
