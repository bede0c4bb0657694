package link

import (
	"encoding/binary"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/internal/freed"
)

// inbound reads the messages of a link's stream. It is used by one goroutine at a time.
type inbound struct {
	stream     Stream
	pool       *tensor.Pool // of tensors
	localQueue *localQueue  // of tensors from a task of this process; nil: the task is in another process
	count      *counters
	traffic    *traffic // with the other task, once it is known
	number     uint32
	head       [headSize]byte
	buf        []byte // of bodies
	forms      []form
	dims       []int64 // of all forms
	types      map[string]protoreflect.MessageType
	here       pids // actors of this task that receive messages
	there      pids // actors of the other task that send them
	batch      batch
}

// letter is a received actor's message.
type letter struct {
	target  *actor.PID
	sender  *actor.PID // nil: no sender
	message any        // a proto.Message or a *wire.Parcel
	header  map[string]string
}

// form is a message's description of one of its tensors.
type form struct {
	dtype tensor.DType // 0: encoded
	shape tensor.Shape
	size  int // bytes of the content
	sum   uint32
}

func newInbound(s Stream, pool *tensor.Pool, count *counters, self, other string) *inbound {
	return &inbound{stream: s, pool: pool, count: count, traffic: &traffic{}, types: map[string]protoreflect.MessageType{},
		here: pids{address: self, written: self}, there: pids{address: other, written: other}}
}

// next reads a message: its head, and its body, which is valid until the next call. Errors of the
// connection are returned as they are, io.EOF at the end of the stream. A bad message is
// INVALID_ARGUMENT or DATA_LOSS.
func (in *inbound) next() (h head, body []byte, contents int, err error) {
	n, err := in.stream.Next()
	if err != nil {
		return h, nil, 0, err
	}
	if n < headSize || n > maxContents {
		return h, nil, 0, status.InvalidArgumentf("A message of %d bytes is impossible.", n)
	}
	if err := readAll(in.stream, in.head[:]); err != nil {
		return h, nil, 0, err
	}
	return in.rest(n)
}

// rest reads a message of n bytes whose head has been read.
func (in *inbound) rest(n int) (h head, body []byte, contents int, err error) {
	if h, err = readHead(in.head[:], n, in.number); err != nil {
		return h, nil, 0, err
	}
	in.number++
	freed.Overwrite(in.buf)
	if cap(in.buf) > keepBytes {
		in.buf = nil
	}
	if in.buf, err = readGrowing(in.stream, in.buf, h.body); err != nil {
		return h, nil, 0, err
	}
	if checksum(in.buf) != h.sum {
		return h, nil, 0, status.New(status.DataLoss, "The checksum of a message's body is wrong.")
	}
	return h, in.buf, n - headSize - h.body, nil
}

var errLetter = status.InvalidArgumentf("An actor's message is malformed.")

// letter decodes an actor's message and reads its tensors.
func (in *inbound) letter(h head, body []byte, contents int) (l letter, err error) {
	number, data, _, rest, ok := nextField(body)
	if !ok || number != fieldBatch {
		return l, errLetter
	}
	if contents > 0 {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 || number != fieldContents || kind != protowire.BytesType {
			return l, errLetter
		}
		size, m := protowire.ConsumeVarint(rest[n:])
		if m < 0 || size != uint64(contents) {
			return l, errLetter
		}
		rest = rest[n+m:]
	}
	if err := in.batch.read(data); err != nil {
		return l, err
	}
	handed := h.flags&flagHanded != 0
	if len(rest) > 0 || len(in.batch.envelopes) != 1 || h.flags&^(flagParcel|flagHanded) != 0 || (h.tensors > 0 || handed) && h.flags&flagParcel == 0 ||
		handed && (h.tensors > 0 || in.localQueue == nil) {
		return l, errLetter
	}
	var e envelope
	if err := e.read(&in.batch, in.batch.envelopes[0]); err != nil {
		return l, err
	}
	if string(e.target.host) != in.here.written || e.serializer != 0 {
		return l, errLetter
	}
	l.target = in.here.get(e.target)
	if len(e.sender.name) > 0 {
		l.sender = in.there.get(e.sender)
	}
	if l.header, err = readHeader(e.header); err != nil {
		return l, err
	}
	m, err := in.message(e.kind)
	if err != nil {
		return l, err
	}
	r := fields{b: e.tensors}
	if err := in.describe(&r, h.tensors, contents); err != nil {
		return l, err
	}
	if err := tensor.Unmarshal(e.data, m); err != nil {
		return l, status.InvalidArgumentf("An actor's message is not a %s: %v", e.kind, err)
	}
	switch m := m.(type) { // the messages that contain addresses of actors
	case *actor.Watch:
		in.there.translate(m.GetWatcher())
	case *actor.Unwatch:
		in.there.translate(m.GetWatcher())
	case *actor.Terminated:
		in.there.translate(m.GetWho())
	}
	l.message = m
	if h.flags&flagParcel != 0 {
		var tensors []*tensor.Tensor
		if handed {
			tensors, err = in.localQueue.take(h.number)
		} else {
			tensors, err = in.tensors()
		}
		if err != nil {
			return l, err
		}
		l.message = &wire.Parcel{Message: m, Tensors: tensors}
	}
	return l, nil
}

// message returns an empty message of the named type.
func (in *inbound) message(name []byte) (proto.Message, error) {
	t := in.types[string(name)]
	if t == nil {
		var err error
		if t, err = protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(name)); err != nil {
			return nil, status.InvalidArgumentf("An actor's message is of the unknown type %q.", name)
		}
		in.types[string(name)] = t
	}
	return t.New().Interface(), nil
}

// describe reads the forms of n tensors, and checks that their sizes add up to contents.
func (in *inbound) describe(r *fields, n, contents int) error {
	in.forms, in.dims = in.forms[:0], in.dims[:0]
	for range n {
		f := form{dtype: tensor.DType(r.varint())}
		var size uint64
		if f.dtype != 0 {
			rank := r.varint()
			if f.dtype.Size() == 0 || rank > tensor.MaxRank {
				return errLetter
			}
			from := len(in.dims)
			for range rank {
				in.dims = append(in.dims, int64(r.varint()))
			}
			f.shape = in.dims[from:len(in.dims):len(in.dims)]
			elements, err := f.shape.NumElements()
			if err != nil || elements > maxContents/int64(f.dtype.Size()) {
				return errLetter
			}
			size = uint64(elements) * uint64(f.dtype.Size())
		} else {
			size = r.varint()
		}
		f.sum = r.fixed32()
		if r.bad || size > uint64(contents) {
			return errLetter
		}
		f.size = int(size)
		contents -= f.size
		in.forms = append(in.forms, f)
	}
	if r.bad || contents != 0 || len(r.b) > 0 {
		return errLetter
	}
	return nil
}

// tensors reads the contents of the tensors in in.forms.
func (in *inbound) tensors() (out []*tensor.Tensor, err error) {
	if len(in.forms) == 0 {
		return nil, nil
	}
	out = make([]*tensor.Tensor, 0, len(in.forms))
	for i := range in.forms {
		t, err := in.tensor(&in.forms[i])
		if err != nil {
			for _, t := range out {
				t.Release()
			}
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

var errContent = status.New(status.DataLoss, "The checksum of a tensor in an actor's message is wrong.")

func (in *inbound) tensor(f *form) (*tensor.Tensor, error) {
	in.count.bytesReceived.Add(int64(f.size))
	in.traffic.bytesReceived.Add(int64(f.size))
	if f.dtype == 0 {
		b, err := readGrowing(in.stream, nil, f.size)
		if err != nil {
			return nil, err
		}
		if checksum(b) != f.sum {
			return nil, errContent
		}
		in.count.bytesCopied.Add(int64(f.size))
		return tensor.ReadWire(tensor.NewBytes(b), len(b), in.pool)
	}
	t, err := tensor.New(in.pool, f.dtype, f.shape)
	if status.CodeOf(err) == status.ResourceExhausted && in.pool != tensor.Host {
		// Do not lose a message to a device's memory limit, which is enforced when large tensors are pushed.
		t, err = tensor.New(tensor.Host, f.dtype, f.shape)
	}
	if err != nil {
		return nil, err
	}
	if err = readAll(in.stream, t.Data()); err == nil && checksum(t.Data()) != f.sum {
		err = errContent
	}
	if err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}

// fields reads the fields of a body, and records whether one was missing.
type fields struct {
	b   []byte
	bad bool
}

func (r *fields) take(n int) {
	if n < 0 {
		r.b, r.bad = nil, true
		return
	}
	r.b = r.b[n:]
}

func (r *fields) varint() uint64 {
	v, n := protowire.ConsumeVarint(r.b)
	r.take(n)
	return v
}

func (r *fields) fixed32() uint32 {
	if len(r.b) < 4 {
		r.take(-1)
		return 0
	}
	v := binary.LittleEndian.Uint32(r.b)
	r.b = r.b[4:]
	return v
}

// maxPIDs bounds the addresses of actors that an end of a link remembers.
const maxPIDs = 256

// pids caches the PIDs of actors. A further message to or from the same actor needs neither an allocation nor
// the actor system's look-up.
type pids struct {
	address string // of their task, as this task writes it
	written string // the same address, as the other task writes it in its messages
	known   map[string]*actor.PID
}

// translate replaces the address in a PID of the task by the one that this side writes.
func (p *pids) translate(pid *actor.PID) {
	if pid.GetAddress() == p.written && pid != nil {
		pid.Address = p.address
	}
}

func (p *pids) get(a address) *actor.PID {
	if a.request != 0 || string(a.host) != p.written || strings.HasPrefix(string(a.name), "future") {
		host := p.address
		if string(a.host) != p.written {
			host = string(a.host)
		}
		pid := actor.NewPID(host, string(a.name)) // used once: not cached
		pid.RequestId = a.request
		return pid
	}
	pid := p.known[string(a.name)]
	if pid == nil {
		if p.known == nil || len(p.known) >= maxPIDs {
			p.known = map[string]*actor.PID{}
		}
		pid = actor.NewPID(p.address, string(a.name))
		p.known[pid.Id] = pid
	}
	return pid
}
