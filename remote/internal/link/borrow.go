package link

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/samehost"
)

// memory is the memory of another process.
type memory interface {
	Read(dst []byte, ticket uint64) error
}

// attach opens the memory of an offer. Links call it through a field, which tests replace.
func attach(offer []byte, parties string) (memory, error) {
	m, err := samehost.Attach(offer, parties)
	if err != nil {
		return nil, err // not a nil *samehost.Memory
	}
	return m, nil
}

// borrowing is a receiver's state for reading tensors from the sender's memory.
type borrowing struct {
	theirs []byte // the sender's offer of its memory
	asked  bool   // this process has asked the sender for permission to read it
	memory memory // of the sender, once it may be read
}

// present returns this process's answer to an offer of memory: its identity as the reader. It returns nil if this
// process does not read the memory.
func (in *arriving) present() []byte {
	if len(in.theirs) == 0 || in.links.config.NoLending {
		return nil
	}
	self, err := samehost.Self()
	if err != nil {
		in.links.log.Debug("others' memory cannot be read", "error", err)
		return nil
	}
	in.asked = true
	return self
}

// attach opens the sender's memory and, if that works, tells the sender that it can be read.
func (in *arriving) attach() error {
	if !in.asked {
		return status.InvalidArgumentf("A sender of tensors offered its memory without being asked.")
	}
	m, err := in.links.attach(in.theirs, parties(in.from, in.links.self))
	if err != nil {
		in.links.log.Debug("a peer's memory cannot be read", "task", in.from.GetTask(), "error", err)
		return nil
	}
	in.memory = m
	return in.answerWith(&frame{kind: frameReads})
}

// read reads a tensor from the sender's memory.
func (in *arriving) read(f *frame) error {
	if in.memory == nil {
		return status.InvalidArgumentf("A sender of tensors lent one to a receiver that cannot read its memory.")
	}
	in.begin(f)
	var err error
	if len(in.dst) > 0 {
		err = in.memory.Read(in.dst, f.where)
	}
	answer := &frame{kind: frameRead, where: uint64(f.number)}
	switch status.CodeOf(err) {
	case status.OK:
		in.links.counters.bytesRead.Add(int64(len(in.dst)))
		in.link.traffic.bytesReceived.Add(int64(len(in.dst)))
	case status.Unavailable, status.InvalidArgument: // the sender is gone, or the ticket was not lent
		in.finish(err)
		return err
	default:
		in.links.log.Warn("a peer's memory cannot be read any more", "task", in.from.GetTask(), "error", err)
		answer.kind = frameUnread
	}
	in.finish(err)
	return in.answerWith(answer)
}
