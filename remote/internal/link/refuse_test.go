package link

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	actorswire "github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/graph/transfer"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

// tape is a stream that plays messages and records those that are sent.
type tape struct {
	play [][]byte
	now  []byte

	mu   sync.Mutex
	sent [][]byte
}

func (s *tape) Next() (int, error) {
	if len(s.play) == 0 {
		return 0, io.EOF
	}
	s.now, s.play = s.play[0], s.play[1:]
	return len(s.now), nil
}

func (s *tape) Read(p []byte) (int, error) {
	if len(s.now) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.now)
	s.now = s.now[n:]
	return n, nil
}

func (s *tape) Send(pieces ...[]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, slices.Concat(pieces...))
	return nil
}

func (s *tape) Close() error { return nil }

// record returns the bytes of a message as the first of a stream.
func record(t testing.TB, message any, sender *actor.PID) []byte {
	t.Helper()
	m, err := encode(actor.NewPID("there:1", "ears"), message, sender, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	s := &tape{}
	o := newOutbound(s, &counters{}, func(func()) bool { return false })
	o.post(m)
	return s.sent[0]
}

// hearLetter reads one message from a stream that plays it.
func hearLetter(data []byte) (letter, error) {
	in := newInbound(&tape{play: [][]byte{data}}, tensor.Host, &counters{}, "there:1", "here:1")
	h, body, contents, err := in.next()
	if err != nil {
		return letter{}, err
	}
	if h.kind != kindMessage {
		return letter{}, status.InvalidArgumentf("kind %d", h.kind)
	}
	return in.letter(h, body, contents)
}

func parcel(t testing.TB) *actorswire.Parcel {
	t.Helper()
	text, err := tensor.FromStrings(tensor.Shape{2}, []string{"a", "bc"})
	if err != nil {
		t.Fatal(err)
	}
	numbers, err := tensor.FromSlice(tensor.Float32, tensor.Shape{2, 3}, []float32{1, 2, 3, 4, 5, 6})
	if err != nil {
		t.Fatal(err)
	}
	return &actorswire.Parcel{Message: &wrapperspb.StringValue{Value: "text"}, Tensors: []*tensor.Tensor{numbers, text, tensor.Scalar[int64](tensor.Int64, 7)}}
}

// A changed bit anywhere, or an early end anywhere, is detected.
func TestMessagesAreChecked(t *testing.T) {
	good := record(t, parcel(t), actor.NewPID("elsewhere:1", "me"))
	l, err := hearLetter(good)
	if err != nil || l.target.Id != "ears" || l.target.Address != "there:1" || l.sender.Address != "elsewhere:1" || l.sender.Id != "me" {
		t.Fatalf("%+v %v", l, err)
	}
	got, want := l.message.(*actorswire.Parcel), parcel(t)
	if !proto.Equal(got.Message, want.Message) || !slices.EqualFunc(got.Tensors, want.Tensors, equal) {
		t.Errorf("%v", got)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		if _, err := hearLetter(bad); err == nil {
			t.Errorf("a flipped bit in byte %d is not noticed", i)
		}
		if _, err := hearLetter(good[:i]); err == nil {
			t.Errorf("an end after %d bytes is not noticed", i)
		}
	}
	if _, err := hearLetter(append(bytes.Clone(good), 0)); err == nil {
		t.Error("a byte too many is not noticed")
	}
}

// reseal recomputes the checksums of a message's head and body.
func reseal(b []byte) {
	if len(b) < headSize {
		return
	}
	if body := binary.LittleEndian.Uint32(b[headFrom+8:]); int64(body) <= int64(len(b)-headSize) {
		binary.LittleEndian.PutUint32(b[headFrom+16:], checksum(b[headSize:headSize+int(body)]))
	}
	seal(b, 0)
}

// Any input, with valid checksums or not, is refused with an error of the right class or is
// consistent.
func FuzzMessage(f *testing.F) {
	f.Add(record(f, parcel(f), nil), false)
	f.Add(record(f, parcel(f), actor.NewPID("elsewhere:1", "me")), true)
	f.Add(record(f, &wrapperspb.StringValue{Value: "text"}, actor.NewPID("here:1", "future$1")), true)
	f.Add(record(f, &actorswire.Parcel{Message: &wrapperspb.BoolValue{}}, nil), true)
	f.Fuzz(func(t *testing.T, data []byte, sealed bool) {
		if sealed {
			data = bytes.Clone(data)
			reseal(data)
		}
		l, err := hearLetter(data)
		if err != nil {
			switch code := status.CodeOf(err); {
			case code == status.DataLoss, code == status.InvalidArgument, code == status.Unimplemented, errors.Is(err, io.ErrUnexpectedEOF):
			default:
				t.Fatalf("%v: %v", code, err)
			}
			return
		}
		m, err := encode(l.target, l.message, l.sender, l.header, false)
		if err != nil {
			t.Fatalf("what was taken cannot be sent: %v", err)
		}
		m.free()
	})
}

// script makes frames from a fuzzer's input: for each its kind, and the bytes of a head and a
// piece. All are numbered and have valid checksums, except for the one that spoil selects.
func script(data []byte, spoil int) (frames [][]byte) {
	for i := 0; len(data) >= 6; i++ {
		f := &frame{kind: frameKind(data[0] % 12), step: uint64(data[1] % 4), total: uint64(data[2]), where: uint64(data[3]), number: uint32(i)}
		n := min(int(data[4]), len(data)-6)
		f.header = data[5:6]
		piece := data[6 : 6+n]
		data = data[6+n:]
		if f.kind > frameMore || f.kind < frameBegin {
			piece = nil
		}
		b := append(f.encode(nil, piece), piece...)
		if i == spoil {
			b[len(b)-1] ^= 1
		}
		frames = append(frames, b)
	}
	return frames
}

// checkSink compares what arrives with the pieces of the frames that came before.
type checkSink struct {
	t     *testing.T
	total int
	whole int
}

func (s *checkSink) Begin(_ string, _, step uint64, _ []byte, size int) ([]byte, func(error), error) {
	if size == 13 {
		return nil, nil, status.New(status.ResourceExhausted, "no memory")
	}
	dst := bytes.Repeat([]byte{0xEE}, size)
	s.total++
	return dst, func(err error) {
		if s.total--; s.total != 0 {
			s.t.Error("tensors overlap")
		}
		if err == nil {
			s.whole++
		}
	}, nil
}

func (s *checkSink) Take(uint64, transfer.Key, *tensor.Tensor) {
	s.t.Error("a frame became a tensor of this process")
}

// For any sequence of frames, a tensor is complete only if all its pieces came in order. A naive reader
// of the same frames is the oracle.
func FuzzBulkFrame(f *testing.F) {
	f.Add([]byte{3, 1, 4, 0, 4, 'h', 1, 2, 3, 4}, -1)
	f.Add([]byte{3, 1, 4, 0, 2, 'h', 1, 2, 4, 1, 4, 2, 2, 0, 3, 4}, -1)
	f.Add([]byte{3, 1, 4, 0, 2, 'h', 1, 2, 5, 1, 4, 2, 0, 0, 3, 2, 0, 0, 0, 'h'}, -1)
	f.Add([]byte{3, 1, 4, 0, 4, 'h', 1, 2, 3, 4}, 0)
	f.Add([]byte{8, 1, 4, 0, 0, 'h', 6, 0, 0, 0, 0, 0}, -1)
	l := New(Config{Spec: fuzzSpec, Self: fuzzSpec.Tasks()[0], Logger: slog.New(slog.DiscardHandler)})
	f.Cleanup(l.cancel)
	f.Fuzz(func(t *testing.T, data []byte, spoil int) {
		frames := script(data, spoil)
		sink := &checkSink{t: t}
		l.config.Sink = sink
		in := &arriving{links: l, link: &link{}, stream: &tape{play: frames}, from: &wire.Identity{}, answer: make(chan struct{}, 1)}
		in.answer <- struct{}{}
		err := in.run()
		if sink.total != 0 {
			t.Error("a tensor was neither finished nor given up")
		}
		whole, clean := naive(frames)
		if sink.whole != whole || (err == nil) != clean {
			t.Errorf("%d tensors are whole, error %v; a naive reader has %d, no error: %v", sink.whole, err, whole, clean)
		}
	})
}

var fuzzSpec = func() *spec.Spec {
	s, err := spec.Parse("worker=10.0.0.1:1,10.0.0.2:1")
	if err != nil {
		panic(err)
	}
	return s
}()

// naive counts the complete tensors of frames up to the first invalid frame. clean means that there
// is none.
func naive(frames [][]byte) (whole int, clean bool) {
	var have, total, step uint64
	open := false
	for i, b := range frames {
		kind, s, n, where := frameKind(b[0]), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
		header, piece := b[frameHead:frameHead+1], b[frameHead+1:]
		head := crc32.Update(crc32.Checksum(b[:40], castagnoli), castagnoli, header)
		if head != binary.LittleEndian.Uint32(b[40:]) || binary.LittleEndian.Uint32(b[32:]) != uint32(i) {
			return whole, false
		}
		switch {
		case kind == frameAbandon && open:
			open = false
			continue
		case kind == frameBegin && !open && where == 0:
			open, have, total, step = true, 0, n, s
		case kind == frameMore && open && s == step && n == total && where == have:
		default:
			return whole, false
		}
		if uint64(len(piece)) > total-have {
			return whole, false
		}
		dropped := total == 13
		if !dropped && crc32.Checksum(piece, castagnoli) != binary.LittleEndian.Uint32(b[36:]) {
			return whole, false
		}
		if have += uint64(len(piece)); have == total {
			if open = false; !dropped {
				whole++
			}
		} else if len(piece) == 0 {
			return whole, false
		}
	}
	return whole, true
}

// speakBulk opens a stream of tensors by hand, says hello, sends frames, and returns the refusal.
func speakBulk(t *testing.T, b *node, hello *wire.Hello, frames ...*frame) *wire.Refusal {
	t.Helper()
	s, err := openTest(within(t, patience), b.self.Address, BulkMethod)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	header, err := proto.Marshal(hello)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append([]*frame{{kind: frameHello, header: header}}, frames...) {
		if err := s.Send(f.encode(nil, nil)); err != nil {
			break // the refusal contains the reason
		}
	}
	var buf []byte
	for number := uint32(0); ; number++ {
		f, err := readFrame(s, number, &buf)
		if err != nil {
			return nil
		}
		w := &wire.Welcome{}
		if err := proto.Unmarshal(f.header, w); err != nil {
			t.Fatal(err)
		}
		if w.Refusal != nil {
			return w.Refusal
		}
	}
}

// Streams and frames that belong to something else are refused and counted, and the link stays.
func TestForeignFrames(t *testing.T) {
	sink := newTestSink()
	a, b, p := pair(t, sink)
	other, err := a.config.Spec.WithAddress("worker", 1, "10.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	greeting := func(change func(g *wire.Greeting)) *wire.Hello {
		g := proto.CloneOf(a.greeting(p.link.task, b.self.Boot))
		change(g)
		return &wire.Hello{Greeting: g, Key: p.key}
	}
	stranger := greeting(func(*wire.Greeting) {})
	stranger.Key = fresh(keySize)
	for name, c := range map[string]struct {
		hello  *wire.Hello
		frames []*frame
		code   status.Code
		count  int64
	}{
		"no hello":            {&wire.Hello{}, nil, status.InvalidArgument, 1},
		"another spec":        {greeting(func(g *wire.Greeting) { g.From.Spec = other.String() }), nil, status.FailedPrecondition, 0},
		"another boot here":   {greeting(func(g *wire.Greeting) { g.Boot++ }), nil, status.Aborted, 0},
		"another boot there":  {greeting(func(g *wire.Greeting) { g.From.Boot++ }), nil, status.FailedPrecondition, 0},
		"another task":        {greeting(func(g *wire.Greeting) { g.Task = task0 }), nil, status.FailedPrecondition, 0},
		"no key":              {&wire.Hello{Greeting: stranger.Greeting}, nil, status.FailedPrecondition, 0},
		"another key":         {stranger, nil, status.FailedPrecondition, 0},
		"a piece of nothing":  {greeting(func(*wire.Greeting) {}), []*frame{{kind: frameMore, total: 3, number: 1}}, status.InvalidArgument, 1},
		"a repeated frame":    {greeting(func(*wire.Greeting) {}), []*frame{{kind: frameBegin, number: 1}, {kind: frameBegin, number: 1}}, status.DataLoss, 1},
		"a frame left out":    {greeting(func(*wire.Greeting) {}), []*frame{{kind: frameBegin, number: 2}}, status.DataLoss, 1},
		"another step":        {greeting(func(*wire.Greeting) {}), []*frame{{kind: frameBegin, step: 1, total: 1, number: 1}, {kind: frameMore, step: 2, total: 1, number: 2}}, status.InvalidArgument, 1},
		"memory not asked of": {greeting(func(*wire.Greeting) {}), []*frame{{kind: frameLend, total: 1, where: 1 << 20, number: 1}}, status.InvalidArgument, 1},
		"a tensor too large":  {greeting(func(*wire.Greeting) {}), []*frame{{kind: frameBegin, total: maxTotal + 1, number: 1}}, status.InvalidArgument, 1},
	} {
		before := b.Stats().FramesRefused
		r := speakBulk(t, b, c.hello, c.frames...)
		if r == nil || status.Code(r.Code) != c.code || b.Stats().FramesRefused-before != c.count {
			t.Errorf("%s: %v, counted %d times", name, r, b.Stats().FramesRefused-before)
		}
	}
	if p.Err() != nil {
		t.Error(p.Err())
	}
}

// An invalid message ends a link at once, on both sides, and the peer can be reached
// again.
func TestNonsenseEndsTheLink(t *testing.T) {
	for name, m := range map[string][]byte{
		"corrupted": func() []byte { b := record(t, parcel(t), nil); b[30] ^= 1; return b }(),
		"repeated":  record(t, parcel(t), nil), // number 0 was the hello
		"truncated": record(t, parcel(t), nil)[:headSize-1],
	} {
		t.Run(name, func(t *testing.T) {
			a, b, p := talkers(t)
			there := watch(b.Links)
			if err := p.pipe.stream.Send(m); err != nil {
				t.Fatal(err)
			}
			there.expect(t, task0+": worker "+task0)
			wait(t, p.Done(), "the end of the link")
			if n := b.Stats().FramesRefused; n != 1 {
				t.Errorf("counted %d times", n)
			}
			if _, err := a.Ensure(within(t, patience), task1); err != nil {
				t.Error(err)
			}
		})
	}
}

// Takes returns true.
func (*tape) Takes(int) bool { return true }
