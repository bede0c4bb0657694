package dataset

// Kind is the behaviour of an op's datasets.
type Kind interface {
	// Cardinality returns the number of elements, Infinite or Unknown. A nil query asks for what is known without work.
	Cardinality(q *Query) int64
	// Open creates an iterator, positioned before the first element.
	Open(e *Env) (Iterator, error)
}

// The methods of the interfaces below are optional: a kind has those that it needs.

// Indexed kinds can return the element at an index without computing those before it.
type Indexed interface {
	// At returns the element at index i, which InRange has checked, or io.EOF if the elements end before it.
	At(c *Call, i int64) (Element, error)
}

// IndexChecker is for indexed kinds with a rule of their own for indices. Others need a known number of elements.
type IndexChecker interface {
	// InRange returns an error for index i of a dataset whose number of elements is n, Infinite or Unknown.
	InRange(n, i int64) error
}

// Shuffler is for kinds with a rule of their own for global shuffling. Others need access by index, and so do their inputs.
type Shuffler interface {
	// Shufflable returns why the dataset cannot be shuffled as a whole, in TensorFlow's words; nil if it can.
	Shufflable() error
}

// Caller is for kinds whose elements depend on functions of the graph.
type Caller interface {
	// Functions returns the functions, in the order of the node's attributes.
	Functions() []*Function
}

// Described is for kinds whose text has arguments. See Dataset.Text.
type Described interface {
	// Arguments returns the arguments, as TensorFlow prints them.
	Arguments() string
}

// StageNamer is for kinds whose iterators TensorFlow names differently from their op.
type StageNamer interface {
	// StageName returns the iterators' name.
	StageName() string
}

// Neutral is for kinds that, with some arguments, are equal to their input: they have no stage of their own then.
type Neutral interface {
	// ChangesNothing reports whether the dataset is equal to its input.
	ChangesNothing() bool
}

// Transient is for kinds that cannot become graphs.
type Transient interface {
	// Transient reports whether the dataset cannot become a graph.
	Transient() bool
}

// Dropper is for kinds that hold more than inputs and tensors.
type Dropper interface {
	// Drop is called when the dataset's last reference is dropped.
	Drop()
}
