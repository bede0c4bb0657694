package gpu

import (
	"errors"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// memory is a device's memory in one of its lives. A released tensor may still be in use by earlier work. The next user of its memory gives
// its work later, so on the compute stream it cannot interfere. Only work outside the compute stream checks the stamp of the last use.
type memory struct {
	life  *life
	limit int64
	grow  bool // regions are allocated as needed; otherwise one of the size of the limit

	mu      sync.Mutex
	arena   arena
	region  int64 // the size of the next region
	retired bool
}

var (
	_ tensor.Memory = (*memory)(nil)
	_ tensor.Home   = (*memory)(nil)
)

// firstRegion is the size of the first region under allow_growth. Each further one doubles.
const firstRegion = 2 << 20

// New makes a tensor in the device's memory. If there is no room, the error is RESOURCE_EXHAUSTED.
func (m *memory) New(dtype tensor.DType, shape tensor.Shape) (*tensor.Tensor, error) {
	t, _, err := m.make(dtype, shape)
	return t, err
}

// make is New that also returns the position of the last work that may use the memory.
func (m *memory) make(dtype tensor.DType, shape tensor.Shape) (*tensor.Tensor, uint64, error) {
	n, err := shape.NumElements()
	if err != nil {
		return nil, 0, err
	}
	size := int64(dtype.Size())
	if size == 0 {
		return nil, 0, status.InvalidArgumentf("A tensor of type %v cannot lie in the memory of %s", dtype, m.life.device.name)
	}
	if n > (1<<46)/size {
		return nil, 0, status.Errorf(status.ResourceExhausted, "OOM when allocating tensor with shape%v and type %v on %s", shape, dtype, m.life.device.name)
	}
	addr, stamp, err := m.allocate(n * size)
	if err != nil {
		if status.CodeOf(err) == status.ResourceExhausted {
			err = status.Errorf(status.ResourceExhausted, "OOM when allocating tensor with shape%v and type %v: %s", shape, dtype, err.Error())
		}
		return nil, 0, err
	}
	t, err := tensor.FromDevice(dtype, shape, tensor.DeviceBuffer(m, addr, int(n*size)))
	return t, stamp, err
}

// Holds reports whether t is in this memory, in this life.
func (m *memory) Holds(t *tensor.Tensor) bool { return t.Home() == tensor.Home(m) }

// Free frees a tensor's memory.
func (m *memory) Free(b *tensor.Buffer) {
	m.mu.Lock()
	m.arena.free(b.Address(), m.life.device.queue.given.Load())
	m.mu.Unlock()
}

func (m *memory) allocate(bytes int64) (addr, stamp uint64, err error) {
	if err := m.life.over(); err != nil {
		return 0, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	addr, stamp, ok := m.arena.allocate(bytes)
	for !ok {
		if err := m.extend(rounded(bytes)); err != nil {
			return 0, 0, err
		}
		addr, stamp, ok = m.arena.allocate(bytes)
	}
	return addr, stamp, nil
}

// extend allocates a region on the card with room for size bytes. If the card has less than wanted, it allocates what there is.
func (m *memory) extend(size int64) error {
	if m.retired {
		return m.life.over()
	}
	left := (m.limit - m.arena.bytes) &^ (grain - 1)
	want := left
	if m.grow {
		m.region = max(m.region, firstRegion)
		for m.region < size {
			m.region *= 2
		}
		want = min(m.region, left)
	}
	if want < size {
		return m.exhausted(size, nil)
	}
	for {
		addr, err := m.ask(want)
		if err == nil {
			m.arena.add(addr, want)
			if m.grow && want == m.region {
				m.region *= 2
			}
			return nil
		}
		var refused *Error
		if !errors.As(err, &refused) || !refused.OutOfMemory {
			return m.life.failed(err)
		}
		if want == size {
			return m.exhausted(size, err)
		}
		want = max(size, want/10*9&^(grain-1))
	}
}

// ask allocates memory on the card, on a thread bound to the context.
func (m *memory) ask(size int64) (addr uint64, err error) {
	err = m.life.bound(func(c Context) error {
		addr, err = c.Alloc(size)
		return err
	})
	return addr, err
}

// exhausted returns the error for a block of size bytes for which there is no room. refused is the card's error, if the card was asked.
func (m *memory) exhausted(size int64, refused error) error {
	card := ""
	if err := m.life.bound(func(c Context) error {
		free, total, err := c.MemoryInfo()
		if err == nil {
			card = sprintf("; the card has %d of its %d bytes left", free, total)
		}
		return err
	}); err != nil && refused == nil {
		refused = err
	}
	if refused != nil {
		card += "; " + refused.Error()
	}
	return status.Errorf(status.ResourceExhausted,
		"%d bytes cannot be had from %s: %d bytes are in use of a limit of %d, the largest free block has %d%s",
		size, m.life.device.name, m.arena.inUse, m.limit, m.arena.room(), card)
}

// trim returns unused regions to the card, and reports their total size.
func (m *memory) trim() (bytes int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.retired || !m.grow {
		return 0, nil
	}
	for r := m.arena.idle(m.life.done.Load()); r != nil; r = m.arena.idle(m.life.done.Load()) {
		bytes += r.size
		if err := m.life.bound(func(c Context) error { return c.Free(r.addr) }); err != nil {
			return bytes, m.life.failed(err)
		}
	}
	m.region = 0
	return bytes, nil
}

// retire ends the memory before its context ends, and frees all regions unless the life was lost. Later releases have no effect.
func (m *memory) retire() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.retired = true
	var errs []error
	if m.life.lost.Load() == nil {
		for _, r := range m.arena.regions {
			errs = append(errs, m.life.context.Free(r.addr)) // on the device's own thread
		}
	}
	return errors.Join(errs...)
}
