package gpu

import (
	"errors"
	"os"
	"sync"
	"unsafe"

	"github.com/troupe-run/troupe/graph/tensor"
)

// pinned is host memory that the card accesses directly, in one life of a device. It belongs to the process and outlives the card's
// context: results stay in it as long as they are used. It is bounded. A caller that gets none uses ordinary memory, whose copies are
// slower and block the device's thread.
type pinned struct {
	life  *life
	limit int64

	mu      sync.Mutex
	arena   arena
	chunks  map[*region][]byte
	retired bool
}

// firstChunk is the size of the first chunk of pinned memory. Each further chunk doubles the total.
const firstChunk = 1 << 20

func newPinned(l *life, limit int64) *pinned {
	return &pinned{life: l, limit: limit, chunks: map[*region][]byte{}}
}

// hostLimit returns the maximum pinned memory of the device.
func (d *core) hostLimit() int64 {
	limit := d.opts.HostLimit
	if limit == 0 {
		limit = 4 << 30
		if machine := d.opts.Host.Stats().Limit; machine > 0 {
			limit = min(limit, machine/8)
		}
	}
	return limit
}

// get returns size bytes with undefined content, or nil if there is no room.
func (p *pinned) get(size int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retired || size == 0 {
		return nil
	}
	addr, _, ok := p.arena.allocate(int64(size))
	if !ok {
		if !p.extend(rounded(int64(size))) {
			return nil
		}
		addr, _, _ = p.arena.allocate(int64(size))
	}
	b := p.arena.used[addr]
	chunk := p.chunks[b.region]
	at := addr - b.region.addr
	return chunk[at : at+uint64(size) : at+uint64(size)]
}

func (p *pinned) extend(size int64) bool {
	want := min(max(size, firstChunk, p.arena.bytes), p.limit-p.arena.bytes)
	if want < size {
		return false
	}
	want &^= grain - 1
	chunk := pages(want)
	if err := p.life.bound(func(c Context) error { return c.Pin(chunk) }); err != nil {
		p.life.device.opts.Log.Warn("no pinned host memory can be had for a GPU", "device", p.life.device.name, "bytes", want, "error", err)
		return false
	}
	r := p.arena.add(address(chunk), want)
	p.chunks[r] = chunk
	return true
}

// pages returns memory of whole pages, as the card's driver requires for pinning.
func pages(size int64) []byte {
	page := os.Getpagesize()
	raw := make([]byte, int(size)+page)
	off := -int(address(raw)) & (page - 1)
	return raw[off : off+int(size)]
}

// holds reports whether data is in this memory.
func (p *pinned) holds(data []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	addr := address(data)
	for r := range p.chunks {
		if addr >= r.addr && addr < r.addr+uint64(r.size) {
			return true
		}
	}
	return false
}

// make returns a tensor in pinned memory, or in the device's host pool if there is no room.
func (p *pinned) make(dtype tensor.DType, shape tensor.Shape) (*tensor.Tensor, error) {
	b := p.get(shape.Elements() * dtype.Size())
	if b == nil {
		return tensor.New(p.life.device.opts.Host, dtype, shape)
	}
	return tensor.FromBuffer(dtype, shape, tensor.WrapBytes(b, func() { p.put(b) }))
}

func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// put frees memory returned by get.
func (p *pinned) put(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arena.free(address(b), 0)
}

// retire ends the memory with its life: no more is allocated, and the card unpins it. Tensors in it stay valid. For a life that was lost,
// nothing must be undone.
func (p *pinned) retire() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retired {
		return nil
	}
	p.retired = true
	if p.life.over() != nil {
		return nil
	}
	for _, chunk := range p.chunks {
		err = errors.Join(err, p.life.bound(func(c Context) error { return c.Unpin(chunk) }))
	}
	return err
}

// trim releases unused chunks.
func (p *pinned) trim() (bytes int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retired {
		return 0, nil
	}
	for r := p.arena.idle(0); r != nil; r = p.arena.idle(0) {
		chunk := p.chunks[r]
		delete(p.chunks, r)
		bytes += r.size
		err = errors.Join(err, p.life.bound(func(c Context) error { return c.Unpin(chunk) }))
	}
	return bytes, err
}
