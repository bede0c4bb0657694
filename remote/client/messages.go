package client

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
)

// Messages that carry tensors are encoded and decoded here, so that only small parts are copied. Field numbers are those of
// tensorflow/core/protobuf/master.proto.

// inPlace is the size in bytes from which a tensor's content is sent from its own memory.
const inPlace = 16 << 10

// writer assembles a request: small parts in its own memory, and the contents of tensors in place.
type writer struct {
	buf    []byte
	cuts   []cut
	pieces [][]byte
	room   [128]byte
}

// cut is content that belongs between the bytes of a writer's memory.
type cut struct {
	at      int
	content []byte
}

func (w *writer) reset() {
	clear(w.cuts)
	clear(w.pieces)
	w.buf, w.cuts, w.pieces = w.buf[:0], w.cuts[:0], w.pieces[:0]
}

func (w *writer) text(field protowire.Number, s string) {
	w.buf = protowire.AppendTag(w.buf, field, protowire.BytesType)
	w.buf = protowire.AppendString(w.buf, s)
}

func (w *writer) number(field protowire.Number, v int64) {
	w.buf = protowire.AppendTag(w.buf, field, protowire.VarintType)
	w.buf = protowire.AppendVarint(w.buf, uint64(v))
}

// message appends a message.
func (w *writer) message(field protowire.Number, m proto.Message) error {
	b, err := proto.Marshal(m)
	if err != nil {
		return status.InvalidArgumentf("The request cannot be sent: %v", err)
	}
	w.buf = protowire.AppendTag(w.buf, field, protowire.BytesType)
	w.buf = protowire.AppendBytes(w.buf, b)
	return nil
}

// tensor appends a tensorflow.TensorProto.
func (w *writer) tensor(field protowire.Number, t *tensor.Tensor) error {
	head, content, err := t.AppendWire(w.room[:0])
	if err == nil {
		w.value(field, head, content)
	}
	return err
}

func (w *writer) value(field protowire.Number, head, content []byte) {
	w.buf = protowire.AppendTag(w.buf, field, protowire.BytesType)
	w.buf = protowire.AppendVarint(w.buf, uint64(len(head)+len(content)))
	w.buf = append(w.buf, head...)
	if len(content) < inPlace {
		w.buf = append(w.buf, content...)
		return
	}
	w.cuts = append(w.cuts, cut{len(w.buf), content})
}

// named appends a tensorflow.NamedTensorProto.
func (w *writer) named(field protowire.Number, name string, t *tensor.Tensor) error {
	head, content, err := t.AppendWire(w.room[:0])
	if err != nil {
		return status.Errorf(status.CodeOf(err), "The value fed for %s cannot be sent: %s", name, status.From(err).Message)
	}
	w.buf = protowire.AppendTag(w.buf, field, protowire.BytesType)
	w.buf = protowire.AppendVarint(w.buf, uint64(1+protowire.SizeBytes(len(name))+1+protowire.SizeBytes(len(head)+len(content))))
	w.text(1, name)
	w.value(2, head, content)
	return nil
}

// end returns the request's pieces, which are valid until the writer is reset.
func (w *writer) end() [][]byte {
	from := 0
	for _, c := range w.cuts {
		w.pieces = append(w.pieces, w.buf[from:c.at], c.content)
		from = c.at
	}
	w.pieces = append(w.pieces, w.buf[from:])
	return w.pieces
}

// answer is a tensorflow.RunStepResponse or RunCallableResponse.
type answer struct {
	fetched  []*tensor.Tensor // by position; nil for those not received
	metadata *corepb.RunMetadata
	code     status.Code
	text     string
}

func (a *answer) release() {
	for i, t := range a.fetched {
		if t != nil {
			t.Release()
			a.fetched[i] = nil
		}
	}
}

// readStep reads a RunStepResponse, whose tensors come in any order, and stores them by name.
func (a *answer) readStep(r *wire.Reader, names []string) error {
	return r.Fields(r.End(), func(num protowire.Number, typ protowire.Type) (known bool, err error) {
		known = true
		switch {
		case num == 1 && typ == protowire.BytesType:
			err = a.readNamed(r, names)
		case num == 2 && typ == protowire.BytesType:
			err = a.readMetadata(r)
		case num == 3 && typ == protowire.VarintType:
			var v uint64
			v, err = r.Varint()
			a.code = status.Code(v)
		case num == 4 && typ == protowire.BytesType:
			a.text, err = r.Text()
		default:
			known = false
		}
		return known, err
	})
}

// readNamed reads a tensorflow.NamedTensorProto, whose name comes first.
func (a *answer) readNamed(r *wire.Reader, names []string) error {
	n, err := r.Length()
	if err != nil {
		return err
	}
	at := -1
	return r.Fields(n, func(num protowire.Number, typ protowire.Type) (known bool, err error) {
		switch {
		case num == 1 && typ == protowire.BytesType:
			at, err = a.place(r, names)
			return true, err
		case num == 2 && typ == protowire.BytesType && at >= 0 && a.fetched[at] == nil:
			a.fetched[at], err = readTensor(r)
			return true, err
		}
		return false, nil
	})
}

// place reads the name of a fetched tensor and returns its position.
func (a *answer) place(r *wire.Reader, names []string) (int, error) {
	n, err := r.Length()
	if err != nil {
		return 0, err
	}
	name, err := r.Next(n)
	if err != nil {
		return 0, err
	}
	for i := range names {
		if names[i] == string(name) && a.fetched[i] == nil {
			return i, nil
		}
	}
	return 0, status.Internalf("The server answered with a tensor %s that was not requested", name)
}

// readCallable reads a RunCallableResponse, whose tensors come in order.
func (a *answer) readCallable(r *wire.Reader) error {
	next := 0
	err := r.Fields(r.End(), func(num protowire.Number, typ protowire.Type) (known bool, err error) {
		switch {
		case num == 1 && typ == protowire.BytesType:
			if next == len(a.fetched) {
				return true, status.Internalf("The server answered with more tensors than the %d that were requested", next)
			}
			a.fetched[next], err = readTensor(r)
			next++
		case num == 2 && typ == protowire.BytesType:
			err = a.readMetadata(r)
		default:
			return false, nil
		}
		return true, err
	})
	if err == nil && next < len(a.fetched) {
		err = status.Internalf("The server answered with %d tensors, but %d were requested", next, len(a.fetched))
	}
	return err
}

func (a *answer) readMetadata(r *wire.Reader) error {
	n, err := r.Length()
	if err != nil {
		return err
	}
	b, err := r.Next(n)
	if err != nil {
		return err
	}
	a.metadata = &corepb.RunMetadata{}
	if err := proto.Unmarshal(b, a.metadata); err != nil {
		return status.Internalf("The step's metadata cannot be read: %v", err)
	}
	return nil
}

func readTensor(r *wire.Reader) (*tensor.Tensor, error) {
	n, err := r.Length()
	if err != nil {
		return nil, err
	}
	return tensor.ReadWire(r, n, tensor.Host)
}
