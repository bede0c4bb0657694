package link

import (
	"fmt"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/samehost"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

const (
	// lendSize is the size in bytes from which a tensor for a process of this machine is not sent
	// but read from the sender's memory.
	lendSize = 128 << 10
	// maxLent bounds the bytes that a peer has not read yet of those that were lent to it, unless it
	// is one tensor.
	maxLent = 64 << 20
)

// lending is what a bulk knows of lending tensors to the peer instead of sending them. It waits
// for the receiver to say that it can read this process's memory.
type lending struct {
	advert *samehost.Advert // the offer to the peer; nil: none. The sender's.

	// Guarded by bulk.mu.
	reads     bool             // the peer can, and has not failed to
	allowed   bool             // it is to be told that it may
	lent      map[uint32]*push // by the number of their frames
	lentBytes int
}

// parties says who lends to whom. Both ends know that from the link's handshake: an offer of memory is good between
// these two processes alone.
func parties(owner, reader *wire.Identity) string {
	return fmt.Sprintf("%q at %q, boot %016x, lends to %q at %q, boot %016x",
		owner.GetTask(), owner.GetAddress(), owner.GetBoot(), reader.GetTask(), reader.GetAddress(), reader.GetBoot())
}

// advertise makes an offer of this process's memory; nil if there is none.
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

// allow lets the peer read this process's memory, if it asks for that.
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

// lends tells whether a push is to be lent. b.mu is held.
func (b *bulk) lends(p *push) bool { return b.reads && len(p.data) >= lendSize }

// lentRoom tells whether a push may be lent now. b.mu is held.
func (b *bulk) lentRoom(p *push) bool {
	return b.lentBytes == 0 || b.lentBytes+len(p.data) <= maxLent
}

// lend lends a push, and makes the frame that says so; nil where it cannot be lent.
func (b *bulk) lend(p *push) *frame {
	b.mu.Lock()
	defer b.mu.Unlock()
	// The memory is the Go heap's, or stays where it is for other reasons, as long as the push
	// refers to it.
	ticket, ok := b.advert.Lend(p.data)
	if !ok {
		return nil
	}
	p.ticket = ticket
	b.lent[b.number] = p
	b.lentBytes += len(p.data)
	return &frame{kind: frameLend, step: p.step, header: p.header, total: uint64(len(p.data)), where: ticket}
}

// lentAnswer takes what the receiver says of lent tensors.
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

// withdraw ends the offer: from then on no read succeeds, so that the memory may be used again.
func (b *bulk) withdraw() {
	if b.advert == nil {
		return
	}
	if err := b.advert.Close(); err != nil {
		b.peer.link.links.log.Debug("withdrawing the offer of this process's memory", "error", err)
	}
}
