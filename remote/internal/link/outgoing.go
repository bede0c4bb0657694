package link

import (
	"fmt"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/internal/freed"
	remotewire "github.com/troupe-run/troupe/remote/internal/wire"
)

// outgoing is one outgoing message of a link's stream.
//
// A message to one of the runtime's actors is a MessageBatch of one. Its envelope has a field that describes
// the tensors that travel with it, in little endian and varints as in protocol buffers: for each tensor
//
//	varint dtype, varint rank, for each dimension a varint, fixed32 CRC-32C of the content, or,
//	for elements without a fixed size, varint 0, varint length, fixed32 CRC-32C of its content:
//	a tensorflow.TensorProto
//
// The tensors' contents follow the body, in order, as one field of bytes. Between tasks of one process
// neither the tensors' descriptions nor their contents are sent: see handoff.
type outgoing struct {
	buf      []byte   // the head, the body, and the small contents
	head     []byte   // in buf, if it is not at its beginning
	pieces   [][]byte // all of the message, in order
	tensors  []*tensor.Tensor
	contents [][]byte // of the tensors
	size     int      // bytes of all pieces
	held     int      // bytes that it retains while it waits: size, and the tensors that are handed over
	content  int      // bytes of the contents
	copied   int      // bytes of the contents that were copied into buf
	handed   bool     // the tensors are handed over within the process
	forms    []byte   // the tensors' descriptions
	kind     kind
	count    int  // actors' messages in it
	plain    bool // it has no head: the other end knows nothing of links
}

// Flags of an actor's message.
const (
	flagParcel = 1 << iota // the receiver gets a *wire.Parcel
	flagHanded             // the parcel's tensors are handed over within the process
)

const (
	direct    = 16 << 10 // bytes from which a tensor's content is sent from its own memory
	keepBytes = 1 << 20  // capacity up to which a buffer is kept for reuse
)

var outgoings = sync.Pool{New: func() any { return new(outgoing) }}

// encodeControl returns one of a link's control messages. m is its content and may be nil.
func encodeControl(k kind, flags byte, m proto.Message) (*outgoing, error) {
	o := newOutgoing(k)
	if m != nil {
		speech, err := proto.Marshal(m)
		if err != nil {
			o.free()
			return nil, err
		}
		field, said := protowire.Number(fieldLeave), []byte(nil)
		switch m := m.(type) {
		case *remotewire.Hello:
			from := m.GetGreeting().GetFrom()
			server := appendStringField(nil, fieldSystem, systemID(from.GetBoot()))
			server = appendStringField(server, fieldAddress, from.GetAddress())
			field, said = fieldConnect, appendBytesField(nil, fieldServer, server)
		case *remotewire.Welcome:
			field, said = fieldWelcome, appendStringField(nil, fieldMember, systemID(m.GetIdentity().GetBoot()))
			if m.GetRefusal() != nil {
				said = appendNumberField(said, fieldBlocked, 1)
			}
		case *remotewire.Challenge:
			field = fieldWelcome
		case *remotewire.Proof:
			field = fieldConnect
		}
		o.buf = appendBytesField(o.buf, field, appendBytesField(said, fieldSpeech, speech))
	}
	o.finish(&head{kind: k, flags: flags})
	return o, nil
}

// systemID returns the name of a process in protoactor's protocol.
func systemID(boot uint64) string { return fmt.Sprintf("%016x", boot) }

// decodeControl decodes m from the body of a message that encodeControl has encoded.
func decodeControl(body []byte, m proto.Message) error {
	_, said, _, rest, ok := nextField(body)
	if !ok || len(rest) > 0 {
		return errSpeech
	}
	for len(said) > 0 {
		number, value, _, rest, ok := nextField(said)
		if !ok {
			return errSpeech
		}
		if number == fieldSpeech {
			return proto.Unmarshal(value, m)
		}
		said = rest
	}
	return errSpeech
}

var errSpeech = status.InvalidArgumentf("A control message of a link is malformed.")

func newOutgoing(k kind) *outgoing {
	o := outgoings.Get().(*outgoing)
	o.kind = k
	o.buf = append(o.buf[:0], make([]byte, headSize)...)
	return o
}

// encode returns a message for an actor of another task. If message is a parcel, encode takes over the
// references of its tensors. near means that the other task runs in this process.
func encode(target *actor.PID, message any, sender *actor.PID, header map[string]string, near bool) (*outgoing, error) {
	o := newOutgoing(kindMessage)
	o.count = 1
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
	contents, err := 0, error(nil)
	if !o.handed {
		contents, err = o.describe()
	}
	if err == nil {
		err = o.envelop(target, m, sender, writeHeader(header))
	}
	if err == nil && contents > 0 {
		o.buf = protowire.AppendTag(o.buf, fieldContents, protowire.BytesType)
		o.buf = protowire.AppendVarint(o.buf, uint64(contents))
	}
	if err == nil && len(o.buf)-headSize > maxBody {
		err = errTooLong
	}
	if err != nil {
		o.free()
		return nil, err
	}
	o.finish(&h)
	return o, nil
}

// envelop appends a MessageBatch of one message.
func (o *outgoing) envelop(target *actor.PID, m proto.Message, sender *actor.PID, header []byte) error {
	name := string(m.ProtoReflect().Descriptor().FullName())
	data := proto.Size(m)
	inside := 1 + protowire.SizeBytes(data)
	if sender != nil {
		inside += 2
		inside += sizeNumber(uint64(sender.RequestId))
	}
	inside += sizeNumber(uint64(target.RequestId))
	if len(header) > 0 {
		inside += 1 + protowire.SizeBytes(len(header))
	}
	if len(o.forms) > 0 {
		inside += protowire.SizeTag(fieldTensors) + protowire.SizeBytes(len(o.forms))
	}
	all := 1 + protowire.SizeBytes(len(name)) + 1 + protowire.SizeBytes(sizeAddress(target.Address, target.Id)) + 1 + protowire.SizeBytes(inside)
	if sender != nil {
		all += 1 + protowire.SizeBytes(sizeAddress(sender.Address, sender.Id))
	}
	b := protowire.AppendTag(o.buf, fieldBatch, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(all))
	end := len(b) + all
	b = appendStringField(b, fieldTypes, name)
	b = appendAddress(b, fieldTargets, target.Address, target.Id)
	if sender != nil {
		b = appendAddress(b, fieldSenders, sender.Address, sender.Id)
	}
	b = protowire.AppendTag(b, fieldEnvelopes, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(inside))
	if sender != nil {
		b = appendNumberField(b, fieldSender, 1)
		b = appendNumberField(b, fieldSenderRequest, uint64(sender.RequestId))
	}
	b = appendNumberField(b, fieldTargetRequest, uint64(target.RequestId))
	if len(header) > 0 {
		b = appendBytesField(b, fieldHeader, header)
	}
	if len(o.forms) > 0 {
		b = appendBytesField(b, fieldTensors, o.forms)
	}
	b = protowire.AppendTag(b, fieldData, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(data))
	b, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, m)
	o.buf = b
	if err == nil && len(b) != end {
		err = status.Internalf("the message %s was modified while it was being sent", name)
	}
	return err
}

// sizeNumber returns the size of a number field with a tag of one byte.
func sizeNumber(v uint64) int {
	if v == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(v)
}

// describe encodes the tensors' descriptions and collects their contents, whose total size it returns.
func (o *outgoing) describe() (size int, err error) {
	b := o.forms[:0]
	for _, t := range o.tensors {
		content := t.Data()
		if t.DType().Size() > 0 {
			b = protowire.AppendVarint(b, uint64(t.DType()))
			b = protowire.AppendVarint(b, uint64(t.Rank()))
			for _, d := range t.Shape() {
				b = protowire.AppendVarint(b, uint64(d))
			}
		} else {
			head, apart, err := t.AppendWire(nil)
			if err != nil {
				return 0, err
			}
			content = append(head, apart...)
			b = protowire.AppendVarint(b, 0)
			b = protowire.AppendVarint(b, uint64(len(content)))
		}
		b = protowire.AppendFixed32(b, checksum(content))
		o.contents = append(o.contents, content)
		size += len(content)
	}
	o.forms = b
	return size, nil
}

// finish puts the head in front of the body and divides the message into pieces. Small contents are
// copied behind the body.
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
	if need > cap(o.buf) { // grow now: the pieces refer to buf
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

// free releases the message's tensors and memory.
func (o *outgoing) free() {
	for _, t := range o.tensors {
		t.Release()
	}
	clear(o.tensors)
	clear(o.pieces)
	clear(o.contents)
	buf := o.buf
	freed.Overwrite(buf)
	if cap(buf) > keepBytes {
		buf = nil
	}
	*o = outgoing{buf: buf[:0], pieces: o.pieces[:0], tensors: o.tensors[:0], contents: o.contents[:0], forms: o.forms[:0]}
	outgoings.Put(o)
}

var (
	errNoMessage = status.Internalf("only protocol buffers and parcels of them travel between tasks")
	errTooLong   = status.Errorf(status.ResourceExhausted, "A message for another task is longer than %d bytes.", maxBody)
)
