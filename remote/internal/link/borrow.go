package link

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/samehost"
)

// memory is that of another process.
type memory interface {
	Read(dst []byte, address uint64) error
}

// attach finds the memory of an offer; it is a variable of the Links for tests.
func attach(offer []byte) (memory, error) {
	m, err := samehost.Attach(offer)
	if err != nil {
		return nil, err // not a nil *samehost.Memory
	}
	return m, nil
}

// borrowing is what a receiver of tensors knows of reading the sender's memory.
type borrowing struct {
	theirs []byte           // the sender's offer of its memory
	ours   *samehost.Advert // tells the sender who reads it; nil: nobody does
	memory memory           // of the sender, once it may be read
}

// present is this process's answer to an offer of memory; nil where it does not read others'.
func (in *arriving) present() []byte {
	if len(in.theirs) == 0 || in.links.config.NoLending {
		return nil
	}
	a, err := samehost.NewAdvert()
	if err != nil {
		in.links.log.Debug("others' memory cannot be read", "error", err)
		return nil
	}
	in.ours = a
	return a.Bytes()
}

// withdraw ends what present has begun.
func (in *arriving) withdraw() {
	if in.ours == nil {
		return
	}
	if err := in.ours.Close(); err != nil {
		in.links.log.Debug("closing a stream of tensors", "error", err)
	}
}

// attach says that the sender's memory can be read, if it can.
func (in *arriving) attach() error {
	if in.ours == nil {
		return status.InvalidArgumentf("A sender of tensors offered its memory without being asked.")
	}
	m, err := in.links.attach(in.theirs)
	if err != nil {
		in.links.log.Debug("a peer's memory cannot be read", "task", in.from.GetTask(), "error", err)
		return nil
	}
	in.memory = m
	return in.say(&frame{kind: frameReads})
}

// read takes a tensor out of the sender's memory.
func (in *arriving) read(f *frame) error {
	if in.memory == nil {
		return status.InvalidArgumentf("A sender of tensors lent one to a receiver that cannot read its memory.")
	}
	in.begin(f)
	kind := frameRead
	var err error
	if len(in.dst) > 0 {
		if err = in.memory.Read(in.dst, f.where); status.CodeOf(err) == status.Unavailable {
			in.finish(err) // the sender is gone
			return err
		}
	}
	if err != nil {
		in.links.log.Warn("a peer's memory cannot be read any more", "task", in.from.GetTask(), "error", err)
		kind = frameUnread
	} else {
		in.links.counters.bytesRead.Add(int64(len(in.dst)))
	}
	in.finish(err)
	return in.say(&frame{kind: kind, where: uint64(f.number)})
}
