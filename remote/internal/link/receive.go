package link

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/graph/transfer"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// Sink receives what peers push.
type Sink interface {
	// Begin announces a push: size bytes for a step, from the process boot of the task from. It
	// returns the memory to fill, of exactly size bytes, and done, which is called once: with nil
	// when all bytes have arrived and their checksums match, else with an error. After an error the
	// memory may hold anything, and the push may begin again. If Begin returns an error, or nil memory
	// and done, the push is dropped: its bytes are read and discarded. Pushes of one peer come one after
	// another, those of several peers concurrently. Begin must not retain header and must not block:
	// the peer's next pushes wait behind it.
	Begin(from string, boot uint64, step uint64, header []byte, size int) (dst []byte, done func(error), err error)
	// Take receives a tensor, and ownership of its reference, for a step from a task of this process.
	// Calls for one peer come one after another.
	Take(step uint64, key transfer.Key, t *tensor.Tensor)
}

// receive serves a peer's stream of tensors.
func (l *Links) receive(ctx context.Context, s Stream) {
	ctx, early := l.hurry(ctx, s)
	in := &arriving{links: l, stream: s}
	owner, err := in.hello(ctx)
	if !early() {
		return
	}
	if err != nil {
		in.refuse(err)
		return
	}
	ended := make(chan struct{})
	if !l.start(func() { err = in.run(); close(ended) }) {
		in.refuse(errClosed)
		return
	}
	// The heartbeats of the sender's link monitor this stream too. Without them, a sender that freezes
	// in the middle of a tensor would hold its memory indefinitely.
	select {
	case <-ended:
		if err != nil {
			in.refuse(err)
		}
		return
	case <-owner.done: // the sender is gone and needs no refusal
	case <-l.ending:
		in.refuse(status.New(status.Unavailable, "The server is stopping."))
	}
	in.close()
	<-ended
}

// arriving is one peer's stream of tensors, and the tensor that is being received.
type arriving struct {
	links  *Links
	link   *link // with the sender; set by hello
	stream Stream
	from   *wire.Identity
	number uint32 // of the next frame
	buf    []byte
	packed []byte        // a compressed piece
	answer chan struct{} // capacity 1: holding its token permits answering

	answers uint32
	borrowing

	open  bool
	step  uint64
	total uint64
	where uint64
	dst   []byte // nil: the bytes are discarded
	done  func(error)
}

// hello reads and checks the sender's hello, answers it, and returns the link that the stream belongs to.
func (in *arriving) hello(ctx context.Context) (owner *accepted, err error) {
	in.answer = make(chan struct{}, 1)
	in.answer <- struct{}{}
	f, err := in.next()
	if err != nil {
		return nil, err
	}
	hello := &wire.Hello{}
	if f.kind != frameHello || proto.Unmarshal(f.header, hello) != nil {
		return nil, status.InvalidArgumentf("A stream of tensors must begin with a hello.")
	}
	if err := in.links.admit(hello.GetGreeting()); err != nil {
		return nil, err
	}
	in.from, in.theirs = hello.GetGreeting().GetFrom(), hello.GetMemory()
	if err := in.links.checkCaller(ctx, in.from); err != nil {
		return nil, err
	}
	owner = in.links.presence(in.from)
	if owner == nil || !owner.owns(hello.GetKey()) {
		return nil, status.Errorf(status.FailedPrecondition, "%s sends tensors without a link to %s", Describe(in.from), Describe(in.links.self))
	}
	owner.hear()
	in.link = owner.link
	header, err := proto.Marshal(&wire.Welcome{Memory: in.present()})
	if err != nil {
		return nil, err
	}
	return owner, in.answerWith(&frame{kind: frameWelcome, header: header})
}

func (in *arriving) next() (*frame, error) {
	f, err := readFrame(in.stream, in.number, &in.buf)
	in.number++
	return f, err
}

// answerWith answers with a frame.
func (in *arriving) answerWith(f *frame) error {
	<-in.answer
	defer func() { in.answer <- struct{}{} }()
	f.number = in.answers
	in.answers++
	return in.stream.Send(f.encode(nil, nil))
}

// refuse sends the sender the reason why its stream ends, if it still reads.
func (in *arriving) refuse(why error) {
	defer time.AfterFunc(goodbye, in.close).Stop()
	e := status.From(why)
	switch e.Code {
	case status.DataLoss, status.InvalidArgument:
		in.links.counters.framesRefused.Add(1)
		in.links.log.Warn("a stream of tensors was ended", "task", in.from.GetTask(), "error", why)
	}
	header, err := proto.Marshal(&wire.Welcome{Refusal: &wire.Refusal{Code: int32(e.Code), Message: e.Message}})
	if err == nil && len(header) <= maxHeader {
		err = in.answerWith(&frame{kind: frameWelcome, header: header})
	}
	if err != nil {
		in.links.log.Debug("a sender of tensors was not told why its stream ended", "error", err)
	}
}

// close ends the stream at once.
func (in *arriving) close() {
	if err := in.stream.Close(); err != nil {
		in.links.log.Debug("closing a stream of tensors", "error", err)
	}
}

// run handles frames until the stream ends.
func (in *arriving) run() error {
	defer func() {
		in.finish(status.Errorf(status.Unavailable, "worker %s (%s) was lost while it sent a tensor", in.from.GetTask(), in.from.GetAddress()))
	}()
	for {
		f, err := in.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = in.take(f)
		}
		if err != nil {
			return err
		}
	}
}

func (in *arriving) take(f *frame) error {
	switch {
	case f.kind == frameBegin && !in.open && f.where == 0:
		in.begin(f)
	case f.kind == frameLend && !in.open:
		return in.read(f)
	case f.kind == frameAllow && !in.open && in.memory == nil:
		return in.attach()
	case f.kind == frameAbandon && in.open:
		in.finish(status.Errorf(status.Aborted, "worker %s dropped the tensor", in.from.GetTask()))
		return nil
	case f.kind != frameMore || !in.open || f.step != in.step || f.total != in.total || f.where != in.where:
		return status.InvalidArgumentf("A frame of kind %d for bytes from %d on of step %d does not follow what came before.", f.kind, f.where, f.step)
	}
	if in.dst != nil {
		if err := f.piece(in.stream, in.dst[in.where:in.where+uint64(f.plain)], &in.packed); err != nil {
			if status.CodeOf(err) == status.DataLoss {
				in.finish(err)
			}
			return err
		}
	}
	in.links.counters.bytesReceived.Add(int64(f.size))
	in.link.traffic.bytesReceived.Add(int64(f.size))
	in.where += uint64(f.plain)
	if in.where == in.total {
		in.finish(nil)
	} else if f.size == 0 {
		return status.InvalidArgumentf("A frame of step %d carries nothing.", f.step)
	}
	return nil
}

func (in *arriving) begin(f *frame) {
	in.open, in.step, in.total, in.where, in.dst, in.done = true, f.step, f.total, 0, nil, nil
	sink := in.links.config.Sink
	if sink == nil {
		return
	}
	dst, done, err := sink.Begin(in.from.GetTask(), in.from.GetBoot(), f.step, f.header, int(f.total))
	switch {
	case err != nil:
		in.links.log.Debug("a tensor was dropped", "task", in.from.GetTask(), "step", f.step, "bytes", f.total, "error", err)
	case done != nil && uint64(len(dst)) != f.total:
		done(status.Internalf("The sink gave %d bytes for %d.", len(dst), f.total))
	case done != nil:
		in.dst, in.done = dst, done
		if dst == nil {
			in.dst = []byte{} // a tensor without elements
		}
	}
}

// finish ends the tensor that is being received, if any.
func (in *arriving) finish(err error) {
	if in.done != nil {
		in.done(err)
	}
	in.open, in.dst, in.done = false, nil, nil
}
