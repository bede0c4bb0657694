package data

// Kind is the behaviour of an op's datasets.
type Kind interface {
	// Cardinality returns the number of elements, infinite or unknown. A nil query asks for what is known without work.
	Cardinality(q *Query) int64
	// Open creates an iterator, positioned before the first element.
	Open(e *Env) (Iterator, error)
}

// The methods of the interfaces below are optional: a kind has those that it needs. Kinds that equal their input embed the
// Dataset, and so have its methods, too.

// Indexed kinds can return the element at an index without computing those before it.
type Indexed interface {
	// At returns the element at index i, which InRange has checked, or io.EOF if the elements end before it.
	At(c *Call, i int64) (Element, error)
}

// IndexChecker is for indexed kinds with a rule of their own for indices. Others need a known number of elements.
type IndexChecker interface {
	// InRange returns an error for index i of a dataset whose number of elements is n, infinite or unknown.
	InRange(n, i int64) error
}

// Shuffler is for kinds with a rule of their own for global shuffling. Others need access by index, and so do their inputs.
type Shuffler interface {
	// Shufflable returns why the dataset cannot be shuffled as a whole, in TensorFlow's words; nil if it can.
	Shufflable() error
}

// Caller is for kinds whose elements depend on functions of the graph.
type Caller interface {
	Functions() []*Function
}

// Described is for kinds whose text has arguments. See Dataset.Text.
type Described interface {
	Arguments() string
}

// StageNamer is for kinds whose iterators TensorFlow names differently from their op.
type StageNamer interface {
	StageName() string
}

// Neutral is for kinds that, with some arguments, are equal to their input: they have no stage of their own then.
type Neutral interface {
	ChangesNothing() bool
}

// Transient is for kinds that cannot become graphs.
type Transient interface {
	Transient() bool
}

// Dropper is for kinds that hold more than inputs and tensors.
type Dropper interface {
	// Drop is called when the dataset's last reference is dropped.
	Drop()
}
