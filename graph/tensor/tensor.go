// Package tensor implements Troupe's tensors: element types, shapes, pooled and reference-counted memory, and encoding as TensorFlow's
// protobuf messages.
//
// A *Tensor is immutable as soon as it is shared. The code that makes a tensor owns its one reference and passes it on or releases it. A
// kernel that holds the only reference to a tensor and to its buffer may write its result in place.
package tensor

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/troupe-run/troupe/graph/status"
)

const inlineRank = 4

// Tensor is an n-dimensional array of one element type. Fixed-size elements are stored row-major and little-endian, in Data or at Address
// in the memory of a device. Strings, resource handles and variants are Go values.
type Tensor struct {
	refs    atomic.Int32
	dtype   DType
	shape   Shape
	n       int
	data    []byte
	addr    uint64 // of the elements in device memory, else 0
	elems   any    // []string, []Handle or []any
	buf     *Buffer
	shared  atomic.Bool // another tensor has the same elems
	idle    bool        // in headers; refs is 1 then, so that an owner that is alone changes nothing atomically, which costs as much as a small op
	counted *Pool       // whose quotas count the tensor itself, if any
	dims    [inlineRank]int64
	inline  [16]byte // data of small tensors that need no buffer
}

var headers = sync.Pool{New: func() any {
	t := &Tensor{idle: true}
	t.refs.Store(1)
	return t
}}

func header(dtype DType, shape Shape, n int) *Tensor {
	t := headers.Get().(*Tensor)
	t.idle, t.dtype, t.n = false, dtype, n
	t.shape = append(t.dims[:0], shape...)
	return t
}

// New allocates a tensor from pool. Fixed-size elements are undefined; Go-valued ones are zero values (empty strings, nil variants). The
// shape is copied. New fails for an invalid shape or dtype, and with RESOURCE_EXHAUSTED if there is not enough memory.
func New(pool *Pool, dtype DType, shape Shape) (*Tensor, error) {
	n, err := shape.NumElements()
	if err != nil {
		return nil, err
	}
	if err := pool.Admits(); err != nil {
		return nil, oom(dtype, shape, err)
	}
	size := int64(dtype.Size())
	if size == 0 {
		return newElems(pool, dtype, shape, n)
	}
	if n > (1<<46)/size {
		return nil, oom(dtype, shape, status.Errorf(status.ResourceExhausted, "no memory has room for %d elements", n))
	}
	bytes := int(n * size)
	t := header(dtype, shape, int(n))
	if bytes <= len(t.inline) {
		t.data = t.inline[:bytes:bytes]
	} else {
		buf, err := pool.Get(bytes)
		if err != nil {
			t.Release()
			return nil, oom(dtype, shape, err)
		}
		t.buf, t.data = buf, buf.data
	}
	return t.countNew(pool)
}

// countNew counts a new tensor, and releases it if it cannot be counted.
func (t *Tensor) countNew(pool *Pool) (*Tensor, error) {
	if err := t.count(pool); err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}

// count counts the tensor in the pool's quotas.
func (t *Tensor) count(pool *Pool) error {
	if len(pool.counts) == 0 {
		return nil
	}
	if err := pool.countHeader(); err != nil {
		return oom(t.dtype, t.shape, err)
	}
	t.counted = pool
	return nil
}

// Counted reports whether quotas count the tensor itself.
func (t *Tensor) Counted() bool { return t.counted != nil }

// CountIn counts the tensor itself, whatever its size, in a pool's quotas until its last release, unless it is shared or counted already. It
// is for tensors that were made without a pool, once it is clear where they go: many of the smallest ones take much memory, too. It
// fails with RESOURCE_EXHAUSTED as New does. The caller must hold the only reference.
func (t *Tensor) CountIn(pool *Pool) error {
	if t.counted != nil || t.refs.Load() != 1 {
		return nil
	}
	if err := pool.Admits(); err != nil {
		return oom(t.dtype, t.shape, err)
	}
	return t.count(pool)
}

func oom(dtype DType, shape Shape, why error) error {
	return status.Errorf(status.ResourceExhausted, "OOM when allocating tensor with shape%v and type %v: %s", shape, dtype, status.From(why).Message)
}

// countFrom is the number of bytes from which Go-valued elements count in their pool; fewer are negligible, like the tensor's header.
const countFrom = 1 << 10

// elemSize returns the size of a Go-valued element in bytes, without what it refers to, or 0 for other types.
func elemSize(dtype DType) int64 {
	switch dtype {
	case String:
		return int64(unsafe.Sizeof(""))
	case Resource:
		return int64(unsafe.Sizeof(Handle{}))
	case Variant:
		return int64(unsafe.Sizeof(any(nil)))
	}
	return 0
}

func newElems(pool *Pool, dtype DType, shape Shape, n int64) (*Tensor, error) {
	each := elemSize(dtype)
	if each == 0 {
		return nil, status.InvalidArgumentf("No tensor can have type %v", dtype)
	}
	if n > (1<<46)/each {
		return nil, oom(dtype, shape, status.Errorf(status.ResourceExhausted, "no memory has room for %d elements", n))
	}
	var buf *Buffer
	if n*each >= countFrom {
		var err error
		if buf, err = counting(pool, n*each); err != nil {
			return nil, oom(dtype, shape, err)
		}
	}
	t := header(dtype, shape, int(n))
	switch dtype {
	case String:
		t.elems = make([]string, n)
	case Resource:
		t.elems = make([]Handle, n)
	default:
		list := make([]any, n)
		if t.elems = list; buf == nil {
			buf = WrapBytes(nil, nil)
		}
		buf.free = func() { eachCounted(list, Counted.Release) }
	}
	t.buf = buf
	return t.countNew(pool)
}

// CountStrings counts the contents of a string tensor, which its maker allocated, in a pool until the tensor's last release, unless they
// are already counted. It fails with RESOURCE_EXHAUSTED as New does. For other types it does nothing.
func (t *Tensor) CountStrings(pool *Pool) error {
	list, is := t.elems.([]string)
	if !is || t.buf != nil && t.buf.counted.Load() || t.buf == nil && t.refs.Load() != 1 {
		return nil
	}
	var n int64
	for _, s := range list {
		n += int64(len(s))
	}
	return t.countStrings(pool, n)
}

// countStrings is CountStrings for strings of n bytes in total, which need not exist yet.
func (t *Tensor) countStrings(pool *Pool, n int64) (err error) {
	switch b := t.buf; {
	case b == nil && n < countFrom:
		return nil
	case b == nil:
		if b, err = counting(pool, n+int64(t.n)*elemSize(String)); err == nil {
			b.counted.Store(true)
			t.buf = b
		}
	case b.pool != nil && b.counted.CompareAndSwap(false, true):
		if err = b.reserve(n); err != nil {
			b.counted.Store(false)
		}
	}
	if err != nil {
		return oom(String, t.shape, err)
	}
	return nil
}

// Counted is implemented by elements of variant tensors that hold their own memory, such as lists of tensors. A variant tensor owns a
// reference to each of its elements.
type Counted interface {
	Retain()
	Release()
}

// RetainVariants adds a reference to each element that is Counted. Code that copies elements from one variant tensor to another must call
// it.
func RetainVariants(elems []any) { eachCounted(elems, Counted.Retain) }

func eachCounted(elems []any, f func(Counted)) {
	for _, e := range elems {
		if c, ok := e.(Counted); ok {
			f(c)
		}
	}
}

// Zeros is like New, with all elements zero.
func Zeros(pool *Pool, dtype DType, shape Shape) (*Tensor, error) {
	t, err := New(pool, dtype, shape)
	if err == nil {
		Clear(t.data)
	}
	return t, err
}

// FromBuffer returns a tensor over a buffer and takes over the caller's reference to it. The buffer must hold exactly the shape's
// elements.
func FromBuffer(dtype DType, shape Shape, buf *Buffer) (*Tensor, error) {
	n, err := shape.NumElements()
	if err != nil {
		return nil, err
	}
	size := int64(dtype.Size())
	if size == 0 || n > int64(len(buf.data)) || n*size != int64(len(buf.data)) {
		return nil, wrongSize(len(buf.data), dtype, shape)
	}
	t := header(dtype, shape, int(n))
	t.buf, t.data = buf, buf.data
	return t, nil
}

func wrongSize(size int, dtype DType, shape Shape) error {
	return status.InvalidArgumentf("A buffer of %d bytes cannot hold a tensor of type %v and shape %v", size, dtype, shape)
}

// DType returns the type of the elements.
func (t *Tensor) DType() DType { return t.dtype }

// Shape returns the tensor's shape. The caller must not change it, nor keep it beyond its reference.
func (t *Tensor) Shape() Shape { return t.shape }

// Rank returns the number of dimensions.
func (t *Tensor) Rank() int { return len(t.shape) }

// Dim returns the size of dimension i.
func (t *Tensor) Dim(i int) int { return int(t.shape[i]) }

// Len returns the number of elements.
func (t *Tensor) Len() int { return t.n }

// Data returns the host memory of fixed-size elements, or nil for Go-valued ones. It panics for a tensor in device memory, since reading
// that on the host is a bug.
func (t *Tensor) Data() []byte {
	if t.addr != 0 {
		panic("tensor: the memory of a device was taken for the host's")
	}
	return t.data
}

// DataSize returns the size in bytes of fixed-size elements, on the host or on a device, or 0 for Go-valued ones.
func (t *Tensor) DataSize() int {
	if t.addr != 0 {
		return t.n * t.dtype.Size()
	}
	return len(t.data)
}

// ByteSize returns the size in bytes of the elements' memory; for strings, the sum of their lengths.
func (t *Tensor) ByteSize() int {
	if s, ok := t.elems.([]string); ok {
		n := 0
		for _, e := range s {
			n += len(e)
		}
		return n
	}
	return t.DataSize()
}

// Retain adds a reference and returns t.
func (t *Tensor) Retain() *Tensor {
	t.refs.Add(1)
	return t
}

// RetainN adds n references.
func (t *Tensor) RetainN(n int) { t.refs.Add(int32(n)) }

// Release drops a reference. After the last one, the tensor must not be touched.
func (t *Tensor) Release() {
	if t.refs.Load() != 1 {
		n := t.refs.Add(-1)
		if n > 0 {
			return
		}
		if n < 0 {
			panic(releasedTooOften)
		}
		t.refs.Store(1)
	}
	if t.idle {
		panic(releasedTooOften)
	}
	if t.buf != nil {
		t.buf.Release()
		t.buf = nil
	}
	t.data, t.elems, t.shape, t.addr = nil, nil, nil, 0
	if t.shared.Load() {
		t.shared.Store(false)
	}
	if t.counted != nil {
		t.counted.uncountHeader()
		t.counted = nil
	}
	t.idle = true
	headers.Put(t)
}

// Exclusive reports whether the caller, which holds a reference, is the only one with access to the tensor's memory, and may therefore
// write to it.
func (t *Tensor) Exclusive() bool {
	return t.refs.Load() == 1 && (t.buf == nil || t.buf.Exclusive()) && !t.shared.Load()
}

// Reshaped returns a new tensor with the same elements in another shape with the same number of elements. The caller owns its one
// reference. Memory is shared, except for the smallest tensors.
func (t *Tensor) Reshaped(shape Shape) *Tensor { return t.alias(t.dtype, shape, t.n) }

// Bitcast is like Reshaped, with another element type. The number of bytes must be equal.
func (t *Tensor) Bitcast(dtype DType, shape Shape) *Tensor {
	return t.alias(dtype, shape, shape.Elements())
}

func (t *Tensor) alias(dtype DType, shape Shape, n int) *Tensor {
	r := header(dtype, shape, n)
	r.countLike(t)
	if t.elems != nil {
		r.elems = t.elems
		t.shared.Store(true)
		r.shared.Store(true)
	}
	if t.buf != nil {
		t.buf.Retain()
		r.buf, r.data, r.addr = t.buf, t.data, t.addr
	} else if t.data != nil {
		r.data = r.inline[:copy(r.inline[:], t.data)]
	}
	return r
}

// countLike counts a tensor where another one is counted. It cannot fail: limits are checked when the next tensor is made.
func (t *Tensor) countLike(o *Tensor) {
	if t.counted = o.counted; t.counted != nil {
		for _, q := range t.counted.counts {
			q.tensors.Add(1)
		}
	}
}

// Rows returns a tensor over rows from (inclusive) to to (exclusive) of dimension 0, sharing memory. The caller owns its reference. Its
// start is aligned for the element type, but perhaps not for vector loads.
func (t *Tensor) Rows(from, to int) *Tensor {
	per := 0
	if t.Dim(0) > 0 {
		per = t.n / t.Dim(0)
	}
	r := header(t.dtype, t.shape, (to-from)*per)
	r.countLike(t)
	r.shape[0] = int64(to - from)
	switch e := t.elems.(type) {
	case []string:
		r.elems = e[from*per : to*per]
	case []Handle:
		r.elems = e[from*per : to*per]
	case []any:
		r.elems = e[from*per : to*per]
	}
	if t.elems != nil {
		t.shared.Store(true)
		r.shared.Store(true)
	}
	size := t.dtype.Size()
	if t.addr != 0 {
		t.buf.Retain()
		r.buf, r.addr = t.buf, t.addr+uint64(from*per*size)
		return r
	}
	part := t.data[from*per*size : to*per*size]
	if t.buf != nil {
		t.buf.Retain()
		r.buf, r.data = t.buf, part
	} else if t.elems == nil {
		r.data = r.inline[:copy(r.inline[:], part)]
	}
	return r
}

// Clone returns a deep copy of a host tensor in memory from pool.
func (t *Tensor) Clone(pool *Pool) (*Tensor, error) {
	c, err := New(pool, t.dtype, t.shape)
	if err != nil {
		return nil, err
	}
	c.CopyElements(0, t, 0, t.n)
	return c, nil
}

// CopyElements copies n elements of src, starting at position from, to position at of t. Both have the same type and are on the host. The
// caller owns t, which had no values at these positions.
func (t *Tensor) CopyElements(at int, src *Tensor, from, n int) {
	switch e := src.elems.(type) {
	case []string:
		Copy(t.elems.([]string)[at:], e[from:][:n])
	case []Handle:
		copy(t.elems.([]Handle)[at:], e[from:][:n])
	case []any:
		copy(t.elems.([]any)[at:], e[from:][:n])
		RetainVariants(e[from:][:n])
	default:
		size := t.dtype.Size()
		Copy(t.Data()[at*size:], src.Data()[from*size:][:n*size])
	}
}

// Elem is the constraint for Go types that elements are read as. Float16 and BFloat16 elements have their own types, so that a function
// for uint16 is never applied to them.
type Elem interface {
	~bool | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// Of returns the fixed-size elements as a slice of T, which must have the dtype's element size, without a copy. The slice is valid as long
// as the caller's reference. Like Data, it is for host memory only.
func Of[T Elem](t *Tensor) []T {
	var zero T
	if int(unsafe.Sizeof(zero)) != t.dtype.Size() {
		panic("tensor: elements of type " + t.dtype.String() + " viewed with another size")
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(t.Data()))), t.n)
}

// Strings returns the elements of a string tensor.
func (t *Tensor) Strings() []string { return t.elems.([]string) }

// Handles returns the elements of a resource tensor.
func (t *Tensor) Handles() []Handle { return t.elems.([]Handle) }

// Variants returns the elements of a variant tensor.
func (t *Tensor) Variants() []any { return t.elems.([]any) }

// Handle names a resource (a tensorflow.ResourceHandleProto): the device that holds it, its container and its
// name. Type is the resource's kind, such as Var.
type Handle struct {
	Device, Container, Name, Type string
	// DType and Shape are those of the variable that a handle refers to; KnownShape is false for unknown rank.
	DType      DType
	Shape      Shape
	KnownShape bool
	// TypeHash is by what TensorFlow checks the type of a resource that it holds itself; 0 for those of Troupe.
	TypeHash uint64
	// Local is the resource itself if handle and resource are in one process. It is not encoded.
	Local any
}

// Scalar returns a rank-0 tensor of a fixed-size dtype.
func Scalar[T Elem](dtype DType, v T) *Tensor {
	t := header(dtype, nil, 1)
	t.data = t.inline[:unsafe.Sizeof(v)]
	Of[T](t)[0] = v
	return t
}

// FromSlice returns a tensor with a copy of the values.
func FromSlice[T Elem](dtype DType, shape Shape, values []T) (*Tensor, error) {
	t, err := New(Host, dtype, shape)
	if err != nil {
		return nil, err
	}
	if t.n != len(values) {
		defer t.Release()
		return nil, status.InvalidArgumentf("%d values do not fill the shape %v", len(values), shape)
	}
	Copy(Of[T](t), values)
	return t, nil
}

// FromStrings returns a string tensor that keeps the slice.
func FromStrings(shape Shape, values []string) (*Tensor, error) {
	n, err := shape.NumElements()
	if err != nil || n != int64(len(values)) {
		return nil, status.InvalidArgumentf("%d strings do not fill the shape %v", len(values), shape)
	}
	t := header(String, shape, len(values))
	t.elems = values
	return t, nil
}

// FromVariants returns a variant tensor of as many values as the shape has elements, which it takes over.
func FromVariants(shape Shape, values ...any) *Tensor {
	if n, err := shape.NumElements(); err != nil || n != int64(len(values)) {
		panic("tensor: the number of variants is not that of the shape")
	}
	t := header(Variant, shape, len(values))
	t.elems = values
	t.buf = WrapBytes(nil, func() { eachCounted(values, Counted.Release) })
	return t
}

// FromHandle returns a scalar resource tensor.
func FromHandle(h Handle) *Tensor {
	t := header(Resource, nil, 1)
	t.elems = []Handle{h}
	return t
}
