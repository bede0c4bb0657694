package cast

import "sync"

// queue holds the items that wait for an actor. Its memory comes in pieces that all actors share, so that items are
// not copied while it grows, and an idle actor holds none. The zero queue is empty.
type queue struct{ first, last *piece }

// piece is a part of a queue.
type piece struct {
	items []item // its capacity does not change
	next  *piece
}

// A queue begins with a small piece, since most queues hold one message at a time, and continues with large ones.
const (
	smallPiece = 4
	largePiece = 64
)

var (
	smallPieces = sync.Pool{New: func() any { return &piece{items: make([]item, 0, smallPiece)} }}
	largePieces = sync.Pool{New: func() any { return &piece{items: make([]item, 0, largePiece)} }}
)

// free returns the piece to the pool. It must not be used afterwards.
func (p *piece) free() {
	clear(p.items)
	p.items, p.next = p.items[:0], nil
	if cap(p.items) == smallPiece {
		smallPieces.Put(p)
	} else {
		largePieces.Put(p)
	}
}

func (q *queue) empty() bool { return q.first == nil }

// push appends an item.
func (q *queue) push(i *item) {
	if q.last == nil || len(q.last.items) == cap(q.last.items) {
		q.extend()
	}
	q.last.items = append(q.last.items, *i)
}

func (q *queue) extend() {
	if q.last == nil {
		q.first = smallPieces.Get().(*piece)
		q.last = q.first
		return
	}
	q.last.next = largePieces.Get().(*piece)
	q.last = q.last.next
}

// append moves all items of another queue to the end of this one. The other queue is empty afterwards.
func (q *queue) append(other *queue) {
	switch {
	case other.empty():
		return
	case q.empty():
		*q = *other
	default:
		// Small pieces are merged, because pieces are taken one by one.
		if p := other.first; len(p.items) <= cap(q.last.items)-len(q.last.items) || cap(p.items) == smallPiece {
			for i := range p.items {
				q.push(&p.items[i])
			}
			other.first = p.next
			if other.first == nil {
				other.last = nil
			}
			p.free()
		}
		if !other.empty() {
			q.last.next, q.last = other.first, other.last
		}
	}
	*other = queue{}
}

// take removes and returns the first piece, which the caller then owns; nil if the queue is empty.
func (q *queue) take() *piece {
	p := q.first
	if p == nil {
		return nil
	}
	if q.first = p.next; q.first == nil {
		q.last = nil
	}
	p.next = nil
	return p
}

// all iterates over the items.
func (q *queue) all(yield func(*item) bool) {
	for p := q.first; p != nil; p = p.next {
		for i := range p.items {
			if !yield(&p.items[i]) {
				return
			}
		}
	}
}

// clear empties the queue.
func (q *queue) clear() {
	for p := q.take(); p != nil; p = q.take() {
		p.free()
	}
}
