package tensor

// Memory is where tensors can be allocated: a Pool for host memory, or the memory of a device that has its own.
type Memory interface {
	// New returns a tensor with undefined content, under the rules of the function New. Device memory rejects Go-valued elements with
	// INVALID_ARGUMENT.
	New(dtype DType, shape Shape) (*Tensor, error)
	// Holds reports whether t is in this memory. All host memory counts as one.
	Holds(t *Tensor) bool
}

// Home is the memory of a device, which the CPU cannot read. Its identity distinguishes tensors on one device from those on another.
type Home interface {
	// Free frees the memory of a buffer after its last release. It may be called on any goroutine and does not block.
	Free(b *Buffer)
}

// DeviceBuffer returns a buffer of size bytes of a device's memory, with one reference. addr is its address on the device, never 0.
func DeviceBuffer(home Home, addr uint64, size int) *Buffer {
	b := &Buffer{class: -1, home: home, addr: addr, size: size}
	b.refs.Store(1)
	return b
}

// Address returns the address of a device buffer, or 0 for a buffer in host memory.
func (b *Buffer) Address() uint64 { return b.addr }

// Size returns the size of the buffer in bytes, on the host or on a device.
func (b *Buffer) Size() int {
	if b.home != nil {
		return b.size
	}
	return len(b.data)
}

// FromDevice returns a tensor of fixed-size elements over the beginning of a device buffer, and takes over the caller's reference to it.
func FromDevice(dtype DType, shape Shape, buf *Buffer) (*Tensor, error) {
	n, err := shape.NumElements()
	if err != nil {
		return nil, err
	}
	size := int64(dtype.Size())
	if size == 0 || n > int64(buf.size)/size {
		return nil, wrongSize(buf.size, dtype, shape)
	}
	t := header(dtype, shape, int(n))
	t.buf, t.addr = buf, buf.addr
	return t, nil
}

// Home returns the device memory that holds the tensor, or nil for host memory.
func (t *Tensor) Home() Home {
	if t.addr == 0 {
		return nil
	}
	return t.buf.home
}

// OnHost reports whether the elements are in host memory.
func (t *Tensor) OnHost() bool { return t.addr == 0 }

// Address returns the address of the elements on their device, or 0 for host memory.
func (t *Tensor) Address() uint64 { return t.addr }

// New returns a tensor in the pool's memory.
func (p *Pool) New(dtype DType, shape Shape) (*Tensor, error) { return New(p, dtype, shape) }

// Holds reports whether t is in host memory.
func (p *Pool) Holds(t *Tensor) bool { return t.addr == 0 }
