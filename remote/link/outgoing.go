package link

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// outgoing is one message of a link's stream on its way out.
//
// The body of an actor's message is, with strings, varints and bytes as in protocol buffers:
//
//	string id of the receiving actor, varint number of the request
//	if flagSender: string id of the sender, varint number of the request, and
//	  if flagElsewhere: string address of the sender, where it is not the sending task's
//	string full name of the protocol buffer's type
//	for each tensor
//	  varint dtype, varint rank, for each dimension a varint, fixed32 CRC-32C of the content, or,
//	  for elements that have no fixed size, varint 0, varint length, fixed32 CRC-32C of what follows
//	  the body for it: a tensorflow.TensorProto
//	the protocol buffer
//
// The tensors' contents follow the body, in order. Between tasks of one process neither the tensors'
// descriptions nor their contents are sent: see passage.
type outgoing struct {
	buf      []byte   // the head, the body, and the small contents
	pieces   [][]byte // all of the message, in order
	tensors  []*tensor.Tensor
	contents [][]byte // of the tensors
	size     int      // bytes of all pieces
	held     int      // bytes that it keeps while it waits: size, and the tensors that go as they are
	content  int      // bytes of the contents
	copied   int      // of these, those in buf
	handed   bool     // the tensors go as they are
	kind     kind
}

// Flags of an actor's message.
const (
	flagParcel    = 1 << iota // the receiver gets a *wire.Parcel
	flagSender                // there is a sender
	flagElsewhere             // of another address than the sending task's
	flagHanded                // the parcel's tensors are on the link's shelf
)

const (
	direct    = 16 << 10 // bytes from which a tensor's content is sent from its own memory
	keepBytes = 1 << 20  // bytes of a buffer that rests in the pool
)

var outgoings = sync.Pool{New: func() any { return new(outgoing) }}

// speak makes a message of a protocol buffer of the links' own; m may be nil.
func speak(k kind, m proto.Message) (*outgoing, error) {
	o := outgoings.Get().(*outgoing)
	o.kind = k
	o.buf = append(o.buf[:0], make([]byte, headSize)...)
	if m != nil {
		var err error
		if o.buf, err = (proto.MarshalOptions{}).MarshalAppend(o.buf, m); err != nil {
			o.free()
			return nil, err
		}
	}
	o.finish(&head{kind: k})
	return o, nil
}

// encode makes a message for an actor of another task. It takes over the references of the
// parcel's tensors, if message is one. self is this task's address. near tells that the other task is
// of this process.
func encode(self string, target *actor.PID, message any, sender *actor.PID, near bool) (*outgoing, error) {
	o := outgoings.Get().(*outgoing)
	o.kind = kindMessage
	h := head{kind: kindMessage}
	m, ok := message.(proto.Message)
	if p, is := message.(*wire.Parcel); is {
		m, ok = p.Message, true
		o.tensors, p.Tensors = append(o.tensors, p.Tensors...), nil
		h.flags, h.tensors = flagParcel, len(o.tensors)
		if o.handed = near && passes(o.tensors); o.handed {
			h.flags, h.tensors = flagParcel|flagHanded, 0
		}
	}
	if !ok || m == nil {
		o.free()
		return nil, errNoMessage
	}
	b := append(o.buf[:0], make([]byte, headSize)...)
	b = protowire.AppendString(b, target.Id)
	b = protowire.AppendVarint(b, uint64(target.RequestId))
	if sender != nil {
		h.flags |= flagSender
		b = protowire.AppendString(b, sender.Id)
		b = protowire.AppendVarint(b, uint64(sender.RequestId))
		if sender.Address != self {
			h.flags |= flagElsewhere
			b = protowire.AppendString(b, sender.Address)
		}
	}
	b = protowire.AppendString(b, string(m.ProtoReflect().Descriptor().FullName()))
	var err error
	if !o.handed {
		b, err = o.describe(b)
	}
	if err == nil {
		b, err = proto.MarshalOptions{}.MarshalAppend(b, m)
	}
	o.buf = b
	if err == nil && len(b)-headSize > maxBody {
		err = errTooLong
	}
	if err != nil {
		o.free()
		return nil, err
	}
	o.finish(&h)
	return o, nil
}

// describe appends what the body tells of the tensors, and finds their contents.
func (o *outgoing) describe(b []byte) ([]byte, error) {
	for _, t := range o.tensors {
		content := t.Data()
		if t.DType().Size() > 0 {
			b = protowire.AppendVarint(b, uint64(t.DType()))
			b = protowire.AppendVarint(b, uint64(t.Rank()))
			for _, d := range t.Shape() {
				b = protowire.AppendVarint(b, uint64(d))
			}
		} else {
			var err error
			if content, _, err = t.AppendWire(nil); err != nil {
				return b, err
			}
			b = protowire.AppendVarint(b, 0)
			b = protowire.AppendVarint(b, uint64(len(content)))
		}
		b = protowire.AppendFixed32(b, checksum(content))
		o.contents = append(o.contents, content)
	}
	return b, nil
}

// finish puts the head in front of the body, and makes the pieces of them and the contents, of
// which small ones are copied behind the body.
func (o *outgoing) finish(h *head) {
	h.body = len(o.buf) - headSize
	h.sum = checksum(o.buf[headSize:])
	h.put(o.buf)
	need := len(o.buf)
	for _, c := range o.contents {
		if len(c) < direct {
			need += len(c)
		}
	}
	if need > cap(o.buf) { // the pieces must not move
		o.buf = append(make([]byte, 0, need), o.buf...)
	}
	b, from := o.buf, 0
	for _, c := range o.contents {
		o.content += len(c)
		if len(c) < direct {
			b = append(b, c...)
			o.copied += len(c)
			continue
		}
		o.pieces = append(o.pieces, b[from:len(b):len(b)], c)
		from = len(b)
	}
	if from < len(b) {
		o.pieces = append(o.pieces, b[from:])
	}
	o.buf = b
	for _, p := range o.pieces {
		o.size += len(p)
	}
	o.held = o.size
	if o.handed {
		for _, t := range o.tensors {
			o.held += t.ByteSize()
		}
	}
}

// free lets go of the message's tensors and memory.
func (o *outgoing) free() {
	for _, t := range o.tensors {
		t.Release()
	}
	clear(o.tensors)
	clear(o.pieces)
	clear(o.contents)
	buf := o.buf
	if cap(buf) > keepBytes {
		buf = nil
	}
	*o = outgoing{buf: buf[:0], pieces: o.pieces[:0], tensors: o.tensors[:0], contents: o.contents[:0]}
	outgoings.Put(o)
}

var (
	errNoMessage = status.Internalf("only protocol buffers and parcels of them travel between tasks")
	errTooLong   = status.Errorf(status.ResourceExhausted, "A message for another task is longer than %d bytes.", maxBody)
)
