package queues

// Kind is a kind of queue: the order in which its elements leave, and the shapes that they may have.
type Kind int8

const (
	// FIFO is first in, first out.
	FIFO Kind = iota
	// PaddingFIFO is FIFO with components whose shapes are partly known. When a batch is dequeued, its components are padded with zeros to
	// the size of the largest.
	PaddingFIFO
	// RandomShuffle returns a random element. While it is open, it keeps a minimum number of elements to choose from.
	RandomShuffle
	// Priority returns the element with the lowest first component, an int64 scalar. It serves a batch only once it holds all of the
	// batch's elements, so the batch is sorted.
	Priority
)

// String returns the name of the op that makes such a queue.
func (k Kind) String() string {
	return [...]string{"FIFOQueue", "PaddingFIFOQueue", "RandomShuffleQueue", "PriorityQueue"}[k]
}

// says returns the kind's name in messages about an action. TensorFlow's PaddingFIFOQueue is a FIFOQueue except for dequeuing batches, and
// its messages say so.
func (k Kind) says(a action) string {
	if k == PaddingFIFO && a != dequeueMany && a != dequeueUpTo {
		return FIFO.String()
	}
	return k.String()
}

// scatters reports whether elements that were enqueued together leave one by one.
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
