package link

import (
	"fmt"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/samehost"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

const (
	// lendSize is the size in bytes from which a tensor for a process of this machine is lent
	// instead of sent.
	lendSize = 128 << 10
	// maxLent bounds the lent bytes that a peer has not read yet. A single larger tensor is lent
	// alone.
	maxLent = 64 << 20
)

// lending is a bulk's state for lending tensors to the peer instead of sending them. Lending starts
// when the receiver reports that it can read this process's memory.
type lending struct {
	advert *samehost.Advert // the offer to the peer; nil: none. Owned by the sender.

	// Guarded by bulk.mu.
	reads     bool             // the peer can read this process's memory, and no read has failed
	allowed   bool             // the peer may read, and must be sent frameAllow
	lent      map[uint32]*push // by the number of their frames
	lentBytes int
}

// parties describes the lender and the reader. Both ends know them from the link's handshake. An offer of memory is
// valid only between these two processes.
func parties(owner, reader *wire.Identity) string {
	return fmt.Sprintf("%q at %q, boot %016x, lends to %q at %q, boot %016x",
		owner.GetTask(), owner.GetAddress(), owner.GetBoot(), reader.GetTask(), reader.GetAddress(), reader.GetBoot())
}

// advertise returns an offer of this process's memory, or nil if it cannot be lent.
func (b *bulk) advertise() []byte {
	if b.peer.link.links.config.NoLending {
		return nil
	}
	a, err := samehost.NewAdvert(parties(b.peer.link.links.self, b.peer.id))
	if err != nil {
		b.peer.link.links.log.Debug("this process's memory cannot be lent", "error", err)
		return nil
	}
	b.advert = a
	return a.Bytes()
}

// allow permits the peer to read this process's memory, if it asks for that.
func (b *bulk) allow(reader []byte) {
	if b.advert == nil || len(reader) == 0 {
		return
	}
	if err := b.advert.Allow(reader); err != nil {
		b.peer.link.links.log.Debug("a peer may not read this process's memory", "task", b.peer.Task(), "error", err)
		return
	}
	b.mu.Lock()
	b.allowed = true
	b.mu.Unlock()
	b.signal()
}

// lends reports whether a push should be lent. b.mu is held.
func (b *bulk) lends(p *push) bool { return b.reads && len(p.data) >= lendSize }

// lentRoom reports whether a push may be lent now. b.mu is held.
func (b *bulk) lentRoom(p *push) bool {
	return b.lentBytes == 0 || b.lentBytes+len(p.data) <= maxLent
}

// lend lends a push and returns the frame that announces it, or nil if the push cannot be lent.
func (b *bulk) lend(p *push) *frame {
	b.mu.Lock()
	defer b.mu.Unlock()
	// The memory does not move while the push refers to it: it is on the Go heap, or fixed
	// for another reason.
	ticket, ok := b.advert.Lend(p.data)
	if !ok {
		return nil
	}
	p.ticket = ticket
	b.lent[b.number] = p
	b.lentBytes += len(p.data)
	return &frame{kind: frameLend, step: p.step, header: p.header, total: uint64(len(p.data)), where: ticket}
}

// lentAnswer handles the receiver's answers about lent tensors.
func (b *bulk) lentAnswer(f *frame) error {
	b.mu.Lock()
	if f.kind == frameReads {
		b.reads = b.advert != nil
		b.mu.Unlock()
		b.signal()
		return nil
	}
	p := b.lent[uint32(f.where)]
	if p == nil || f.where>>32 != 0 {
		b.mu.Unlock()
		return status.InvalidArgumentf("A receiver of tensors answered frame %d, which lent nothing.", f.where)
	}
	delete(b.lent, uint32(f.where))
	b.lentBytes -= len(p.data)
	b.advert.Return(p.ticket)
	unread := f.kind == frameUnread
	if unread {
		b.reads = false
		b.queue = append([]*push{p}, b.queue...)
	}
	b.mu.Unlock()
	b.signal()
	if unread {
		b.peer.link.links.log.Info("a peer cannot read this process's memory any more; tensors to it are sent", "task", b.peer.Task())
		return nil
	}
	b.stall.taken.Add(1)
	b.peer.link.links.counters.bytesLent.Add(int64(len(p.data)))
	b.peer.link.traffic.bytesSent.Add(int64(len(p.data)))
	b.over(p)
	return nil
}

// withdraw ends the offer. From then on no read succeeds, so the memory may be reused.
func (b *bulk) withdraw() {
	if b.advert == nil {
		return
	}
	if err := b.advert.Close(); err != nil {
		b.peer.link.links.log.Debug("withdrawing the offer of this process's memory", "error", err)
	}
}
