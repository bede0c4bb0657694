package example

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// SequenceParser parses SequenceExamples. It is immutable.
type SequenceParser struct {
	// Context holds the features of a whole example, Lists the features of each of its rows. Shapes are fully known; for a dense list, the
	// shape is that of one row.
	Context, Lists             Features
	contextWanted, listsWanted wanted
}

// wanted holds the features of one part of a SequenceExample: the dense ones, then the sparse and the ragged ones. A key may be requested
// more than once.
type wanted struct {
	index map[string][]int
	list  []feature
}

type feature struct {
	key   string
	dtype tensor.DType
	dense bool
}

// NewSequence returns a parser. It fails with INVALID_ARGUMENT for invalid types.
func NewSequence(context, lists Features) (*SequenceParser, error) {
	p := &SequenceParser{Context: context, Lists: lists}
	var err error
	if p.contextWanted, err = newWanted(&context); err != nil {
		return nil, err
	}
	p.listsWanted, err = newWanted(&lists)
	return p, err
}

func newWanted(f *Features) (wanted, error) {
	w := wanted{index: map[string][]int{}}
	for _, d := range f.Dense {
		if _, err := d.Shape.NumElements(); err != nil {
			return w, err
		}
		w.list = append(w.list, feature{d.Key, d.DType, true})
	}
	for _, s := range f.Sparse {
		w.list = append(w.list, feature{s.Key, s.DType, false})
	}
	for _, r := range f.Ragged {
		w.list = append(w.list, feature{r.Key, r.DType, false})
	}
	for i, f := range w.list {
		if err := checkType(f.dtype); err != nil {
			return w, err
		}
		w.index[f.key] = append(w.index[f.key], i)
	}
	return w, nil
}

// Unambiguous returns INVALID_ARGUMENT if a key is requested as two kinds of feature.
func (p *SequenceParser) Unambiguous() error {
	if err := unambiguous(&p.Context, "Context"); err != nil {
		return err
	}
	return unambiguous(&p.Lists, "Sequence")
}

func unambiguous(f *Features, part string) error {
	const sparse, ragged = 1, 2
	kinds := map[string]int{}
	for _, s := range f.Sparse {
		kinds[s.Key] = sparse
	}
	for _, r := range f.Ragged {
		if kinds[r.Key] == sparse {
			return status.InvalidArgumentf("%s feature %s cannot be both ragged and sparse", part, r.Key)
		}
		kinds[r.Key] = ragged
	}
	for _, d := range f.Dense {
		if kinds[d.Key] != 0 {
			return status.InvalidArgumentf("%s feature %s cannot be both dense and sparse", part, d.Key)
		}
	}
	return nil
}

// track is a feature in all examples.
type track struct {
	feature
	cells []cell
	// length is the number of values: the largest in any example for a dense feature, else the total. rows is the total number of rows of a
	// list.
	length, rows int
}

// cell is a feature of one example: the message found and, for a context feature, its values.
type cell struct {
	message string
	present bool
	values  values
	n       int
}

func (w *wanted) tracks(examples int) []track {
	list := make([]track, len(w.list))
	for i := range list {
		list[i] = track{feature: w.list[i], cells: make([]cell, examples)}
	}
	return list
}

// SequenceInput is the input of a SequenceParser.
type SequenceInput struct {
	Serialized []string
	// Names are the examples' names in errors: none, or one for each.
	Names []string
	// Batch reports that results have a first dimension for the examples; otherwise there is one example.
	Batch bool
	// Defaults replace missing values of dense context features: tensors of their shapes, or without elements if the feature is required.
	Defaults []*tensor.Tensor
	// MayLack reports, for each dense list, whether an example without it has an empty list; otherwise that is an error.
	MayLack []bool
}

// sequences is a parse of SequenceExamples.
type sequences struct {
	*SequenceParser
	SequenceInput
	run              Run
	context, lists   []track
	result, listsRes *Result
}

// Parse parses serialized SequenceExamples. Lists of dense features are padded with zeros to the longest. All errors are INVALID_ARGUMENT,
// except for lack of memory.
func (p *SequenceParser) Parse(run Run, in SequenceInput) (context, lists *Result, err error) {
	q := &sequences{SequenceParser: p, SequenceInput: in, run: run, result: newResult(&p.Context), listsRes: newResult(&p.Lists)}
	if err := q.parse(); err != nil {
		q.result.Release()
		q.listsRes.Release()
		return nil, nil, err
	}
	return q.result, q.listsRes, nil
}

func (q *sequences) parse() error {
	n := len(q.Serialized)
	if len(q.Names) != 0 && len(q.Names) != n {
		return status.InvalidArgumentf("example_names must be empty or have the correct number of elements")
	}
	if err := q.Unambiguous(); err != nil {
		return err
	}
	if err := q.makeTracks(); err != nil {
		return err
	}
	for i, d := range q.Context.Dense {
		in := q.Defaults[i]
		if in.Len() > 0 && !in.Shape().Equal(d.Shape) {
			return status.InvalidArgumentf("Default value for context feature %s has an incorrect shape: saw %v but expected %v", d.Key, in.Shape(), d.Shape)
		}
		q.context[i].length = in.Len()
	}
	for e := range q.Serialized {
		if e%looksEach == 0 {
			if err := q.run.ended(); err != nil {
				return err
			}
		}
		if !q.scan(e, (*cursor).skipLoosely) {
			return status.InvalidArgumentf("Invalid protocol message input, example id: %s", q.name(e))
		}
	}
	if err := q.countContext(); err != nil {
		return err
	}
	if err := q.countLists(); err != nil {
		return err
	}
	if err := q.fillContext(); err != nil {
		return err
	}
	return q.fillLists()
}

func (q *sequences) name(e int) string {
	if len(q.Names) == 0 {
		return "<unknown>"
	}
	return q.Names[e]
}

func (q *sequences) makeTracks() error {
	n, features := len(q.Serialized), len(q.contextWanted.list)+len(q.listsWanted.list)
	if n > 0 && features > maxPlaces/n {
		return status.Errorf(status.ResourceExhausted, "OOM when parsing %d features of %d examples in one batch", features, n)
	}
	q.context, q.lists = q.contextWanted.tracks(n), q.listsWanted.tracks(n)
	return nil
}

// scan finds the features of example e; the last one of a key counts. skip skips unknown fields.
func (q *sequences) scan(e int, skip func(c *cursor, tag uint64) bool) bool {
	for c := (cursor{q.Serialized[e]}); len(c.s) > 0; {
		tag, ok := c.tag()
		if !ok {
			return false
		}
		index, tracks := q.contextWanted.index, q.context
		switch tag {
		case delimited(1):
		case delimited(2):
			index, tracks = q.listsWanted.index, q.lists
		default:
			if !skip(&c, tag) {
				return false
			}
			continue
		}
		features, ok := c.bytes()
		if !ok || !entries(features, func(key, message string) {
			for _, i := range index[key] {
				tracks[i].cells[e] = cell{message: message, present: true}
			}
		}) {
			return false
		}
	}
	return true
}

// shape returns the shape of a result: the dimension of the examples, if there is one, before the others.
func (q *sequences) shape(rest ...int64) tensor.Shape {
	if !q.Batch {
		return rest
	}
	return append(tensor.Shape{int64(len(q.Serialized))}, rest...)
}

// vector returns a tensor of int64s.
func (q *sequences) vector(values ...int64) (*tensor.Tensor, error) {
	return tensor.FromSlice(tensor.Int64, tensor.Shape{int64(len(values))}, values)
}

// exampleSplits returns the row splits of the examples. A single example has none; the result is then a scalar.
func (q *sequences) exampleSplits(dtype tensor.DType, ends []int) (*tensor.Tensor, error) {
	if !q.Batch {
		return tensor.Zeros(q.run.Pool, dtype, nil)
	}
	return splits(q.run.Pool, dtype, ends)
}
