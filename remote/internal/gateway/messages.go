package gateway

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"slices"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// The messages that carry tensors encode and decode themselves: a fed tensor is copied once, from the wire into the memory that the step
// computes with, and a fetched one is sent from its own memory. Field numbers are those of tensorflow/core/protobuf/master.proto.

// runStepRequest is tensorflow.RunStepRequest.
type runStepRequest struct {
	actors.StepRequest
	session   string
	inBody    bool  // store_errors_in_response_body
	invalid   error // of the first fed value that cannot be accepted; nil if there is none
	requestID int64
	given     maphash.Hash // of the feeds, see answerKey
	gateway   *Gateway
	reader    wire.Reader
	response  runStepResponse
	writer    writer
}

// feedMemory finds the memory for the feeds of a message: that of its session. Nothing is allocated for a session that does not exist, and
// allocations count as the session's. The session is field 1 of the message, which clients write first. If feeds come before it, feedMemory
// scans the message for it.
type feedMemory struct {
	gateway *Gateway
	data    mem.BufferSlice
	named   bool // the message's own session has been read
	pool    *tensor.Pool
	looked  bool
}

// of returns the memory of the session, whose name is known if the message had it before its feeds; nil if there is no such session.
func (f *feedMemory) of(session string) *tensor.Pool {
	if f.looked {
		return f.pool
	}
	f.looked = true
	if !f.named {
		session = ""
		r := wire.NewReader(f.data)
		// Malformed data is reported when the message itself is read.
		_ = r.Fields(r.End(), func(num protowire.Number, typ protowire.Type) (known bool, err error) {
			if known = num == 1 && typ == protowire.BytesType; known {
				session, err = r.Text()
			}
			return known, err
		})
	}
	f.pool = f.gateway.feedMemory(session)
	return f.pool
}

// takeStep returns a request to decode into. It may reuse the memory of an earlier one, with the names in it: a client's next step often
// has the same names, which then need no allocation.
func (g *Gateway) takeStep() *runStepRequest {
	if q, _ := g.steps.Get().(*runStepRequest); q != nil {
		return q
	}
	q := &runStepRequest{gateway: g}
	q.given.SetSeed(givenSeed)
	q.writer.over = q.recycle
	return q
}

// recycle returns the request for reuse, with everything allocated for its answer.
func (m *runStepRequest) recycle() {
	m.StepRequest = actors.StepRequest{Feeds: m.Feeds[:0], Fetches: m.Fetches[:0], Targets: m.Targets[:0]}
	m.given.Reset()
	m.inBody, m.invalid, m.requestID, m.response = false, nil, 0, runStepResponse{}
	m.gateway.steps.Put(m)
}

// releaseFeeds releases the fed tensors.
func (m *runStepRequest) releaseFeeds() {
	for i := range m.Feeds {
		if f := &m.Feeds[i]; f.Tensor != nil {
			f.Tensor.Release()
			f.Tensor = nil
		}
	}
}

// UnmarshalWire decodes the message.
func (m *runStepRequest) UnmarshalWire(data mem.BufferSlice, ended func() error) error {
	r := &m.reader
	*r = wire.NewReader(data)
	r.Until(ended)
	r.Sum(&m.given)
	defer func() { *r = wire.Reader{} }()
	memory := feedMemory{gateway: m.gateway, data: data}
	err := r.Fields(r.End(), func(num protowire.Number, typ protowire.Type) (known bool, err error) {
		known = true
		switch {
		case num == 1 && typ == protowire.BytesType:
			m.session, err = r.TextLike(m.session)
			memory.named = true
		case num == 2 && typ == protowire.BytesType:
			m.Feeds = slices.Grow(m.Feeds, 1)[:len(m.Feeds)+1]
			f, before := &m.Feeds[len(m.Feeds)-1], r.Summed()
			if err = readNamedTensor(r, memory.of(m.session), f, &m.invalid); err == nil {
				hashText(&m.given, f.Name)
				hashTensor(&m.given, f.Tensor, r.Summed()-before)
			}
		case num == 3 && typ == protowire.BytesType:
			m.Fetches, err = appendText(m.Fetches, r)
		case num == 4 && typ == protowire.BytesType:
			m.Targets, err = appendText(m.Targets, r)
		case num == 5 && typ == protowire.BytesType:
			m.Options, err = readOptions(r)
		case num == 6 && typ == protowire.BytesType:
			m.Partial, err = r.Text()
		case num == 7 && typ == protowire.VarintType:
			var v uint64
			v, err = r.Varint()
			m.inBody = v != 0
		case num == 8 && typ == protowire.VarintType:
			var v uint64
			v, err = r.Varint()
			m.requestID = int64(v)
		default:
			known = false
		}
		return known, err
	})
	if !memory.named {
		m.session = "" // not that of an earlier request
	}
	if err != nil {
		m.releaseFeeds()
	}
	return err
}

// appendText reads one more string. It reuses the string behind the list's end if that is the same.
func appendText(list []string, r *wire.Reader) ([]string, error) {
	list = slices.Grow(list, 1)[:len(list)+1]
	last := &list[len(list)-1]
	var err error
	*last, err = r.TextLike(*last)
	return list, err
}

func readOptions(r *wire.Reader) (*corepb.RunOptions, error) {
	n, err := r.Length()
	if err != nil || n == 0 {
		return nil, err
	}
	b, err := r.Next(n)
	if err != nil {
		return nil, err
	}
	o := &corepb.RunOptions{}
	if err := proto.Unmarshal(b, o); err != nil {
		return nil, status.InvalidArgumentf("The request's run options are malformed: %v", err)
	}
	return o, nil
}

// readNamedTensor reads a tensorflow.NamedTensorProto. For invalid, see readTensor; for the name, see appendText.
func readNamedTensor(r *wire.Reader, pool *tensor.Pool, f *actors.Feed, invalid *error) error {
	before := f.Name
	*f = actors.Feed{}
	n, err := r.Length()
	if err != nil {
		return err
	}
	var wrong error
	err = r.Fields(n, func(num protowire.Number, typ protowire.Type) (known bool, err error) {
		switch {
		case num == 1 && typ == protowire.BytesType:
			f.Name, err = r.TextLike(before)
		case num == 2 && typ == protowire.BytesType:
			if f.Tensor != nil {
				return true, wire.ErrMalformed
			}
			f.Tensor, err = readTensor(r, pool, &wrong)
		default:
			return false, nil
		}
		return true, err
	})
	if wrong != nil && *invalid == nil {
		e := status.From(wrong)
		*invalid = status.Errorf(e.Code, "The value fed for %s cannot be accepted: %s", f.Name, e.Message)
	}
	return err
}

// readTensor reads a tensorflow.TensorProto. If a value cannot be accepted, because its sizes do not match or there is no memory for it,
// readTensor stores the reason in invalid and continues with the message: the client's step gets the reason as its error, whereas an error
// here would end the call as INTERNAL. A nil pool is that of an unknown session: the value is skipped.
func readTensor(r *wire.Reader, pool *tensor.Pool, invalid *error) (*tensor.Tensor, error) {
	n, err := r.Length()
	if err != nil {
		return nil, err
	}
	end := r.Offset() + n
	if pool == nil {
		*invalid = errNoSession
		return nil, r.Discard(n)
	}
	t, err := tensor.ReadWireUntil(r, n, pool, r.Wanted())
	if err != nil && r.Ended() == nil && r.Offset() <= end {
		if *invalid == nil {
			*invalid = err
		}
		return nil, r.Discard(end - r.Offset())
	}
	return t, err
}

// errNoSession is the error of feeds of an unknown session; the call itself fails with what is known of the session.
var errNoSession = status.New(status.Aborted, "The session of the request was not open when its feeds arrived.")

// runStepResponse is tensorflow.RunStepResponse. It owns the result until it has been written.
type runStepResponse struct {
	request *runStepRequest // its memory is reused once the message is written
	ctx     context.Context // the call's
	result  *actors.StepResult
	err     error // in the body; result is nil then
}

// MarshalWire encodes the message.
func (m *runStepResponse) MarshalWire() (mem.BufferSlice, error) {
	w := &m.request.writer
	w.begin()
	if m.err != nil {
		e := status.From(m.err)
		w.head = protowire.AppendTag(w.head, 3, protowire.VarintType)
		w.head = protowire.AppendVarint(w.head, uint64(e.Code))
		w.head = protowire.AppendTag(w.head, 4, protowire.BytesType)
		w.head = protowire.AppendString(w.head, e.Message)
		return w.end(), nil
	}
	defer m.result.Release()
	for i, t := range m.result.Tensors {
		head, content, err := appendUntil(m.ctx, w.scratch[:0], t)
		if err != nil {
			return nil, err
		}
		name := m.request.Fetches[i]
		inner := len(head) + len(content)
		outer := 1 + protowire.SizeBytes(len(name)) + 1 + protowire.SizeVarint(uint64(inner)) + inner
		w.head = protowire.AppendTag(w.head, 1, protowire.BytesType)
		w.head = protowire.AppendVarint(w.head, uint64(outer))
		w.head = protowire.AppendTag(w.head, 1, protowire.BytesType)
		w.head = protowire.AppendString(w.head, name)
		w.head = protowire.AppendTag(w.head, 2, protowire.BytesType)
		w.head = protowire.AppendVarint(w.head, uint64(inner))
		w.head = append(w.head, head...)
		w.content(t, content)
	}
	return w.metadata(m.result.Metadata)
}

const (
	// maxMessage is the largest message, in bytes, that TensorFlow's client accepts.
	maxMessage = math.MaxInt32
	// headBytes bounds what a fetched tensor with a few dimensions takes in a message besides its name and content.
	headBytes = 64
)

// sendable returns the result of a step, or RESOURCE_EXHAUSTED if it does not fit into one message. names are those of the result's
// tensors; nil if they have none.
func sendable(names []string, r *actors.StepResult, err error) (*actors.StepResult, error) {
	if err != nil {
		return nil, err
	}
	sum, largest := 0, 0
	for i, t := range r.Tensors {
		sum += headBytes + t.ByteSize()
		if names != nil {
			sum += len(names[i])
		}
		if t.ByteSize() > r.Tensors[largest].ByteSize() {
			largest = i
		}
	}
	if sum <= maxMessage {
		return r, nil
	}
	defer r.Release()
	name := fmt.Sprintf("number %d", largest)
	if names != nil {
		name = names[largest]
	}
	t := r.Tensors[largest]
	return nil, status.Errorf(status.ResourceExhausted, "The fetched tensors take %d bytes, more than the %d that fit into one answer; the largest of the %d is %s, "+
		"%v%v with %d bytes. Fetch them in several steps, large ones in slices or through a queue, or save them to a checkpoint.",
		sum, maxMessage, len(r.Tensors), name, t.DType(), t.Shape(), t.ByteSize())
}

// runCallableRequest is tensorflow.RunCallableRequest.
type runCallableRequest struct {
	session   string
	handle    int64
	feeds     []*tensor.Tensor
	requestID int64
	given     uint64 // a hash of the feeds, see answerKey
	invalid   error  // of the first fed value that cannot be accepted; nil if there is none
	gateway   *Gateway
}

func (m *runCallableRequest) release() {
	for _, t := range m.feeds {
		if t != nil {
			t.Release()
		}
	}
}

// UnmarshalWire decodes the message.
func (m *runCallableRequest) UnmarshalWire(data mem.BufferSlice, ended func() error) error {
	r := wire.NewReader(data)
	r.Until(ended)
	var given maphash.Hash
	given.SetSeed(givenSeed)
	r.Sum(&given)
	defer func() { m.given = given.Sum64() }()
	memory := feedMemory{gateway: m.gateway, data: data}
	err := r.Fields(r.End(), func(num protowire.Number, typ protowire.Type) (known bool, err error) {
		known = true
		var v uint64
		switch {
		case num == 1 && typ == protowire.BytesType:
			m.session, err = r.Text()
			memory.named = true
		case num == 2 && typ == protowire.VarintType:
			v, err = r.Varint()
			m.handle = int64(v)
		case num == 3 && typ == protowire.BytesType:
			var t *tensor.Tensor
			before := r.Summed()
			if t, err = readTensor(&r, memory.of(m.session), &m.invalid); err == nil {
				hashTensor(&given, t, r.Summed()-before)
				m.feeds = append(m.feeds, t)
			}
		case num == 4 && typ == protowire.VarintType:
			v, err = r.Varint()
			m.requestID = int64(v)
		default:
			known = false
		}
		return known, err
	})
	if err != nil {
		m.release()
	}
	return err
}

// runCallableResponse is tensorflow.RunCallableResponse.
type runCallableResponse struct {
	ctx    context.Context // the call's
	result *actors.StepResult
}

// MarshalWire encodes the message.
func (m *runCallableResponse) MarshalWire() (mem.BufferSlice, error) {
	defer m.result.Release()
	w := writer{}
	for _, t := range m.result.Tensors {
		head, content, err := appendUntil(m.ctx, w.scratch[:0], t)
		if err != nil {
			return nil, err
		}
		w.head = protowire.AppendTag(w.head, 1, protowire.BytesType)
		w.head = protowire.AppendVarint(w.head, uint64(len(head)+len(content)))
		w.head = append(w.head, head...)
		w.content(t, content)
	}
	return w.metadata(m.result.Metadata)
}

// appendUntil appends a fetched tensor while the client waits for it: encoding many variants takes seconds.
func appendUntil(ctx context.Context, dst []byte, t *tensor.Tensor) (head, content []byte, err error) {
	if t.DType() != tensor.Variant {
		return t.AppendWire(dst)
	}
	return t.AppendWireUntil(dst, func() error {
		if err := ctx.Err(); err != nil {
			return status.From(err)
		}
		return nil
	})
}

// writer assembles a message: small pieces in its own memory, large tensors in place.
type writer struct {
	done    mem.BufferSlice
	head    []byte
	scratch [128]byte
	over    func() // returns the writer for reuse; nil for a writer made for one message
}

const (
	// headRoom is the capacity, in bytes, of a reused writer's memory. (The transport does not report when buffers of less than 1 KiB have
	// been written.) Memory beyond maxHeadRoom is not reused.
	headRoom    = 2 << 10
	maxHeadRoom = 64 << 10
)

// begin allocates memory for small pieces.
func (w *writer) begin() {
	if cap(w.head) < headRoom {
		w.head = make([]byte, 0, headRoom)
	}
	w.head = w.head[:0]
}

// content appends a tensor's bytes.
func (w *writer) content(t *tensor.Tensor, b []byte) {
	if len(b) < wire.InPlace {
		w.head = append(w.head, b...)
		return
	}
	w.done = append(w.done, mem.SliceBuffer(w.head), wire.Lease(t, b))
	w.head = nil
}

// metadata appends RunMetadata, field 2 of both responses, and ends the message.
func (w *writer) metadata(md *corepb.RunMetadata) (mem.BufferSlice, error) {
	if md != nil {
		b, err := proto.Marshal(md)
		if err != nil {
			return nil, err
		}
		w.head = protowire.AppendTag(w.head, 2, protowire.BytesType)
		w.head = protowire.AppendBytes(w.head, b)
	}
	return w.end(), nil
}

// end returns the whole message. The memory of the last pieces is reused once the transport has written them, which is after all others.
func (w *writer) end() mem.BufferSlice {
	done := w.done
	w.done = nil
	if w.over == nil || cap(w.head) > maxHeadRoom || cap(w.head) < headRoom {
		return append(done, mem.SliceBuffer(w.head))
	}
	return append(done, mem.NewBuffer(&w.head, w))
}

// Get is never called: the pool only takes buffers back.
func (w *writer) Get(n int) *[]byte { b := make([]byte, n); return &b }

// Put takes back the memory of a written message.
func (w *writer) Put(*[]byte) { w.over() }
