package tensor

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/live"
)

// Account bounds the memory of a process: what its pools hold, in use or idle, and everything else that is live on the heap, such as
// graphs, messages and the contents of tables. Pools draw from it in advance, in multiples of grantUnit, so reusing a buffer costs nothing
// here. All methods may be called concurrently.
//
// What pools hold is counted before it is allocated. The rest is measured at each garbage collection. If the live heap exceeds the limit,
// pools give up their idle memory, and nothing new is allocated until enough has been released.
type Account struct {
	limit  atomic.Int64 // 0: none
	drawn  atomic.Int64 // by pools
	lent   atomic.Int64 // from the reserve, to small holders
	other  atomic.Int64 // other live heap memory at the last collection
	short  atomic.Bool  // the live heap exceeds the limit
	armed  atomic.Bool
	raised string // how to raise the limit, for error messages

	holders atomic.Int64 // quotas that share the reserve

	collected atomic.Int64 // when collect last ran, in Unix nanoseconds
	pools     live.List[Pool]
}

// Process is the account of this process, from which all pools draw.
var Process = &Account{raised: "--process-memory or WithProcessMemory raises it"}

const (
	// grantUnit is the least that a pool draws from an account, in bytes.
	grantUnit = 1 << 20
	// collectEvery is the minimum interval between garbage collections forced by a full account.
	collectEvery = time.Second
)

// SetLimit sets the maximum number of bytes that may be held; 0 means no limit. The latest call wins.
func (a *Account) SetLimit(bytes int64) {
	a.limit.Store(bytes)
	a.measure()
	if bytes > 0 && a.armed.CompareAndSwap(false, true) {
		a.arm()
	}
}

// Limit returns the maximum number of bytes that may be held; 0 means no limit.
func (a *Account) Limit() int64 { return a.limit.Load() }

// Held returns the number of bytes that count against the limit.
func (a *Account) Held() int64 { return a.drawn.Load() + a.lent.Load() + a.other.Load() }

// Short reports whether less than a quarter of the limit is left.
func (a *Account) Short() bool {
	limit := a.limit.Load()
	return limit > 0 && a.Held() > limit-limit/4
}

// arm makes measure run after each garbage collection.
func (a *Account) arm() {
	type sentinel struct{ _ [16]byte }
	runtime.SetFinalizer(&sentinel{}, func(*sentinel) {
		a.measure()
		a.arm()
	})
}

// measure compares the live heap at the last collection with what pools hold.
func (a *Account) measure() {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	live, limit := int64(s[0].Value.Uint64()), a.limit.Load()
	a.other.Store(max(live-a.drawn.Load()-a.lent.Load(), 0))
	a.short.Store(limit > 0 && live > limit)
}

// draw takes n bytes for a pool if they are available. A refused request is never counted, not even briefly: it could cause other requests
// to be refused.
func (a *Account) draw(n int64) bool {
	for {
		drawn, limit := a.drawn.Load(), a.limit.Load()
		if limit > 0 && n > limit-limit/reservePart-drawn-a.other.Load() {
			return false
		}
		if a.drawn.CompareAndSwap(drawn, drawn+n) {
			return true
		}
	}
}

// full returns the error of an account that does not have n bytes.
func (a *Account) full(n int64) error {
	return status.Errorf(status.ResourceExhausted, "the process may hold %d bytes, of which %d are in use, and %d more were asked for (%s)", a.limit.Load(), a.Held(), n, a.raised)
}

// Admits returns an error if no new memory may be allocated at all because the live heap exceeds the limit. Small holders may continue
// from the reserve. Code that makes many tensors that share memory calls Admits before each of them.
func (p *Pool) Admits() error {
	a := p.account
	if !a.short.Load() {
		return nil
	}
	if p.holds != nil && a.small(p.holds) {
		return nil
	}
	return a.admits()
}

func (a *Account) admits() error {
	if !a.short.Load() {
		return nil
	}
	if a.collect(); !a.short.Load() {
		return nil
	}
	return status.Errorf(status.ResourceExhausted, "the process holds %d bytes, more than the %d that it may (%s)", a.Held(), a.limit.Load(), a.raised)
}

// makeRoom tries to make room for n bytes: pools drop their idle memory, and a garbage collection finds what else was released. It does
// nothing if that would not be enough.
func (a *Account) makeRoom(n int64) {
	limit := a.limit.Load()
	missing := a.drawn.Load() + a.other.Load() + n - (limit - limit/reservePart)
	var idle int64
	pools := a.pools.All()
	for _, p := range pools {
		idle += p.idle.Load() + grantUnit
	}
	switch {
	case missing <= idle:
		for _, p := range pools {
			p.drop()
		}
	case missing <= idle+a.other.Load():
		a.collect()
	}
}

// collect drops idle memory and measures the live heap, unless it did so less than collectEvery ago.
func (a *Account) collect() {
	now, last := time.Now().UnixNano(), a.collected.Load()
	if now-last < int64(collectEvery) || !a.collected.CompareAndSwap(last, now) {
		return
	}
	for _, p := range a.pools.All() {
		p.drop()
	}
	runtime.GC()
	a.measure()
}

// join registers a pool for ease. What the pool has drawn is returned when the pool becomes unreachable.
func (a *Account) join(p *Pool) {
	runtime.AddCleanup(p, func(g *grant) { a.drawn.Add(-g.bytes.Swap(0)) }, p.grant)
	a.pools.Add(p)
}

// grant is what a pool has drawn from its account.
type grant struct {
	bytes atomic.Int64
	mu    sync.Mutex // held while bytes changes
}

// draw extends the pool's grant to cover what the pool holds and n bytes about to be taken. If the account has no more, it lends them to
// holder, if there is one and it holds little; that needs no garbage collection.
func (p *Pool) draw(n int64, holder *Quota) (lent bool, err error) {
	if p.tryDraw(n) {
		return false, nil
	}
	if holder != nil && p.account.lend(holder, n) {
		return true, nil
	}
	if p.account.makeRoom(n); p.tryDraw(n) {
		return false, nil
	}
	return false, p.account.full(n)
}

func (p *Pool) tryDraw(n int64) bool {
	p.grant.mu.Lock()
	defer p.grant.mu.Unlock()
	missing := p.held() + n - p.grant.bytes.Load()
	if missing <= 0 {
		return true
	}
	unit := (missing + grantUnit - 1) &^ (grantUnit - 1)
	if !p.account.draw(unit) {
		if unit = missing; !p.account.draw(unit) {
			return false
		}
	}
	p.grant.bytes.Add(unit)
	return true
}

// held returns what the pool's grant must cover.
func (p *Pool) held() int64 { return p.inUse.Load() + p.idle.Load() }

// returnUnused returns what the pool has drawn but does not hold to the account.
func (p *Pool) returnUnused() {
	g := p.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	had := g.bytes.Load()
	keep := (p.held() + grantUnit - 1) &^ (grantUnit - 1)
	if keep >= had {
		return
	}
	// A pool that counts memory checks the grant again afterwards, so at least one of the two sees the other's change.
	if g.bytes.Store(keep); p.held() > keep {
		g.bytes.Store(had)
		return
	}
	p.account.drawn.Add(keep - had)
}
