package dataset

import (
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// State is an iterator's saved state: tensors by key. As an element of a variant tensor it has TensorFlow's form, an IteratorStateVariant
// with the keys as its metadata. It is immutable.
type State struct {
	keys    []string
	tensors []*tensor.Tensor
	at      map[string]int
}

// stateName is the type name under which states travel, and keySeparator separates their keys.
const (
	stateName    = "tensorflow::Iterator"
	keySeparator = "@@"
)

// Portable returns the state in TensorFlow's form.
func (s *State) Portable() tensor.VariantData {
	return tensor.VariantData{Type: stateName, Metadata: []byte(strings.Join(s.keys, keySeparator)), Tensors: s.tensors}
}

// Retain adds a reference to each tensor.
func (s *State) Retain() {
	for _, t := range s.tensors {
		t.Retain()
	}
}

// Release drops a reference to each tensor.
func (s *State) Release() { kernels.ReleaseTensors(s.tensors) }

// readState reads a state that came from another process.
func readState(d tensor.VariantData) (any, error) {
	s := &State{tensors: d.Tensors}
	if len(d.Metadata) > 0 {
		s.keys = strings.Split(string(d.Metadata), keySeparator)
	}
	if len(s.keys) != len(s.tensors) {
		return nil, status.Errorf(status.DataLoss, "The state of an iterator has %d keys and %d tensors", len(s.keys), len(s.tensors))
	}
	s.index()
	return s, nil
}

func (s *State) index() {
	s.at = make(map[string]int, len(s.keys))
	for i, k := range s.keys {
		s.at[k] = i
	}
}

// Register installs the functions that read datasets and iterator states from other processes, and the ops that create a dataset from their
// inputs. It must be called once per process.
func Register(ops []string) {
	tensor.RegisterVariant(stateName, readState)
	tensor.RegisterVariant(datasetName, readDataset)
	for _, op := range ops {
		datasetOps[op] = true
	}
}

// Writer writes a part of a state. The first error is kept.
type Writer struct {
	prefix string
	*stateWriter
}

type stateWriter struct {
	state State
	err   error
}

// In returns the writer for an iterator within this one.
func (w *Writer) In(name string) *Writer { return &Writer{w.prefix + name + "/", w.stateWriter} }

// InAt is In for an element of a list.
func (w *Writer) InAt(name string, i int) *Writer { return w.In(name + "[" + strconv.Itoa(i) + "]") }

// Fail records an error.
func (w *Writer) Fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// Tensor writes a tensor, which it retains.
func (w *Writer) Tensor(key string, t *tensor.Tensor) {
	w.state.keys = append(w.state.keys, w.prefix+key)
	w.state.tensors = append(w.state.tensors, t.Retain())
}

// Int writes a number.
func (w *Writer) Int(key string, v int64) {
	t := tensor.Scalar(tensor.Int64, v)
	w.Tensor(key, t)
	t.Release()
}

// Bool writes a boolean.
func (w *Writer) Bool(key string, v bool) {
	n := int64(0)
	if v {
		n = 1
	}
	w.Int(key, n)
}

// Str writes a string.
func (w *Writer) Str(key, v string) {
	t := tensor.FromScalar(v)
	w.Tensor(key, t)
	t.Release()
}

// Element writes an element.
func (w *Writer) Element(key string, e Element) {
	w.Int(key+"/size", int64(len(e)))
	for i, t := range e {
		w.Tensor(key+"/"+strconv.Itoa(i), t)
	}
}

// Elements writes a list of elements.
func (w *Writer) Elements(key string, list []Element) {
	w.Int(key+"/length", int64(len(list)))
	for i, e := range list {
		w.Element(key+"/"+strconv.Itoa(i), e)
	}
}

// Error writes an error, which may be nil.
func (w *Writer) Error(key string, err error) {
	w.Int(key+"/code", int64(status.CodeOf(err)))
	if err != nil {
		w.Str(key+"/message", err.Error())
	}
}

// Reader reads a part of a state. The first error is kept; values read after it are zero.
type Reader struct {
	prefix string
	*stateReader
}

type stateReader struct {
	state *State
	Err   error
}

// In returns the reader for an iterator within this one.
func (r *Reader) In(name string) *Reader { return &Reader{r.prefix + name + "/", r.stateReader} }

// InAt is In for an element of a list.
func (r *Reader) InAt(name string, i int) *Reader { return r.In(name + "[" + strconv.Itoa(i) + "]") }

// Fail records an error.
func (r *Reader) Fail(err error) {
	if r.Err == nil {
		r.Err = err
	}
}

// Has reports whether the key has a value.
func (r *Reader) Has(key string) bool {
	_, ok := r.state.at[r.prefix+key]
	return ok
}

// Tensor reads a tensor, with a reference for the caller; nil after an error.
func (r *Reader) Tensor(key string) *tensor.Tensor {
	i, ok := r.state.at[r.prefix+key]
	if !ok {
		r.Fail(status.Errorf(status.NotFound, "The saved state of the iterator has no %q: it is that of another dataset", r.prefix+key))
	}
	if r.Err != nil {
		return nil
	}
	return r.state.tensors[i].Retain()
}

// value reads a scalar of a type.
func (r *Reader) value(key string, dtype tensor.DType) *tensor.Tensor {
	t := r.Tensor(key)
	if t != nil && (t.DType() != dtype || t.Rank() != 0) {
		r.Fail(status.Errorf(status.DataLoss, "%q in the saved state of the iterator is %v%v, not a scalar of %v", r.prefix+key, t.DType(), t.Shape(), dtype))
		t.Release()
		return nil
	}
	return t
}

// Int reads a number.
func (r *Reader) Int(key string) int64 {
	t := r.value(key, tensor.Int64)
	if t == nil {
		return 0
	}
	defer t.Release()
	return tensor.Of[int64](t)[0]
}

// Place reads a non-negative number: an iterator's position.
func (r *Reader) Place(key string) int64 {
	n := r.Int(key)
	if n < 0 {
		r.Fail(status.Errorf(status.DataLoss, "%q in the saved state of the iterator is %d", r.prefix+key, n))
		return 0
	}
	return n
}

// Count reads a number of items, each of which has at least one value.
func (r *Reader) Count(key string) int {
	n := r.Int(key)
	if n < 0 || n > int64(len(r.state.keys)) {
		r.Fail(status.Errorf(status.DataLoss, "%q in the saved state of the iterator is %d", r.prefix+key, n))
		return 0
	}
	return int(n)
}

// Bool reads a boolean.
func (r *Reader) Bool(key string) bool { return r.Int(key) != 0 }

// Str reads a string.
func (r *Reader) Str(key string) string {
	t := r.value(key, tensor.String)
	if t == nil {
		return ""
	}
	defer t.Release()
	return strings.Clone(t.Strings()[0])
}

// Element reads an element.
func (r *Reader) Element(key string) Element {
	e := make(Element, 0, r.Count(key+"/size"))
	for i := range cap(e) {
		t := r.Tensor(key + "/" + strconv.Itoa(i))
		if t == nil {
			e.Release()
			return nil
		}
		e = append(e, t)
	}
	return e
}

// Elements reads a list of elements.
func (r *Reader) Elements(key string) []Element {
	var list []Element
	for i := range r.Count(key + "/length") {
		list = append(list, r.Element(key+"/"+strconv.Itoa(i)))
	}
	return list
}

// Error reads an error, which may be nil.
func (r *Reader) Error(key string) error {
	if code := status.Code(r.Int(key + "/code")); code != status.OK {
		return status.New(code, r.Str(key+"/message"))
	}
	return nil
}

// Check records an error, if err is not nil.
func (r *Reader) Check(err error) {
	if err != nil {
		r.Fail(err)
	}
}

// Outcome is the result of requesting an element.
type Outcome struct {
	Element
	Err error
}

// SaveOutcomes writes a list of outcomes.
func SaveOutcomes(w *Writer, name string, list []Outcome) {
	w.Int(name, int64(len(list)))
	for i, o := range list {
		w := w.InAt(name, i)
		w.Element("element", o.Element)
		w.Error("error", o.Err)
	}
}

// RestoreOutcomes reads a list of outcomes.
func RestoreOutcomes(r *Reader, name string) []Outcome {
	var list []Outcome
	for i := range r.Count(name) {
		r := r.InAt(name, i)
		list = append(list, Outcome{r.Element("element"), r.Error("error")})
	}
	return list
}

// ErrEnded represents the end in a saved state.
var ErrEnded = status.New(status.OutOfRange, "End of sequence")

// SaveState returns the state of an iterator.
func SaveState(c *Call, it Iterator) (*State, error) {
	w := &Writer{stateWriter: &stateWriter{}}
	it.Save(c, w)
	if w.err != nil {
		w.state.Release()
		return nil, w.err
	}
	w.state.index()
	return &w.state, nil
}

// RestoreState moves a newly opened iterator to a saved position.
func RestoreState(c *Call, it Iterator, s *State) error {
	r := &Reader{stateReader: &stateReader{state: s}}
	it.Restore(c, r)
	return r.Err
}
