package gpu

import (
	"sync"
	"unsafe"

	"github.com/troupe-run/troupe/graph/tensor"
)

// pinned is host memory that the card reads and writes directly, in one life of a device. It is bounded: who gets none
// takes ordinary memory, whose copies are slower and hold up the device's thread. A tensor may keep
// its part beyond the life's end.
type pinned struct {
	life  *life
	limit int64

	mu      sync.Mutex
	arena   arena
	chunks  map[*region][]byte
	retired bool
}

// firstChunk is the size of the first chunk of pinned memory; later ones double what there is.
const firstChunk = 1 << 20

func newPinned(l *life, limit int64) *pinned {
	return &pinned{life: l, limit: limit, chunks: map[*region][]byte{}}
}

// hostLimit is the most pinned memory that the device takes.
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

// get gives size bytes, with undefined content; nil where there is no room.
func (p *pinned) get(size int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retired || size == 0 {
		return nil
	}
	addr, _, ok := p.arena.take(int64(size))
	if !ok {
		if !p.extend(rounded(int64(size))) {
			return nil
		}
		addr, _, _ = p.arena.take(int64(size))
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
	var chunk []byte
	err := p.life.bound(func(c Context) (err error) {
		chunk, err = c.AllocHost(want)
		return err
	})
	if err != nil {
		p.life.device.opts.Log.Warn("no pinned host memory can be had for a GPU", "device", p.life.device.name, "bytes", want, "error", err)
		return false
	}
	r := p.arena.add(address(chunk), want)
	p.chunks[r] = chunk
	return true
}

// holds tells whether data lies in this memory.
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

// make gives a tensor in pinned memory, or in the device's host pool where there is no room.
func (p *pinned) make(dtype tensor.DType, shape tensor.Shape) (*tensor.Tensor, error) {
	b := p.get(shape.Elements() * dtype.Size())
	if b == nil {
		return tensor.New(p.life.device.opts.Host, dtype, shape)
	}
	return tensor.FromBuffer(dtype, shape, tensor.WrapBytes(b, func() { p.put(b) }))
}

func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// put takes back what get gave.
func (p *pinned) put(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arena.give(address(b), 0)
	if p.retired {
		p.drop()
	}
}

// retire ends the memory with its life: no more is handed out, and trim and put give the chunks back that no tensor lies
// in any more.
func (p *pinned) retire() {
	p.mu.Lock()
	p.retired = true
	p.mu.Unlock()
}

// trim gives unused chunks back.
func (p *pinned) trim() (bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drop()
}

func (p *pinned) drop() (bytes int64) {
	now := p.life.device.life.Load() // a chunk may be of a life before
	for r := p.arena.idle(0); r != nil; r = p.arena.idle(0) {
		chunk := p.chunks[r]
		delete(p.chunks, r)
		bytes += r.size
		if err := now.bound(func(c Context) error { return c.FreeHost(chunk) }); err != nil {
			p.life.device.opts.Log.Warn("pinned host memory was not given back", "device", p.life.device.name, "bytes", r.size, "error", err)
		}
	}
	return bytes
}
