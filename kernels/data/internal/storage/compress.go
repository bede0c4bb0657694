package storage

import (
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	"github.com/klauspost/compress/snappy"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/internal/protofield"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// compressed is an element as one block of Snappy, held by a variant scalar. It is immutable. It travels as TensorFlow's CompressedElement.
type compressed struct {
	block      []byte
	components []compressedComponent
}

// compressedComponent is a tensor of the element: the sizes in bytes of each string, or of the whole tensor.
type compressedComponent struct {
	dtype tensor.DType
	shape tensor.Shape
	sizes []int64
}

func (m *compressedComponent) size() int64 {
	n := int64(0)
	for _, s := range m.sizes {
		n += s
	}
	return n
}

// compressedName is the name under which compressed elements travel.
const compressedName = "tensorflow.data.CompressedElement"

// The numbers of the fields of CompressedElement and CompressedComponentMetadata.
const (
	compressedData       protowire.Number = 1
	compressedComponents protowire.Number = 2
	compressedVersion    protowire.Number = 3
	componentType        protowire.Number = 1
	componentShape       protowire.Number = 2
	componentSizes       protowire.Number = 4
)

// Portable returns the element in TensorFlow's form.
func (c *compressed) Portable() tensor.VariantData {
	b := protowire.AppendBytes(protowire.AppendTag(nil, compressedData, protowire.BytesType), c.block)
	for _, m := range c.components {
		one := protowire.AppendVarint(protowire.AppendTag(nil, componentType, protowire.VarintType), uint64(m.dtype.Proto()))
		shape, err := proto.Marshal(m.shape.Proto())
		if err != nil {
			shape = nil // every shape is encoded as a message
		}
		one = protowire.AppendBytes(protowire.AppendTag(one, componentShape, protowire.BytesType), shape)
		var sizes []byte
		for _, n := range m.sizes {
			sizes = protowire.AppendVarint(sizes, uint64(n))
		}
		one = protowire.AppendBytes(protowire.AppendTag(one, componentSizes, protowire.BytesType), sizes)
		b = protowire.AppendBytes(protowire.AppendTag(b, compressedComponents, protowire.BytesType), one)
	}
	return tensor.VariantData{Type: compressedName, Metadata: b}
}

// readCompressed reads an element that came from another process.
func readCompressed(v tensor.VariantData) (any, error) {
	c := &compressed{}
	err := c.read(v.Metadata)
	if err != nil && status.CodeOf(err) == status.Unknown {
		err = status.Errorf(status.DataLoss, "The message of a compressed element cannot be read: %v", err)
	}
	return c, err
}

// Register installs the function that reads compressed elements from other processes. It must be called once per process.
func Register() { tensor.RegisterVariant(compressedName, readCompressed) }

func (c *compressed) read(b []byte) error {
	for f, err := range protofield.All(b) {
		if err != nil {
			return err
		}
		switch f.Number {
		case compressedData:
			c.block = append([]byte(nil), f.Bytes...)
		case compressedComponents:
			m, err := readComponent(f.Bytes)
			if err != nil {
				return err
			}
			c.components = append(c.components, m)
		case compressedVersion:
			if f.Varint != 0 {
				return status.Internalf("Unsupported compressed element version: %d", f.Varint)
			}
		}
	}
	return nil
}

func readComponent(b []byte) (m compressedComponent, err error) {
	for f, err := range protofield.All(b) {
		if err != nil {
			return m, err
		}
		switch f.Number {
		case componentType:
			m.dtype = tensor.DType(f.Varint)
		case componentShape:
			p := &shapepb.TensorShapeProto{}
			if err := tensor.Unmarshal(f.Bytes, p); err != nil {
				return m, err
			}
			m.shape, _ = tensor.ShapeFromProto(p)
		case componentSizes:
			for v, err := range f.Varints() {
				if err != nil {
					return m, err
				}
				m.sizes = append(m.sizes, int64(v))
			}
		}
	}
	return m, nil
}

// compressElement compresses its inputs into a variant.
func compressElement(ctx *kernels.Context) error {
	c := &compressed{}
	size := plainSize(ctx)
	most := snappy.MaxEncodedLen(size)
	if most < 0 {
		return tooLargeToPack(size)
	}
	memory := ctx.Meter()
	defer memory.Done()
	if err := memory.Take(size + most); err != nil {
		return err
	}
	plain := make([]byte, 0, size)
	for i := range ctx.NumInputs() {
		t := ctx.Input(i)
		m := compressedComponent{dtype: t.DType(), shape: t.Shape().Clone()}
		switch {
		case t.DType() == tensor.String:
			for _, s := range t.Strings() {
				plain = append(plain, s...)
				m.sizes = append(m.sizes, int64(len(s)))
			}
		case plainBytes(t.DType()):
			plain = append(plain, t.Data()...)
			m.sizes = []int64{int64(len(t.Data()))}
		default:
			size := len(plain)
			var err error
			if plain, err = t.AppendMessage(plain, ctx.Ended); err != nil {
				return err
			}
			m.sizes = []int64{int64(len(plain) - size)}
		}
		c.components = append(c.components, m)
	}
	if snappy.MaxEncodedLen(len(plain)) < 0 {
		return tooLargeToPack(len(plain))
	}
	c.block = snappy.Encode(nil, plain)
	ctx.SetOutput(0, tensor.FromVariants(nil, c))
	return nil
}

// plainSize returns the bytes of the inputs, as far as they are known before they are written: strings may share theirs, so that a small tensor
// becomes a large one.
func plainSize(ctx *kernels.Context) (size int) {
	for i := range ctx.NumInputs() {
		switch t := ctx.Input(i); {
		case t.DType() == tensor.String:
			for _, s := range t.Strings() {
				size += len(s)
			}
		case plainBytes(t.DType()):
			size += len(t.Data())
		}
	}
	return size
}

func tooLargeToPack(size int) error {
	return status.Errorf(status.OutOfRange, "Encountered dataset element of size %d, exceeding the 4GB Snappy limit.", size)
}

// newUncompressElement returns the kernel whose outputs are the tensors of a compressed element.
func newUncompressElement(c *kernels.Construction) (any, error) {
	s := dataset.SettingsOf(c)
	types := s.Spec().Types
	return kernels.Func(func(ctx *kernels.Context) error {
		t := ctx.Input(0)
		if t.Rank() != 0 {
			return status.InvalidArgumentf("UncompressElement requires its input to be a scalar, but encountered an input with %d dimensions.", t.Rank())
		}
		if t.DType() != tensor.Variant {
			return status.InvalidArgumentf("UncompressElement requires its input to be a variant, but encountered an input with dtype %v", t.DType())
		}
		c, ok := t.Variants()[0].(*compressed)
		if !ok {
			return status.InvalidArgumentf("Input does not contain a compressed element. Instead got tensor %T", t.Variants()[0])
		}
		e, err := c.element(ctx.Device.Pool())
		if err != nil {
			return err
		}
		if len(e) != len(types) {
			e.Release()
			return status.Errorf(status.FailedPrecondition, "Expected %d outputs from uncompress, but got %d", len(types), len(e))
		}
		for i, t := range e {
			if t.DType() != types[i] {
				e.Release()
				return status.Errorf(status.FailedPrecondition, "Expected a tensor of type %v but got a tensor of type %v", types[i], e[i].DType())
			}
		}
		for i, t := range e {
			ctx.SetOutput(i, t)
		}
		return nil
	}), s.Err()
}

// element creates the tensors. The sizes are not trusted.
func (c *compressed) element(pool *tensor.Pool) (dataset.Element, error) {
	total := int64(0)
	for _, m := range c.components {
		for _, n := range m.sizes {
			if n < 0 || n > maxPacked {
				return nil, status.Internalf("A compressed element has a size of %d bytes", n)
			}
			if total += n; total > maxPacked {
				return nil, status.Internalf("A compressed element has more than %d bytes", int64(maxPacked))
			}
		}
	}
	plain, err := unpack(c.block, total)
	if err != nil {
		return nil, err
	}
	var e dataset.Element
	for _, m := range c.components {
		n := m.size()
		t, err := m.tensor(pool, plain[:n])
		if err != nil {
			e.Release()
			return nil, err
		}
		e = append(e, t)
		plain = plain[n:]
	}
	return e, nil
}

func (m *compressedComponent) tensor(pool *tensor.Pool, b []byte) (*tensor.Tensor, error) {
	switch {
	case !m.dtype.Valid():
		return nil, status.Internalf("A compressed element has a component of type %v", m.dtype)
	case m.dtype == tensor.String:
		if n, err := m.shape.NumElements(); err != nil || n != int64(len(m.sizes)) {
			return nil, status.Internalf("A compressed element has %d strings for the shape %v", len(m.sizes), m.shape)
		}
		list := make([]string, len(m.sizes))
		for i, n := range m.sizes {
			list[i], b = string(b[:n]), b[n:]
		}
		return tensor.FromStrings(m.shape, list)
	case plainBytes(m.dtype):
		return tensorOfBytes(pool, m.dtype, m.shape, b)
	}
	p := &tensorpb.TensorProto{}
	if err := tensor.Unmarshal(b, p); err != nil {
		return nil, status.Internalf("Could not parse TensorProto")
	}
	return tensor.FromTensorProto(p, pool)
}
