package tensor

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/troupe-run/troupe/graph/status"
)

// Account bounds the memory of a process: what its pools hold, in use or idle, and everything else that is alive on
// the heap, such as graphs, messages and the contents of tables. Pools draw from it in advance, in units of
// grantUnit, so that a buffer which is reused costs nothing here. All methods may be called concurrently.
//
// What pools hold is counted before it is taken. The rest is seen by each garbage collection: once what is alive
// exceeds the limit, pools give up their idle memory, and nothing new is made until enough has been released.
type Account struct {
	limit  atomic.Int64 // 0: none
	drawn  atomic.Int64 // by pools
	lent   atomic.Int64 // out of the reserve, to small holders
	other  atomic.Int64 // what was alive on the heap beside that, at the last collection
	short  atomic.Bool  // what is alive exceeds the limit
	armed  atomic.Bool
	raised string // how to raise the limit, for messages

	holders atomic.Int64 // quotas that share the reserve

	collected atomic.Int64 // when collect ran last, as time.Time.UnixNano gives it
	mu        sync.Mutex
	pools     []weak.Pointer[Pool]
}

// Process is the account of this process, which all pools draw from.
var Process = &Account{raised: "--process-memory or WithProcessMemory raises it"}

const (
	// grantUnit is what pools draw from an account at least, in bytes.
	grantUnit = 1 << 20
	// collectEvery is how often a full account has garbage collected, at most.
	collectEvery = time.Second
)

// SetLimit sets the most bytes that may be held, 0 for no limit. The latest call decides.
func (a *Account) SetLimit(bytes int64) {
	a.limit.Store(bytes)
	a.measure()
	if bytes > 0 && a.armed.CompareAndSwap(false, true) {
		a.arm()
	}
}

// Limit is the most bytes that may be held, 0 for no limit.
func (a *Account) Limit() int64 { return a.limit.Load() }

// Held is the bytes that count against the limit.
func (a *Account) Held() int64 { return a.drawn.Load() + a.lent.Load() + a.other.Load() }

// arm has each garbage collection followed by a look at what is alive.
func (a *Account) arm() {
	type sentinel struct{ _ [16]byte }
	runtime.SetFinalizer(&sentinel{}, func(*sentinel) {
		a.measure()
		a.arm()
	})
}

// measure compares what was alive at the last collection with what pools hold.
func (a *Account) measure() {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	live, limit := int64(s[0].Value.Uint64()), a.limit.Load()
	a.other.Store(max(live-a.drawn.Load()-a.lent.Load(), 0))
	a.short.Store(limit > 0 && live > limit)
}

// draw takes n bytes for a pool if they are there. What is not there is not counted for a moment either: others would
// then be refused what they need.
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

// full is the error of an account that does not have n bytes.
func (a *Account) full(n int64) error {
	return status.Errorf(status.ResourceExhausted, "the process may hold %d bytes, of which %d are in use, and %d more were asked for (%s)", a.limit.Load(), a.Held(), n, a.raised)
}

// admits tells whether new memory may be taken at all: what is alive does not exceed the limit. Those that hold little
// go on with the reserve.
func (p *Pool) admits() error {
	a := p.account
	if !a.short.Load() {
		return nil
	}
	for u := p; u.parent != nil; u = u.parent {
		if u.quota.account != nil && a.small(u.quota) {
			return nil
		}
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

// ease makes room for n bytes where it can: pools give up what they hold and do not use, and a collection finds what
// was released of the rest. It does nothing where that would not be enough.
func (a *Account) ease(n int64) {
	limit := a.limit.Load()
	missing := a.drawn.Load() + a.other.Load() + n - (limit - limit/reservePart)
	var idle int64
	pools := a.all()
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

// collect drops what is idle and measures what is alive anew, unless that was done a moment ago.
func (a *Account) collect() {
	now, last := time.Now().UnixNano(), a.collected.Load()
	if now-last < int64(collectEvery) || !a.collected.CompareAndSwap(last, now) {
		return
	}
	for _, p := range a.all() {
		p.drop()
	}
	runtime.GC()
	a.measure()
}

// join makes a pool one that ease looks at. What the pool has drawn comes back when nobody uses the pool any more.
func (a *Account) join(p *Pool) {
	runtime.AddCleanup(p, func(g *grant) { a.drawn.Add(-g.bytes.Swap(0)) }, p.grant)
	a.mu.Lock()
	defer a.mu.Unlock()
	kept := a.pools[:0]
	for _, w := range a.pools {
		if w.Value() != nil {
			kept = append(kept, w)
		}
	}
	a.pools = append(kept, weak.Make(p))
}

func (a *Account) all() (pools []*Pool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.pools {
		if p := w.Value(); p != nil {
			pools = append(pools, p)
		}
	}
	return pools
}

// grant is what a pool has drawn from its account.
type grant struct {
	bytes atomic.Int64
	mu    sync.Mutex // held while it changes
}

// draw makes the pool's grant cover what the pool holds, and n bytes that are about to be taken. Where the account has
// no more, it lends them to a holder that has little, if any is given; no other is delayed for that.
func (p *Pool) draw(n int64, holder *Quota) (lent bool, err error) {
	if p.tryDraw(n) {
		return false, nil
	}
	if holder != nil && p.account.lend(holder, n) {
		return true, nil
	}
	if p.account.ease(n); p.tryDraw(n) {
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

// held is what the pool's grant has to cover.
func (p *Pool) held() int64 { return p.inUse.Load() + p.idle.Load() }

// settle gives back what the pool has drawn and does not hold.
func (p *Pool) settle() {
	g := p.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	had := g.bytes.Load()
	keep := (p.held() + grantUnit - 1) &^ (grantUnit - 1)
	if keep >= had {
		return
	}
	// A pool that counts memory looks at the grant again afterwards: one of both sees the other.
	if g.bytes.Store(keep); p.held() > keep {
		g.bytes.Store(had)
		return
	}
	p.account.drawn.Add(keep - had)
}
