package pipeline

import (
	"reflect"
	"strconv"
	"strings"
	"unsafe"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// codec copies values of a Go type T into rows of tensors and back. It inspects the type once, when it is made.
type codec[T any] struct{ fields []field }

// field describes where a component of an element is in a T.
type field struct {
	name   string
	dtype  tensor.DType
	shape  tensor.Shape
	offset uintptr
	n      int  // values
	slice  bool // a slice, whose values are elsewhere
}

// newCodec finds the components of T. It returns INVALID_ARGUMENT if T has no components, or one without a fixed shape.
func newCodec[T any]() (*codec[T], error) {
	t := reflect.TypeFor[T]()
	c := &codec[T]{}
	if t.Kind() != reflect.Struct {
		f, err := fieldOf(t, "")
		if err != nil {
			return nil, status.InvalidArgumentf("%v cannot be an element of a queue: %v", t, err)
		}
		c.fields = []field{f}
		return c, nil
	}
	for i := range t.NumField() {
		sf := t.Field(i)
		if !sf.IsExported() {
			continue
		}
		f, err := fieldOf(sf.Type, sf.Tag.Get("shape"))
		if err != nil {
			return nil, status.InvalidArgumentf("%v cannot be an element of a queue: field %s: %v", t, sf.Name, err)
		}
		f.name, f.offset = sf.Name, sf.Offset
		c.fields = append(c.fields, f)
	}
	if len(c.fields) == 0 {
		return nil, status.InvalidArgumentf("%v cannot be an element of a queue: it has no exported field", t)
	}
	return c, nil
}

// fieldOf returns the component for a type: a scalar, an array of any number of dimensions, or a slice whose sizes are in a tag.
func fieldOf(t reflect.Type, tag string) (field, error) {
	f := field{n: 1}
	if t.Kind() == reflect.Slice {
		f.slice = true
		for part := range strings.SplitSeq(tag, ",") {
			d, err := strconv.ParseInt(strings.TrimSpace(part), 10, 64)
			if err != nil || d < 0 {
				return f, status.InvalidArgumentf("a slice needs its sizes in a tag, such as `shape:\"28,28\"`, not %q", tag)
			}
			f.shape = append(f.shape, d)
		}
		t = t.Elem()
	} else if tag != "" {
		return f, status.InvalidArgumentf("the tag shape:%q is for slices, and this is a %v", tag, t)
	}
	if !f.slice {
		for ; t.Kind() == reflect.Array; t = t.Elem() {
			f.shape = append(f.shape, int64(t.Len()))
		}
	}
	n, err := f.shape.NumElements()
	if err != nil {
		return f, err
	}
	f.n = int(n)
	if f.dtype = dtypeOf(t); f.dtype == tensor.Invalid {
		return f, status.InvalidArgumentf("%v is not an element type of tensors", t)
	}
	return f, nil
}

var kinds = map[reflect.Kind]tensor.DType{
	reflect.Bool: tensor.Bool, reflect.String: tensor.String,
	reflect.Int8: tensor.Int8, reflect.Int16: tensor.Int16, reflect.Int32: tensor.Int32, reflect.Int64: tensor.Int64,
	reflect.Uint8: tensor.Uint8, reflect.Uint16: tensor.Uint16, reflect.Uint32: tensor.Uint32, reflect.Uint64: tensor.Uint64,
	reflect.Float32: tensor.Float32, reflect.Float64: tensor.Float64,
	reflect.Complex64: tensor.Complex64, reflect.Complex128: tensor.Complex128,
}

func dtypeOf(t reflect.Type) tensor.DType { return kinds[t.Kind()] }

// make allocates tensors for n rows.
func (c *codec[T]) make(n int) ([]*tensor.Tensor, error) {
	out := make([]*tensor.Tensor, len(c.fields))
	for i, f := range c.fields {
		t, err := tensor.New(tensor.Host, f.dtype, append(tensor.Shape{int64(n)}, f.shape...))
		if err != nil {
			release(out[:i])
			return nil, err
		}
		out[i] = t
	}
	return out, nil
}

func release(tensors []*tensor.Tensor) {
	for _, t := range tensors {
		t.Release()
	}
}

// encode copies a value into row i of the tensors.
func (c *codec[T]) encode(to []*tensor.Tensor, i int, row *T) error {
	for k := range c.fields {
		f := &c.fields[k]
		at := unsafe.Add(unsafe.Pointer(row), f.offset)
		if f.slice {
			// All slice types have the layout of a byte slice. The length is in elements.
			s := *(*[]byte)(at)
			if len(s) != f.n {
				return status.InvalidArgumentf("Field %s has %d values, and its shape %v is of %d", f.name, len(s), f.shape, f.n)
			}
			at = unsafe.Pointer(unsafe.SliceData(s))
		}
		if f.n == 0 {
			continue
		}
		if f.dtype == tensor.String {
			copy(to[k].Strings()[i*f.n:], unsafe.Slice((*string)(at), f.n))
			continue
		}
		size := f.n * f.dtype.Size()
		copy(to[k].Data()[i*size:], unsafe.Slice((*byte)(at), size))
	}
	return nil
}

// decode copies row i of the tensors into a value. Its slices get their own memory.
func (c *codec[T]) decode(from []*tensor.Tensor, i int, row *T) {
	for k := range c.fields {
		f := &c.fields[k]
		at := unsafe.Add(unsafe.Pointer(row), f.offset)
		if f.dtype == tensor.String {
			values := from[k].Strings()[i*f.n:][:f.n]
			if f.slice {
				*(*[]string)(at) = append(make([]string, 0, f.n), values...)
			} else {
				copy(unsafe.Slice((*string)(at), f.n), values)
			}
			continue
		}
		size := f.n * f.dtype.Size()
		values := from[k].Data()[i*size:][:size]
		if f.slice {
			// Memory whose size is a multiple of the element size is aligned for the elements.
			own := append(make([]byte, 0, size), values...)
			*(*[]byte)(at) = unsafe.Slice(unsafe.SliceData(own), f.n)
		} else {
			copy(unsafe.Slice((*byte)(at), size), values)
		}
	}
}

// check returns an error unless the tensors received from a server are rows of T.
func (c *codec[T]) check(tensors []*tensor.Tensor) error {
	if len(tensors) != len(c.fields) {
		return status.Internalf("The queue returned %d components, not %d", len(tensors), len(c.fields))
	}
	for i, f := range c.fields {
		t := tensors[i]
		if t.DType() != f.dtype || t.Rank() != 1+len(f.shape) || !t.Shape()[1:].Equal(f.shape) || t.Dim(0) != tensors[0].Dim(0) {
			return status.Internalf("The queue returned a %v of shape %v for component %d, which is %v of shape %v", t.DType(), t.Shape(), i, f.dtype, f.shape)
		}
	}
	return nil
}
