package tensor

import (
	"slices"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
)

// Quota bounds the memory that a step, a session or a client takes from pools. It may be used concurrently.
type Quota struct {
	limit   int64
	inUse   atomic.Int64
	what    string
	raise   string
	account *Account     // in whose reserve the quota has a share, if any
	lent    atomic.Int64 // the part of inUse lent from the reserve
	tensors atomic.Int64 // live tensors, if there is a limit or an account: even tiny ones take memory
}

// reservePart is the divisor that yields the reserve: a 16th of an account's limit. Holders have equal shares of it, and one that holds
// more than its share gets nothing from it. The others therefore cannot use up what is left for small holders.
const reservePart = 16

// tensorBytes is about what a tensor takes besides its elements, including what a variant's element or a list's slot needs.
const tensorBytes = 256

// NewQuota returns a quota of limit bytes; 0 means no limit. Error messages call it what ("step", "session") and say how to raise it.
func NewQuota(limit int64, what, raise string) *Quota {
	return &Quota{limit: limit, what: what, raise: raise}
}

// InUse returns the number of bytes in use under the quota.
func (q *Quota) InUse() int64 { return q.inUse.Load() }

// Join gives the quota a share of the account's reserve, until Leave. It must be called before the quota is used.
func (q *Quota) Join(a *Account) {
	q.account = a
	a.holders.Add(1)
}

// Leave ends the quota's share. What it has borrowed remains until it is released.
func (q *Quota) Leave() { q.account.holders.Add(-1) }

func (q *Quota) take(n int64) error {
	if used := q.inUse.Add(n); q.limit > 0 && used > q.limit {
		q.inUse.Add(-n)
		return q.full(used-n, n)
	}
	return nil
}

// full returns the error of a quota of which used bytes are in use, and that does not have n more.
func (q *Quota) full(used, n int64) error {
	return status.Errorf(status.ResourceExhausted, "the %s may hold %d bytes, of which %d are in use, and %d more were asked for (%s)", q.what, q.limit, used, n, q.raise)
}

// takeHeader counts a tensor, without its elements. What all of them take counts against the limit beside the elements' bytes, but does not
// keep elements from being allocated: it is little unless the elements are.
func (q *Quota) takeHeader() error {
	n := q.tensors.Add(1) * tensorBytes
	if used := q.inUse.Load() + n; q.limit > 0 && used > q.limit && n > q.limit/headersPart {
		q.tensors.Add(-1)
		return q.full(used-tensorBytes, tensorBytes)
	}
	return nil
}

// headersPart is the divisor that yields the part of a limit that tensors may take besides their elements even if these take all of it.
const headersPart = 16

// CountsTensors reports whether the pool has quotas that count tensors.
func (p *Pool) CountsTensors() bool { return len(p.counts) > 0 }

// countHeader counts a tensor in the quotas of the pool, or in none of them if it fails.
func (p *Pool) countHeader() error {
	for i, q := range p.counts {
		if err := q.takeHeader(); err != nil {
			for _, q := range p.counts[:i] {
				q.tensors.Add(-1)
			}
			return err
		}
	}
	return nil
}

// uncountHeader undoes countHeader.
func (p *Pool) uncountHeader() {
	for _, q := range p.counts {
		q.tensors.Add(-1)
	}
}

// drop subtracts n released bytes and returns how many of them were lent.
func (q *Quota) drop(n int64) int64 {
	q.inUse.Add(-n)
	if q.lent.Load() == 0 {
		return 0
	}
	return q.repay(n)
}

// repay returns the lent part of n bytes to the reserve. Which bytes were lent is not recorded, and does not matter.
func (q *Quota) repay(n int64) int64 {
	for q != nil {
		lent := q.lent.Load()
		back := min(lent, n)
		if back == 0 {
			return 0
		}
		if q.lent.CompareAndSwap(lent, lent-back) {
			q.account.lent.Add(-back)
			return back
		}
	}
	return 0
}

// small reports whether a holder holds no more than its share of the reserve.
func (a *Account) small(q *Quota) bool {
	return q.inUse.Load()+q.tensors.Load()*tensorBytes <= a.limit.Load()/reservePart/max(a.holders.Load(), 1)
}

// lend lends n bytes of the reserve to a holder whose quota already counts them.
func (a *Account) lend(q *Quota, n int64) bool {
	for a.small(q) {
		lent := a.lent.Load()
		if n > a.limit.Load()/reservePart-lent {
			return false
		}
		if a.lent.CompareAndSwap(lent, lent+n) {
			q.lent.Add(n)
			return true
		}
	}
	return false
}

// Under returns a pool over the same memory, under a quota: what is allocated from the result counts against the quota and the limits of p
// until it is released.
func (p *Pool) Under(q *Quota) *Pool {
	u := &Pool{name: p.name, account: p.account, parent: p, quota: q, counts: p.counts}
	if q.limit > 0 || q.account != nil {
		u.counts = append(slices.Clone(p.counts), q)
	}
	u.holds = u.holder(p.holds)
	return u
}

// Reserve counts n bytes outside the pool's buffers as in use, such as the elements of a string tensor or a kernel's own tables. It must
// be called before they are allocated. It fails with RESOURCE_EXHAUSTED as New does. It also fails if the pool's grant would suffice but
// the live heap exceeds the process's limit: what is counted here only briefly may become, for example, a graph, which no pool counts.
func (p *Pool) Reserve(n int64) error {
	if err := p.Admits(); err != nil {
		return err
	}
	return p.reserve(n, nil)
}

func (p *Pool) reserve(n int64, holder *Quota) error {
	if p.parent == nil {
		return p.begin(int(n), n, holder)
	}
	if err := p.quota.take(n); err != nil {
		return err
	}
	err := p.parent.reserve(n, p.holder(holder))
	if err != nil {
		p.quota.inUse.Add(-n)
	}
	return err
}

// holder returns the quota whose share of the reserve is used: the pool's own, or else that of the pool below it.
func (p *Pool) holder(below *Quota) *Quota {
	if p.quota.account != nil {
		return p.quota
	}
	return below
}

// Unreserve subtracts n bytes that were counted by Reserve.
func (p *Pool) Unreserve(n int64) {
	var lent int64
	for ; p.parent != nil; p = p.parent {
		lent += p.quota.drop(n)
	}
	p.inUse.Add(lent - n)
}
