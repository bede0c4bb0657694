package link

import (
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/wire"
)

// Sink takes what peers push.
type Sink interface {
	// Begin announces a push: size bytes for a step of the task from, in its process boot. It
	// gives the memory to fill, of exactly size bytes, and done, which is called once: with nil
	// when all bytes are there and their checksums fit, else with an error, after which the
	// memory may hold anything. An error of Begin, or nil memory and done, drops the push; its
	// bytes are read and forgotten. Pushes of one peer come one after another, those of several
	// peers concurrently. Begin must not keep header and must not wait: the peer's next pushes
	// stand behind it.
	Begin(from string, boot uint64, step uint64, header []byte, size int) (dst []byte, done func(error), err error)
}

// receive serves Bulk.
func (l *Links) receive(stream grpc.ServerStream) error {
	f := &frame{}
	if err := stream.RecvMsg(f); err != nil {
		return wire.FromGRPC(err)
	}
	kind, header := f.kind, f.header
	f.close()
	hello := &wire.Greeting{}
	if kind != frameHello || proto.Unmarshal(header, hello) != nil {
		return status.InvalidArgumentf("A stream of tensors must begin with a greeting.")
	}
	if err := l.admit(hello); err != nil {
		return err
	}
	from := hello.GetFrom()
	// The heartbeats of the sender's link are the watch over this stream: a sender that freezes
	// in the middle of a tensor would hold its memory for ever.
	alive := l.presence(from)
	if alive == nil {
		return status.Errorf(status.FailedPrecondition, "%s sends tensors without a link to %s", Describe(from), Describe(l.self))
	}
	in := &incoming{links: l, from: from}
	ended := make(chan error, 1)
	if !l.start(func() { ended <- in.run(stream) }) {
		return errClosed
	}
	select {
	case err := <-ended:
		return err
	case <-alive:
		return status.Errorf(status.Unavailable, "worker %s (%s) was lost while it sent tensors", from.GetTask(), from.GetAddress())
	case <-l.ending:
		return status.New(status.Unavailable, "The server is stopping.")
	}
}

// incoming is one peer's stream of tensors, and the one that is arriving.
type incoming struct {
	links  *Links
	from   *wire.Identity
	open   bool
	step   uint64
	total  uint64
	offset uint64
	dst    []byte // nil: read and forgotten
	done   func(error)
}

// run takes frames until the stream ends, or the handler returns, which ends it too.
func (in *incoming) run(stream grpc.ServerStream) error {
	defer func() {
		in.finish(status.Errorf(status.Unavailable, "worker %s (%s) was lost while it sent a tensor", in.from.GetTask(), in.from.GetAddress()))
	}()
	for {
		f := &frame{}
		if err := stream.RecvMsg(f); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return wire.FromGRPC(err)
		}
		err := in.take(f)
		f.close()
		if err != nil {
			in.links.log.Warn("a stream of tensors was ended", "task", in.from.GetTask(), "error", err)
			return err
		}
	}
}

func (in *incoming) take(f *frame) error {
	switch {
	case f.kind == frameBegin && !in.open && f.offset == 0:
		in.begin(f)
	case f.kind == frameAbandon && in.open:
		in.finish(status.Errorf(status.Aborted, "worker %s gave the tensor up", in.from.GetTask()))
		return nil
	case f.kind != frameMore || !in.open || f.step != in.step || f.total != in.total || f.offset != in.offset:
		return status.InvalidArgumentf("A frame of kind %d for bytes from %d on of step %d does not follow what came before.", f.kind, f.offset, f.step)
	}
	if in.dst != nil {
		if err := f.copyTo(in.dst[in.offset:]); err != nil {
			in.finish(err)
			return err
		}
	}
	in.offset += uint64(f.size())
	if in.offset == in.total {
		in.finish(nil)
	} else if f.size() == 0 {
		return status.InvalidArgumentf("A frame of step %d carries nothing.", f.step)
	}
	return nil
}

func (in *incoming) begin(f *frame) {
	*in = incoming{links: in.links, from: in.from, open: true, step: f.step, total: f.total}
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

// finish ends the tensor that is arriving, if there is one.
func (in *incoming) finish(err error) {
	if in.done != nil {
		in.done(err)
	}
	in.open, in.dst, in.done = false, nil, nil
}
