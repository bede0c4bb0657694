package tensor

import (
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
)

// Quota bounds the memory that a step, a session or a client takes out of pools. It may be used by several goroutines.
type Quota struct {
	limit   int64
	inUse   atomic.Int64
	what    string
	raise   string
	account *Account     // whose reserve the quota has a share of, if any
	lent    atomic.Int64 // of inUse, out of the reserve
}

// reservePart is which part of an account's limit is the reserve: a 16th. Holders have equal shares of it, and who holds
// more than a share gets nothing from it. So what is left for those that hold little cannot be taken by others.
const reservePart = 16

// NewQuota makes a quota of so many bytes, 0 for no bound. Error messages call it what ("step", "session"), and tell how
// to raise it.
func NewQuota(limit int64, what, raise string) *Quota {
	return &Quota{limit: limit, what: what, raise: raise}
}

// InUse is the bytes that are alive of those that were taken under the quota.
func (q *Quota) InUse() int64 { return q.inUse.Load() }

// Join gives the quota a share of the account's reserve, until Leave. It is called before the quota is used.
func (q *Quota) Join(a *Account) {
	q.account = a
	a.holders.Add(1)
}

// Leave ends the quota's share. What it was lent stays until it is released.
func (q *Quota) Leave() { q.account.holders.Add(-1) }

func (q *Quota) take(n int64) error {
	if used := q.inUse.Add(n); q.limit > 0 && used > q.limit {
		q.inUse.Add(-n)
		return status.Errorf(status.ResourceExhausted, "the %s may hold %d bytes, of which %d are in use, and %d more were asked for (%s)", q.what, q.limit, used-n, n, q.raise)
	}
	return nil
}

// drop takes n released bytes back, and returns how many of them were lent.
func (q *Quota) drop(n int64) int64 {
	q.inUse.Add(-n)
	if q.lent.Load() == 0 {
		return 0
	}
	return q.repay(n)
}

// repay returns to the reserve what was lent of n bytes. Nothing tells which bytes were, nor does it matter.
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

// small tells whether a holder has no more than its share of the reserve.
func (a *Account) small(q *Quota) bool {
	return q.inUse.Load() <= a.limit.Load()/reservePart/max(a.holders.Load(), 1)
}

// lend gives n bytes of the reserve to a holder whose quota has counted them already.
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

// Under is the same memory under a quota: what is taken from the result counts against the quota, until it is
// released, and against the limits of p.
func (p *Pool) Under(q *Quota) *Pool {
	return &Pool{name: p.name, account: p.account, parent: p, quota: q}
}

// Reserve counts n bytes as in use that lie outside of the pool's buffers, such as the elements of a string tensor or
// a kernel's own tables, before they are taken. It fails with RESOURCE_EXHAUSTED as Get does.
func (p *Pool) Reserve(n int64) error { return p.reserve(n, nil) }

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

// holder is whose share of the reserve decides: the pool's own quota's, or that of the one below it.
func (p *Pool) holder(below *Quota) *Quota {
	if p.quota.account != nil {
		return p.quota
	}
	return below
}

// Unreserve takes n bytes back that were counted by Reserve.
func (p *Pool) Unreserve(n int64) {
	var lent int64
	for ; p.parent != nil; p = p.parent {
		lent += p.quota.drop(n)
	}
	p.inUse.Add(lent - n)
}
