package example

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Dense is a feature whose values fill a tensor of a declared shape.
type Dense struct {
	Key   string
	DType tensor.DType // Float32, Int64 or String
	// Shape is the shape of one example's values. If the first size is -1, the number of values varies in multiples of the product of the
	// other sizes, and examples are padded to the longest.
	Shape tensor.Shape
}

// varies reports whether the first size of the shape is unknown.
func (d *Dense) varies() bool { return len(d.Shape) > 0 && d.Shape[0] < 0 }

// Sparse is a feature with any number of values, returned as a sparse tensor.
type Sparse struct {
	Key   string
	DType tensor.DType
}

// Ragged is a feature with any number of values, returned as a ragged tensor with splits of int32 or int64.
type Ragged struct {
	Key           string
	DType, Splits tensor.DType
}

// Features are the features to read from a message.
type Features struct {
	Dense  []Dense
	Sparse []Sparse
	Ragged []Ragged
}

// CheckDefaults returns an error if a default value does not fit its dense feature. There must be one default per dense feature.
func (f *Features) CheckDefaults(defaults []*tensor.Tensor) error {
	for i, t := range defaults {
		d := &f.Dense[i]
		switch varies := d.varies(); {
		case varies && t.Len() != 1:
			return status.InvalidArgumentf("dense_shape[%d] is a variable length shape: %v, therefore def_value[%d] must contain a single element (the padding element).  But its shape is: %v", i, d.Shape, i, t.Shape())
		case !varies && t.Len() > 0 && !t.Shape().Equal(d.Shape):
			return status.InvalidArgumentf("def_value[%d].shape() == %v is not compatible with dense_shapes_[%d] == %v", i, t.Shape(), i, d.Shape)
		case t.DType() != d.DType:
			return status.InvalidArgumentf("dense_defaults[%d].dtype() == %v != dense_types_[%d] == %v", i, t.DType(), i, d.DType)
		}
	}
	return nil
}

// Parser parses Examples. It is immutable.
type Parser struct {
	Features
	n      int            // number of all features
	index  map[string]int // position of a key among dense, sparse and ragged features, in this order
	stride []int          // elements of a dense feature, or of its repeating part
}

// New returns a parser. It fails with INVALID_ARGUMENT for invalid types and shapes. If several features have the same key, the first gets
// the values, as in TensorFlow.
func New(f Features) (*Parser, error) {
	p := &Parser{Features: f, index: map[string]int{}, stride: make([]int, len(f.Dense))}
	add := func(key string, dtype tensor.DType) error {
		if err := checkType(dtype); err != nil {
			return err
		}
		if _, twice := p.index[key]; !twice {
			p.index[key] = p.n
		}
		p.n++
		return nil
	}
	for i := range f.Dense {
		d := &f.Dense[i]
		if err := add(d.Key, d.DType); err != nil {
			return nil, err
		}
		part := d.Shape
		if d.varies() {
			part = part[1:]
		}
		n, err := part.NumElements()
		if err != nil {
			return nil, err
		}
		if n == 0 && d.varies() {
			return nil, status.InvalidArgumentf("dense_shapes[%d] has a variable length of parts without elements: %v", i, d.Shape)
		}
		p.stride[i] = int(n)
	}
	for _, s := range f.Sparse {
		if err := add(s.Key, s.DType); err != nil {
			return nil, err
		}
	}
	for _, r := range f.Ragged {
		if err := add(r.Key, r.DType); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func checkType(dtype tensor.DType) error {
	if !slices.Contains([]tensor.DType{tensor.Float32, tensor.Int64, tensor.String}, dtype) {
		return status.InvalidArgumentf("Invalid config dtype: %v", dtype)
	}
	return nil
}

// Run provides the memory and parallelism for a parse.
type Run struct {
	Pool *tensor.Pool
	// Parallel calls body on parts of [0,n) that cover it, each of at least grain, and returns when all are done.
	Parallel func(n, grain int, body func(lo, hi int))
	// Ended, if not nil, returns an error once nobody waits for the result. Parsing then fails with it.
	Ended func() error
}

// ended returns the error of Ended.
func (r Run) ended() error {
	if r.Ended == nil {
		return nil
	}
	return r.Ended()
}

// looksEach is the number of examples between two calls of Run.Ended.
const looksEach = 256

// Result holds the tensors of all requested features. Dense is for dense features; Indices, Values and Shapes for sparse ones;
// RaggedValues, Splits and, for feature lists, OuterSplits for ragged ones. Lengths holds the numbers of rows of dense lists.
type Result struct {
	Dense, Lengths                    []*tensor.Tensor
	Indices, Values, Shapes           []*tensor.Tensor
	RaggedValues, Splits, OuterSplits []*tensor.Tensor
}

func newResult(f *Features) *Result {
	list := func(n int) []*tensor.Tensor { return make([]*tensor.Tensor, n) }
	return &Result{
		Dense: list(len(f.Dense)), Lengths: list(len(f.Dense)),
		Indices: list(len(f.Sparse)), Values: list(len(f.Sparse)), Shapes: list(len(f.Sparse)),
		RaggedValues: list(len(f.Ragged)), Splits: list(len(f.Ragged)), OuterSplits: list(len(f.Ragged)),
	}
}

// Release releases all tensors.
func (r *Result) Release() {
	for _, list := range [][]*tensor.Tensor{r.Dense, r.Lengths, r.Indices, r.Values, r.Shapes, r.RaggedValues, r.Splits, r.OuterSplits} {
		for i, t := range list {
			if t != nil {
				t.Release()
				list[i] = nil
			}
		}
	}
}

// found holds the requested features of one example.
type found struct {
	features []string
	present  []bool
}

func (p *Parser) newFound() *found {
	return &found{make([]string, p.n), make([]bool, p.n)}
}

// scan finds the features in a serialized Example. The last one of a key counts, except that an empty dense feature is ignored. It returns
// false if the message is malformed.
func (p *Parser) scan(serialized string, f *found) bool {
	clear(f.present)
	for c := (cursor{serialized}); len(c.s) > 0; {
		tag, ok := c.tag()
		switch {
		case !ok:
			return false
		case tag != delimited(1):
			if !c.skipLoosely(tag) {
				return false
			}
			continue
		}
		features, ok := c.bytes()
		if !ok || !entries(features, func(key, feature string) {
			if i, wanted := p.index[key]; wanted && (feature != "" || i >= len(p.Dense)) {
				f.features[i], f.present[i] = feature, true
			}
		}) {
			return false
		}
	}
	return true
}
