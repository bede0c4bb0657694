package example

import (
	"fmt"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// place is one example's part of a varying-length feature: its values, their number, and their position in the batch.
type place struct {
	values values
	n, at  int
}

// batch is a parse of several examples.
type batch struct {
	*Parser
	run        Run
	serialized []string
	names      []string // of the examples, for errors; may be empty
	defaults   []*tensor.Tensor
	result     *Result
	places     [][]place // by feature of varying length, then by example
}

// varyingSparse and varyingRagged return the rows of sparse and ragged features in places. They follow the rows of the dense features.
func (b *batch) varyingSparse(i int) []place { return b.places[len(b.Dense)+i] }
func (b *batch) varyingRagged(i int) []place { return b.places[len(b.Dense)+len(b.Sparse)+i] }

// Batch parses serialized Examples into tensors whose first dimension is the examples. names are the examples' names in errors: none, or
// one for each. defaults replace missing values of dense features: a default is a tensor of the feature's shape or, for a feature of
// varying length, the padding element. A feature whose default has no elements is required. All errors are INVALID_ARGUMENT, except for
// lack of memory.
func (p *Parser) Batch(run Run, serialized, names []string, defaults []*tensor.Tensor) (*Result, error) {
	b := &batch{Parser: p, run: run, serialized: serialized, names: names, defaults: defaults, result: newResult(&p.Features)}
	if err := b.parse(); err != nil {
		b.result.Release()
		return nil, err
	}
	return b.result, nil
}

// maxPlaces limits the varying-length features of a batch, over all examples.
const maxPlaces = 1 << 27

func (b *batch) parse() (err error) {
	n := len(b.serialized)
	if n > 0 && b.n > maxPlaces/n {
		return status.Errorf(status.ResourceExhausted, "OOM when parsing %d features of %d examples in one batch", b.n, n)
	}
	b.places = make([][]place, b.n)
	for i, d := range b.Dense {
		if d.varies() {
			b.places[i] = make([]place, n)
			continue
		}
		t, err := tensor.New(b.run.Pool, d.DType, append(tensor.Shape{int64(n)}, d.Shape...))
		if err != nil {
			return err
		}
		b.result.Dense[i] = t
	}
	for i := len(b.Dense); i < len(b.places); i++ {
		b.places[i] = make([]place, n)
	}
	if err := b.scanAll(); err != nil {
		return err
	}
	defer func() {
		if err == nil {
			err = b.run.ended() // each may have left out examples
		}
	}()
	for i := range b.Dense {
		if b.places[i] == nil {
			continue
		}
		if err := b.pad(i); err != nil {
			return err
		}
	}
	for i := range b.Sparse {
		if err := b.sparse(i); err != nil {
			return err
		}
	}
	for i := range b.Ragged {
		if err := b.ragged(i); err != nil {
			return err
		}
	}
	return nil
}

// portion is the number of bytes of examples worth handing to another core.
const portion = 50000

// scanAll finds and counts the values of all examples, and stores those of fixed-size dense features. It processes the same portions as
// TensorFlow, since an error describes the first bad example of the first bad portion, with the count of values in that portion.
func (b *batch) scanAll() error {
	n := len(b.serialized)
	portions, size, total := 0, 0, 0
	for _, s := range b.serialized {
		if size == 0 {
			portions++
		}
		total += len(s)
		if size += len(s) + 1; size > portion {
			size = 0
		}
	}
	portions = max(min(8, n), min(64, portions))
	if portions == 0 {
		return nil
	}
	grain := 1
	if total < portion {
		grain = portions
	}
	errs := make([]error, portions)
	b.run.Parallel(portions, grain, func(lo, hi int) {
		f := b.newFound()
		saw := make([]int, len(b.Dense))
		for i := lo; i < hi; i++ {
			clear(saw)
			for e := n * i / portions; e < n*(i+1)/portions && errs[i] == nil; e++ {
				if e%looksEach == 0 {
					errs[i] = b.run.ended()
				}
				if errs[i] == nil {
					errs[i] = b.one(e, f, saw)
				}
			}
		}
	})
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// one scans example e. saw counts the values of dense features of varying length.
func (b *batch) one(e int, f *found, saw []int) error {
	if !b.scan(b.serialized[e], f) {
		return status.InvalidArgumentf("Could not parse example input, value: '%s'", b.serialized[e])
	}
	for i := range b.Dense {
		if f.present[i] {
			if err := b.dense(e, i, f.features[i], saw); err != nil {
				return err
			}
		}
	}
	for i, s := range b.Sparse {
		if j := len(b.Dense) + i; f.present[j] {
			if err := b.varying(e, s.Key, s.DType, f.features[j], &b.varyingSparse(i)[e]); err != nil {
				return err
			}
		}
	}
	for i, r := range b.Ragged {
		if j := len(b.Dense) + len(b.Sparse) + i; f.present[j] {
			if err := b.varying(e, r.Key, r.DType, f.features[j], &b.varyingRagged(i)[e]); err != nil {
				return err
			}
		}
	}
	for i, d := range b.Dense {
		if f.present[i] || b.places[i] != nil {
			continue
		}
		if b.defaults[i].Len() == 0 {
			return status.InvalidArgumentf("Name: %s, Feature: %s (data type: %v) is required but could not be found.", b.name(e), d.Key, d.DType)
		}
		copyColumn(columnOf(b.result.Dense[i]), e*b.stride[i], columnOf(b.defaults[i]))
	}
	return nil
}

func (b *batch) name(e int) string {
	if len(b.names) == 0 {
		return "<unknown>"
	}
	return b.names[e]
}

// fail returns the error for a feature of an example.
func (b *batch) fail(e int, key, format string, args ...any) error {
	return status.InvalidArgumentf("Name: %s, Key: %s, Index: %d.  %s", b.name(e), key, e, fmt.Sprintf(format, args...))
}

var errDatatype = status.InvalidArgumentf("Unsupported datatype.")

// dense reads the values of a dense feature.
func (b *batch) dense(e, i int, feature string, saw []int) error {
	d := &b.Dense[i]
	v, ok := valuesOf(feature)
	switch {
	case !ok || v.dtype == tensor.Invalid:
		return errDatatype
	case v.dtype != d.DType:
		return b.fail(e, d.Key, "Data types don't match. Data type: %v but expected type: %v", v.dtype, d.DType)
	}
	n, ok := v.count()
	if b.places[i] != nil {
		if saw[i] += n; !ok {
			return b.fail(e, d.Key, "Can't parse serialized Example.")
		} else if n%b.stride[i] != 0 {
			return b.fail(e, d.Key, "Number of %s values is not a multiple of stride length. Saw %d values but output shape is: %v", word(d.DType), saw[i], d.Shape)
		}
		b.places[i][e] = place{values: v, n: n}
		return nil
	}
	switch {
	case !ok || d.DType == tensor.String && n > b.stride[i]:
		return b.fail(e, d.Key, "Can't parse serialized Example.")
	case n != b.stride[i]:
		return b.fail(e, d.Key, "Number of %s values != expected.  Values size: %d but output shape: %v", word(d.DType), n, d.Shape)
	}
	v.put(columnOf(b.result.Dense[i]), e*n, len(b.serialized[e]))
	return nil
}

// word returns the word that messages use for values of a type.
func word(dtype tensor.DType) string {
	if dtype == tensor.String {
		return "bytes"
	}
	return dtype.String()
}

// varying reads the values of a sparse or ragged feature.
func (b *batch) varying(e int, key string, dtype tensor.DType, feature string, to *place) error {
	if feature == "" {
		return nil
	}
	v, ok := valuesOf(feature)
	switch {
	case !ok || v.dtype == tensor.Invalid:
		return errDatatype
	case v.dtype != dtype:
		return b.fail(e, key, "Data types don't match. Expected type: %v, Actual type: %v", dtype, v.dtype)
	}
	if to.n, ok = v.count(); !ok {
		return b.fail(e, key, "Can't parse serialized Example.")
	}
	to.values = v
	return nil
}

// each calls body for the examples, on several cores if there is much to copy. It leaves out the rest once nobody waits for them.
func (b *batch) each(bytes int, body func(e int)) {
	n := len(b.serialized)
	if n == 0 {
		return
	}
	b.run.Parallel(n, max(1, int(int64(portion)*int64(n)/int64(bytes+1))), func(lo, hi int) {
		for e := lo; e < hi && (e%looksEach != 0 || b.run.ended() == nil); e++ {
			body(e)
		}
	})
}

// pad makes the tensor of a varying-length dense feature, padded with its default value.
func (b *batch) pad(i int) error {
	d, places := &b.Dense[i], b.places[i]
	longest := 0
	for _, p := range places {
		longest = max(longest, p.n)
	}
	shape := append(tensor.Shape{int64(len(places)), int64(longest / b.stride[i])}, d.Shape[1:]...)
	t, err := tensor.New(b.run.Pool, d.DType, shape)
	if err != nil {
		return err
	}
	b.result.Dense[i] = t
	to, padding := columnOf(t), columnOf(b.defaults[i])
	b.each(t.Len()*8, func(e int) {
		places[e].values.put(to, e*longest, len(b.serialized[e]))
		for at := e*longest + places[e].n; at < (e+1)*longest; at++ {
			copyColumn(to, at, padding)
		}
	})
	return nil
}

// copyColumn copies all of src to dst, starting at element at.
func copyColumn(dst column, at int, src column) {
	switch {
	case dst.floats != nil:
		copy(dst.floats[4*at:], src.floats)
	case dst.ints != nil:
		copy(dst.ints[at:], src.ints)
	default:
		copy(dst.texts[at:], src.texts)
	}
}

// gather makes one tensor of the values of all examples; most is the largest number of values in an example.
func (b *batch) gather(dtype tensor.DType, places []place) (t *tensor.Tensor, most int, err error) {
	total := 0
	for e := range places {
		places[e].at = total
		total += places[e].n
		most = max(most, places[e].n)
	}
	if t, err = tensor.New(b.run.Pool, dtype, tensor.Shape{int64(total)}); err != nil {
		return nil, 0, err
	}
	to := columnOf(t)
	b.each(total*8, func(e int) { places[e].values.put(to, places[e].at, len(b.serialized[e])) })
	return t, most, nil
}

func (b *batch) sparse(i int) error {
	places := b.varyingSparse(i)
	t, most, err := b.gather(b.Sparse[i].DType, places)
	if err != nil {
		return err
	}
	r := b.result
	r.Values[i] = t
	if r.Indices[i], err = tensor.New(b.run.Pool, tensor.Int64, tensor.Shape{int64(t.Len()), 2}); err != nil {
		return err
	}
	at := tensor.Of[int64](r.Indices[i])
	b.each(t.Len()*16, func(e int) {
		to := at[2*places[e].at:]
		for j := range places[e].n {
			to[2*j], to[2*j+1] = int64(e), int64(j)
		}
	})
	r.Shapes[i], err = tensor.FromSlice(tensor.Int64, tensor.Shape{2}, []int64{int64(len(places)), int64(most)})
	return err
}

func (b *batch) ragged(i int) error {
	places := b.varyingRagged(i)
	t, _, err := b.gather(b.Ragged[i].DType, places)
	if err != nil {
		return err
	}
	r := b.result
	r.RaggedValues[i] = t
	ends := make([]int, len(places))
	for e, p := range places {
		ends[e] = p.at + p.n
	}
	r.Splits[i], err = splits(b.run.Pool, b.Ragged[i].Splits, ends)
	return err
}

// splits returns the row splits of rows that end at ends.
func splits(pool *tensor.Pool, dtype tensor.DType, ends []int) (*tensor.Tensor, error) {
	t, err := tensor.New(pool, dtype, tensor.Shape{int64(len(ends) + 1)})
	if err != nil {
		return nil, err
	}
	if dtype == tensor.Int32 {
		to := tensor.Of[int32](t)
		to[0] = 0
		for i, end := range ends {
			to[i+1] = int32(end)
		}
		return t, nil
	}
	to := tensor.Of[int64](t)
	to[0] = 0
	for i, end := range ends {
		to[i+1] = int64(end)
	}
	return t, nil
}
