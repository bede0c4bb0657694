package gateway

import (
	"fmt"
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

// The messages that carry tensors read and write themselves: a fed tensor is copied once, off the
// wire into the memory that the step computes with, and a fetched one leaves from its own memory.
// Field numbers are those of tensorflow/core/protobuf/master.proto.

// runStepRequest is tensorflow.RunStepRequest.
type runStepRequest struct {
	actors.StepRequest
	session   string
	inBody    bool  // store_errors_in_response_body
	invalid   error // the first fed value that cannot be taken, nil if all can
	requestID int64
	gateway   *Gateway
	reader    wire.Reader
	response  runStepResponse
	writer    writer
}

// feedMemory finds the memory for the feeds of a message: its session's, so that nothing is taken for a session that
// does not exist, and what is taken counts as the session's. The session is the message's field 1, which clients write
// first. Where feeds come before it, the message is looked through.
type feedMemory struct {
	gateway *Gateway
	data    mem.BufferSlice
	named   bool // the message's own session has been read
	pool    *tensor.Pool
	looked  bool
}

// of is the memory of the session, whose name was read if the message had it before; nil if there is no such session.
func (f *feedMemory) of(session string) *tensor.Pool {
	if f.looked {
		return f.pool
	}
	f.looked = true
	if !f.named {
		session = ""
		r := wire.NewReader(f.data)
		// What is malformed is found where the message itself is read.
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

// takeStep gives a request to read into. Its memory may be that of one before, whose names stay in it:
// a client's next step has often the same ones, which are not made again.
func (g *Gateway) takeStep() *runStepRequest {
	if q, _ := g.steps.Get().(*runStepRequest); q != nil {
		return q
	}
	q := &runStepRequest{gateway: g}
	q.writer.over = q.recycle
	return q
}

// recycle lets the memory be used again, with all that was made for the answer.
func (m *runStepRequest) recycle() {
	m.StepRequest = actors.StepRequest{Feeds: m.Feeds[:0], Fetches: m.Fetches[:0], Targets: m.Targets[:0]}
	m.inBody, m.invalid, m.requestID, m.response = false, nil, 0, runStepResponse{}
	m.gateway.steps.Put(m)
}

// releaseFeeds gives up the fed tensors.
func (m *runStepRequest) releaseFeeds() {
	for i := range m.Feeds {
		if f := &m.Feeds[i]; f.Tensor != nil {
			f.Tensor.Release()
			f.Tensor = nil
		}
	}
}

// UnmarshalWire reads the message.
func (m *runStepRequest) UnmarshalWire(data mem.BufferSlice) error {
	r := &m.reader
	*r = wire.NewReader(data)
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
			err = readNamedTensor(r, memory.of(m.session), &m.Feeds[len(m.Feeds)-1], &m.invalid)
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
		m.session = "" // not that of the request before
	}
	if err != nil {
		m.releaseFeeds()
	}
	return err
}

// appendText reads one more string, which may be the one that lies behind the list's end.
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

// readNamedTensor reads a tensorflow.NamedTensorProto. See readTensor for invalid, and appendText for
// the name.
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
		*invalid = status.Errorf(e.Code, "The value fed for %s cannot be taken: %s", f.Name, e.Message)
	}
	return err
}

// readTensor reads a tensorflow.TensorProto. Of a value that cannot be taken (its sizes do not fit,
// or there is no memory for it) the reason goes into invalid, and the message is read on: the
// client's step gets the answer, where an error here would only end its call as INTERNAL. A nil pool is that of an
// unknown session: the value is passed over.
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
	t, err := tensor.ReadWire(r, n, pool)
	if err != nil && r.Offset() <= end {
		if *invalid == nil {
			*invalid = err
		}
		return nil, r.Discard(end - r.Offset())
	}
	return t, err
}

// errNoSession is what feeds of an unknown session are refused with; the call itself fails with what is known of the
// session.
var errNoSession = status.New(status.Aborted, "The session of the request was not open when its feeds arrived.")

// runStepResponse is tensorflow.RunStepResponse. It owns the result until it has been written.
type runStepResponse struct {
	request *runStepRequest // whose memory is used again once the message is written
	result  *actors.StepResult
	err     error // in the body; result is nil then
}

// MarshalWire writes the message.
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
		head, content, err := t.AppendWire(w.scratch[:0])
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
	// maxMessage is the largest message that TensorFlow's client takes, in bytes.
	maxMessage = math.MaxInt32
	// headBytes is what a fetched tensor takes in a message beside its name and content, at most where
	// it has a few dimensions.
	headBytes = 64
)

// sendable gives what a step ended with, or RESOURCE_EXHAUSTED where its result does not fit into one
// message. names are those of the result's tensors; nil where they have none.
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
	invalid   error // the first fed value that cannot be taken, nil if all can
	gateway   *Gateway
}

func (m *runCallableRequest) release() {
	for _, t := range m.feeds {
		if t != nil {
			t.Release()
		}
	}
}

// UnmarshalWire reads the message.
func (m *runCallableRequest) UnmarshalWire(data mem.BufferSlice) error {
	r := wire.NewReader(data)
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
			if t, err = readTensor(&r, memory.of(m.session), &m.invalid); err == nil {
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
type runCallableResponse struct{ result *actors.StepResult }

// MarshalWire writes the message.
func (m *runCallableResponse) MarshalWire() (mem.BufferSlice, error) {
	defer m.result.Release()
	w := writer{}
	for _, t := range m.result.Tensors {
		head, content, err := t.AppendWire(w.scratch[:0])
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

// writer gathers a message's pieces: small ones in memory of its own, large tensors where they lie.
type writer struct {
	done    mem.BufferSlice
	head    []byte
	scratch [128]byte
	over    func() // lets the writer's memory be used again; nil for one that is made for a message
}

const (
	// inPlace is the size in bytes from which a tensor's content is sent from its own memory.
	inPlace = 16 << 10
	// headRoom is the capacity in bytes of a writer's memory that is used again. (Of less than 1 KiB the
	// transport's buffers do not tell when they are written.) Beyond maxHeadRoom it is not.
	headRoom    = 2 << 10
	maxHeadRoom = 64 << 10
)

// begin makes room for what is small.
func (w *writer) begin() {
	if cap(w.head) < headRoom {
		w.head = make([]byte, 0, headRoom)
	}
	w.head = w.head[:0]
}

// content appends a tensor's bytes.
func (w *writer) content(t *tensor.Tensor, b []byte) {
	if len(b) < inPlace {
		w.head = append(w.head, b...)
		return
	}
	w.done = append(w.done, mem.SliceBuffer(w.head), mem.NewBuffer(&b, lease{t.Retain()}))
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

// end gives the whole message. The memory of what was gathered last is used again when the transport
// has written it, which is after the rest.
func (w *writer) end() mem.BufferSlice {
	done := w.done
	w.done = nil
	if w.over == nil || cap(w.head) > maxHeadRoom || cap(w.head) < headRoom {
		return append(done, mem.SliceBuffer(w.head))
	}
	return append(done, mem.NewBuffer(&w.head, w))
}

// Get is never called: the pool only takes back.
func (w *writer) Get(n int) *[]byte { b := make([]byte, n); return &b }

// Put takes back the memory of a message that was written.
func (w *writer) Put(*[]byte) { w.over() }

// lease keeps a tensor's memory as it is until the transport has written it: the transport gives
// the buffer back to this pool of one.
type lease struct{ t *tensor.Tensor }

// Get is never called: the pool only takes back.
func (l lease) Get(n int) *[]byte { b := make([]byte, n); return &b }

// Put ends the lease.
func (l lease) Put(*[]byte) { l.t.Release() }
