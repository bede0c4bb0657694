package graph

import (
	"math"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// AttrReader reads attributes of a node for a caller that checks for errors once, after the last read. It keeps the first error. Its getters
// are those of Attrs, except that they return a zero value if they fail.
type AttrReader struct {
	attrs Attrs
	err   error
}

// Reader returns a reader of the attributes.
func (a Attrs) Reader() AttrReader { return AttrReader{attrs: a} }

// Err returns the first error.
func (r *AttrReader) Err() error { return r.err }

// Fail records an error, unless there was one before or it is nil.
func (r *AttrReader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Failf is Fail with an INVALID_ARGUMENT error. It formats the message only if it is recorded.
func (r *AttrReader) Failf(format string, args ...any) {
	if r.err == nil {
		r.err = status.InvalidArgumentf(format, args...)
	}
}

func read[T any](r *AttrReader, name string, get func(Attrs, string) (T, error)) T {
	v, err := get(r.attrs, name)
	r.Fail(err)
	return v
}

// Has reports whether the node has an attribute.
func (r *AttrReader) Has(name string) bool { _, ok := r.attrs[name]; return ok }

// Str returns a string attribute.
func (r *AttrReader) Str(name string) string { return read(r, name, Attrs.Str) }

// Int returns an int attribute.
func (r *AttrReader) Int(name string) int64 { return read(r, name, Attrs.Int) }

// Int32 returns an int attribute that TensorFlow reads as an int32.
func (r *AttrReader) Int32(name string) int32 {
	v := r.Int(name)
	if v < math.MinInt32 || v > math.MaxInt32 {
		r.Failf("Attr %s has value %d out of range for an int32", name, v)
		return 0
	}
	return int32(v)
}

// Float returns a float attribute.
func (r *AttrReader) Float(name string) float32 { return read(r, name, Attrs.Float) }

// Bool returns a bool attribute.
func (r *AttrReader) Bool(name string) bool { return read(r, name, Attrs.Bool) }

// Type returns a type attribute.
func (r *AttrReader) Type(name string) tensor.DType { return read(r, name, Attrs.Type) }

// List returns a list attribute in its original message.
func (r *AttrReader) List(name string) *attrpb.AttrValue_ListValue { return read(r, name, Attrs.List) }

// TypeList returns a list(type) attribute.
func (r *AttrReader) TypeList(name string) []tensor.DType { return read(r, name, Attrs.TypeList) }

// IntList returns a list(int) attribute.
func (r *AttrReader) IntList(name string) []int64 { return read(r, name, Attrs.IntList) }

// FloatList returns a list(float) attribute.
func (r *AttrReader) FloatList(name string) []float32 { return read(r, name, Attrs.FloatList) }

// StrList returns a list(string) attribute.
func (r *AttrReader) StrList(name string) []string { return read(r, name, Attrs.StrList) }

// Func returns a function attribute.
func (r *AttrReader) Func(name string) *FunctionRef { return read(r, name, Attrs.Func) }
