package example

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// SequenceParser reads SequenceExamples. It is immutable.
type SequenceParser struct {
	// Context are features of a whole example, Lists features of each of its rows. Shapes are fully known:
	// that of a dense list is one row's.
	Context, Lists             Features
	contextWanted, listsWanted wanted
}

// wanted are the features of one part of a SequenceExample: first the dense ones, then the sparse and the ragged
// ones. A key may be asked for more than once.
type wanted struct {
	index map[string][]int
	list  []feature
}

type feature struct {
	key   string
	dtype tensor.DType
	dense bool
}

// NewSequence makes a parser. INVALID_ARGUMENT for types that there cannot be.
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

// Unambiguous tells with INVALID_ARGUMENT that a key is asked for as features of two kinds.
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
	// length is the number of values: of the largest example of a dense feature, else of all. rows is the
	// number of rows of a list in all examples.
	length, rows int
}

// cell is a feature of one example: what was found of it, and for a feature of the context its values.
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

// SequenceInput is what a SequenceParser gets.
type SequenceInput struct {
	Serialized []string
	// Names are what errors call the examples, none or one for each.
	Names []string
	// Batch tells that results have a first dimension of the examples; else there is one example.
	Batch bool
	// Defaults stand for the values of dense features that a context lacks: tensors of their shapes, or without
	// elements where the feature is required.
	Defaults []*tensor.Tensor
	// MayLack tells for each dense list whether an example that lacks it has an empty one; else it is an error.
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

// Parse parses serialized SequenceExamples. Lists of dense features are padded to the longest with zeros. All
// errors are INVALID_ARGUMENT, but for lack of memory.
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

// scan finds the features of example e, of which the last of a key counts. skip passes over fields that nobody knows.
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

// shape is that of a result: the examples' dimension, if there is one, before others.
func (q *sequences) shape(rest ...int64) tensor.Shape {
	if !q.Batch {
		return rest
	}
	return append(tensor.Shape{int64(len(q.Serialized))}, rest...)
}

// vector makes a tensor of int64s.
func (q *sequences) vector(values ...int64) (*tensor.Tensor, error) {
	return tensor.FromSlice(tensor.Int64, tensor.Shape{int64(len(values))}, values)
}

// exampleSplits are row splits of the examples; of a single example there are none, which is a scalar.
func (q *sequences) exampleSplits(dtype tensor.DType, ends []int) (*tensor.Tensor, error) {
	if !q.Batch {
		return tensor.Zeros(q.run.Pool, dtype, nil)
	}
	return splits(q.run.Pool, dtype, ends)
}
