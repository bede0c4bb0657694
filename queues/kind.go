package queues

// Kind is a kind of queue: the order in which its elements leave, and the shapes that they may have.
type Kind int8

const (
	// FIFO is first in, first out.
	FIFO Kind = iota
	// PaddingFIFO is FIFO with components whose shapes are partly known. Components of a batch are padded with
	// zeros to the size of the largest when it is dequeued.
	PaddingFIFO
	// RandomShuffle returns a random element, and keeps a number of elements to choose from while it is open.
	RandomShuffle
	// Priority returns the element with the lowest first component, an int64 scalar. A batch is dequeued when the
	// queue has all of it, so that it is sorted.
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
