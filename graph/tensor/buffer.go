package tensor

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/troupe-run/troupe/graph/status"
)

// Alignment is the alignment in bytes of every buffer: a cache line, and the width of the widest vector registers.
const Alignment = 64

// releasedTooOften is the panic of a Release without a reference.
const releasedTooOften = "tensor: released more often than retained"

// Buffer is reference-counted memory that tensors share, on the host or on a device. Releasing the last reference returns the memory to
// its origin.
type Buffer struct {
	refs  atomic.Int32
	idle  bool  // released; refs is 1 then, as of a tensor
	class int16 // of the pool; -1 for memory that no pool owns
	data  []byte
	raw   []byte
	owner *Pool
	free  func()
	// reserved is the number of bytes counted in the pool besides data, such as those of Go-valued elements.
	pool     *Pool
	reserved atomic.Int64
	counted  atomic.Bool // reserved includes the contents of the strings
	// home, addr and size describe device memory.
	home Home
	addr uint64
	size int
}

// Bytes returns the memory of a host buffer. It may be written only while the caller holds the only reference.
func (b *Buffer) Bytes() []byte { return b.data }

// Retain adds a reference.
func (b *Buffer) Retain() { b.refs.Add(1) }

// Exclusive reports whether the caller's reference is the only one.
func (b *Buffer) Exclusive() bool { return b.refs.Load() == 1 }

// Release drops a reference. After the last one, the memory must no longer be used.
func (b *Buffer) Release() {
	if b.refs.Load() != 1 {
		n := b.refs.Add(-1)
		if n > 0 {
			return
		}
		if n < 0 {
			panic(releasedTooOften)
		}
		b.refs.Store(1)
	}
	if b.idle {
		panic(releasedTooOften)
	}
	b.idle = true
	switch {
	case b.owner != nil:
		b.owner.put(b)
	default:
		if b.free != nil {
			b.free()
		} else if b.home != nil {
			b.home.Free(b)
		}
		if b.pool != nil {
			b.pool.Unreserve(b.reserved.Swap(0))
		}
	}
}

// reserve counts n bytes in the buffer's pool until the last release.
func (b *Buffer) reserve(n int64) error {
	if err := b.pool.Reserve(n); err != nil {
		return err
	}
	b.reserved.Add(n)
	return nil
}

// counting returns a buffer for elements that are Go values, with n bytes counted in the pool.
func counting(pool *Pool, n int64) (*Buffer, error) {
	b := WrapBytes(nil, nil)
	b.pool = pool
	if err := b.reserve(n); err != nil {
		return nil, err
	}
	return b, nil
}

// WrapBytes returns a buffer over memory that no pool owns. free, if not nil, runs after the last release. The data must be aligned for
// the element type that it is read as.
func WrapBytes(data []byte, free func()) *Buffer {
	b := &Buffer{class: -1, data: data, free: free}
	b.refs.Store(1)
	return b
}

// Pool allocates aligned buffers by size class and recycles them, so that a step in steady state produces no garbage. It counts the bytes
// in use and refuses to exceed a limit. All methods may be called concurrently.
//
// There are up to four size classes per power of two, so rounding wastes at most a fifth. Idle buffers of up to 32 KiB are in a sync.Pool,
// which the garbage collector empties. Larger ones are in lists that Trim empties, since reallocating one costs page faults.
type Pool struct {
	limit   int64
	name    string
	account *Account
	grant   *grant
	parent  *Pool // the pool that a pool under a quota allocates from; nil for an independent pool
	quota   *Quota
	holds   *Quota   // the quota whose share of the reserve this pool's memory counts against, if any
	counts  []*Quota // those of the pool and its parents that count tensors
	room    func() int64
	inUse   atomic.Int64
	peak    atomic.Int64
	allocs  atomic.Int64
	idle    atomic.Int64
	small   *[maxClass]sync.Pool
	mu      sync.Mutex
	large   *[maxClass][]*Buffer
	epoch   atomic.Int64 // counts gets of large buffers, so that Trim can tell whether the pool is quiet
	seen    int64
}

const (
	minShift   = 6 // 64 bytes
	maxClass   = 4 * 42
	largeClass = 4 * (15 - minShift)
)

// NewPool returns a pool. limit is the maximum number of bytes in use; 0 means no limit. Error messages refer to the pool by name
// ("allocator cpu on /job:…"). What the pool holds also counts against the limit of Process.
func NewPool(name string, limit int64) *Pool { return newPool(Process, name, limit) }

func newPool(a *Account, name string, limit int64) *Pool {
	p := &Pool{name: name, limit: limit, account: a, grant: &grant{}, small: new([maxClass]sync.Pool), large: new([maxClass][]*Buffer)}
	a.join(p)
	return p
}

// worthAsking is the size in bytes from which a new buffer is checked against the machine's memory.
const worthAsking = 64 << 20

// WithRoom sets a function that the pool calls before it allocates a large buffer. It returns how many bytes the machine has to spare, or
// a negative number if that is unknown. WithRoom must be called before the pool is used.
func (p *Pool) WithRoom(room func() int64) *Pool {
	p.room = room
	return p
}

// Host is the process's pool for tensors in host memory that no device accounts for, such as those received from the network and the
// constants of a graph.
var Host = NewPool("host", 0)

// classOf returns the size class for n bytes and the size of its buffers.
func classOf(n int) (class int16, size int) {
	if n <= 1<<minShift {
		return 0, 1 << minShift
	}
	shift := bits.Len(uint(n-1)) - 1 // 1<<shift < n <= 1<<(shift+1)
	quarter := 1 << (shift - 2)
	steps := (n - (1 << shift) + quarter - 1) / quarter
	return int16(4*(shift-minShift) + steps), 1<<shift + steps*quarter
}

// Get returns a buffer of n bytes with one reference. Its content is undefined. It fails with RESOURCE_EXHAUSTED if the pool's limit would
// be exceeded.
func (p *Pool) Get(n int) (*Buffer, error) { return p.get(n, nil) }

// get is like Get. The memory counts against the share that holder, if not nil, has of the account's reserve.
func (p *Pool) get(n int, holder *Quota) (*Buffer, error) {
	if n < 0 || n > 1<<46 {
		return nil, status.Errorf(status.ResourceExhausted, "OOM when allocating %d bytes by allocator %s", n, p.name)
	}
	class, size := classOf(n)
	if p.parent != nil {
		return p.getUnder(n, int64(size), holder)
	}
	b := p.reuse(class, size)
	if err := p.begin(n, int64(size), holder); err != nil {
		if b != nil {
			p.keep(b)
		}
		return nil, err
	}
	if b == nil {
		if p.room != nil && size >= worthAsking {
			if room := p.room(); room >= 0 && int64(size) > room {
				p.inUse.Add(holder.repay(int64(size)) - int64(size))
				return nil, p.oom(n, status.Errorf(status.ResourceExhausted, "the machine has %d bytes left", room))
			}
		}
		p.allocs.Add(1)
		raw := make([]byte, size+Alignment)
		off := int(-uintptr(unsafe.Pointer(unsafe.SliceData(raw))) & (Alignment - 1))
		b = &Buffer{class: class, raw: raw[off : off+size : off+size], owner: p}
		b.refs.Store(1)
		askHuge(b.raw)
	}
	b.data, b.idle = b.raw[:n:n], false
	return b, nil
}

// begin counts size bytes, of which n were requested, against the pool's limit and its grant from the account. A refused request is never
// counted, not even briefly: it could cause other requests to be refused. Memory lent to a holder is counted there instead.
func (p *Pool) begin(n int, size int64, holder *Quota) error {
	for {
		used := p.inUse.Load()
		if p.limit > 0 && size > p.limit-used {
			return p.oom(n, status.Errorf(status.ResourceExhausted, "%d of its %d bytes are in use (--memory-limit or WithMemoryLimit raises it)", used, p.limit))
		}
		if used+p.idle.Load()+size > p.grant.bytes.Load() {
			lent, err := p.draw(size, holder)
			if err != nil {
				return p.oom(n, err)
			}
			if lent {
				return nil
			}
			continue
		}
		if used += size; p.inUse.CompareAndSwap(used-size, used) {
			// The grant may have been returned meanwhile; see settle.
			if used+p.idle.Load() > p.grant.bytes.Load() {
				if _, err := p.draw(0, nil); err != nil {
					p.inUse.Add(-size)
					return p.oom(n, err)
				}
			}
			for peak := p.peak.Load(); used > peak && !p.peak.CompareAndSwap(peak, used); peak = p.peak.Load() {
			}
			return nil
		}
	}
}

func (p *Pool) oom(n int, why error) error {
	return status.Errorf(status.ResourceExhausted, "OOM when allocating %d bytes by allocator %s: %s", n, p.name, status.From(why).Message)
}

// getUnder is get for a pool under a quota.
func (p *Pool) getUnder(n int, size int64, holder *Quota) (*Buffer, error) {
	if err := p.quota.take(size); err != nil {
		return nil, p.oom(n, err)
	}
	b, err := p.parent.get(n, p.holder(holder))
	if err != nil {
		p.quota.inUse.Add(-size)
		return nil, err
	}
	b.owner = p
	return b, nil
}

func (p *Pool) reuse(class int16, size int) *Buffer {
	if class < largeClass {
		b, _ := p.small[class].Get().(*Buffer)
		return b
	}
	p.epoch.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.large[class]
	if len(list) == 0 {
		return nil
	}
	b := list[len(list)-1]
	list[len(list)-1] = nil
	p.large[class] = list[:len(list)-1]
	p.idle.Add(-int64(size))
	return b
}

func (p *Pool) put(b *Buffer) {
	size := int64(cap(b.raw))
	var lent int64
	for ; p.parent != nil; p = p.parent {
		lent += p.quota.drop(size)
		b.owner = p.parent
	}
	p.inUse.Add(lent - size)
	if lent > 0 && b.class >= largeClass {
		unaskHuge(b.raw) // it was lent: the pool's grant has no room to keep it
		return
	}
	p.keep(b)
}

// keep adds a buffer that no longer counts as in use to the idle ones.
func (p *Pool) keep(b *Buffer) {
	if b.class < largeClass {
		p.small[b.class].Put(b)
		return
	}
	p.mu.Lock()
	p.large[b.class] = append(p.large[b.class], b)
	p.idle.Add(int64(cap(b.raw)))
	p.mu.Unlock()
}

// Trim drops the idle large buffers if none was allocated since the last Trim, and returns the number of bytes dropped. The owner of the
// process calls it periodically.
func (p *Pool) Trim() int64 {
	if p.parent != nil {
		return p.parent.Trim()
	}
	defer p.returnUnused()
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.epoch.Load(); e != p.seen {
		p.seen = e
		return 0
	}
	return p.dropLocked()
}

// drop frees all idle memory for others that need it.
func (p *Pool) drop() {
	defer p.returnUnused()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropLocked()
}

func (p *Pool) dropLocked() int64 {
	for i, list := range p.large {
		for _, b := range list {
			unaskHuge(b.raw)
		}
		p.large[i] = nil
	}
	return p.idle.Swap(0)
}

// Stats are a pool's counters, in bytes and in buffers.
type Stats struct {
	InUse, Peak, Idle, Limit int64
	Allocations              int64 // buffers newly allocated, not reused
}

// Stats returns a snapshot of the pool's counters.
func (p *Pool) Stats() Stats {
	if p.parent != nil {
		return p.parent.Stats()
	}
	return Stats{InUse: p.inUse.Load(), Peak: p.peak.Load(), Idle: p.idle.Load(), Limit: p.limit, Allocations: p.allocs.Load()}
}
