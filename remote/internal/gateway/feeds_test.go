package gateway

import (
	"context"
	"encoding/hex"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// field appends a length-delimited field.
func field(b []byte, num protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), v)
}

// claiming is a TensorProto that claims n elements of a type and has the given value in a field.
func claiming(dtype tensor.DType, n uint64, num protowire.Number, value []byte) []byte {
	b := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(dtype))
	size := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), n)
	b = field(b, 2, field(nil, 2, size))
	return field(b, num, value)
}

// stepOf is a RunStepRequest that feeds x in a session and fetches y. An empty session is omitted.
func stepOf(session string, fed []byte, feedFirst bool) []byte {
	var b []byte
	if session != "" && !feedFirst {
		b = field(b, 1, []byte(session))
	}
	b = field(b, 2, field(field(nil, 1, []byte("x:0")), 2, fed))
	if session != "" && feedFirst {
		b = field(b, 1, []byte(session))
	}
	return field(b, 3, []byte("y:0"))
}

func (s served) send(b []byte) error {
	m := mem.BufferSlice{mem.SliceBuffer(b)}
	out, err := s.run(context.Background(), m)
	for _, o := range out {
		o.Free()
	}
	return err
}

// limitProcess limits the process, for a test, to the given number of bytes beyond what it holds.
func limitProcess(t testing.TB, bytes int64) {
	before := tensor.Process.Limit()
	runtime.GC()
	tensor.Process.SetLimit(tensor.Process.Held() + bytes)
	t.Cleanup(func() { tensor.Process.SetLimit(before) })
}

// claims are small messages that claim large tensors.
func claims() [][]byte {
	return [][]byte{
		claiming(tensor.String, 1<<31, 8, []byte("x")), claiming(tensor.Resource, 1<<31, 14, nil), claiming(tensor.Variant, 1<<31, 15, nil),
		claiming(tensor.Float32, 1<<32, 5, []byte{0, 0, 128, 63}), claiming(tensor.Float32, 1<<62, 5, []byte{0, 0, 128, 63}),
	}
}

// TestFeedsOfUnknownSessions checks that nothing is decoded for a session that does not exist, whatever its feeds claim.
func TestFeedsOfUnknownSessions(t *testing.T) {
	s := serve(t, smallGraph)
	pool := s.task.Devices[0].Pool()
	before := pool.Stats()
	content, _ := tensor.FromSlice(tensor.Int64, tensor.Shape{1 << 16}, make([]int64, 1<<16))
	head, data, err := content.AppendWire(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, fed := range append(claims(), append(head, data...)) {
		for _, session := range []string{"0123456789abcdef", ""} {
			if err := s.send(stepOf(session, fed, false)); status.CodeOf(err) != status.Aborted {
				t.Errorf("session %q: %v; want ABORTED", session, err)
			}
		}
	}
	if after := pool.Stats(); after.Peak != before.Peak || after.Allocations != before.Allocations {
		t.Errorf("memory was taken: %+v, before %+v", after, before)
	}
}

// TestFeedsThatClaim checks that a feed that does not fit becomes the step's error, which names the feed, the limit and how to raise it,
// and that the gateway keeps working.
func TestFeedsThatClaim(t *testing.T) {
	s := serve(t, smallGraph)
	limitProcess(t, 64<<20)
	for _, fed := range claims() {
		for _, first := range []bool{false, true} {
			err := s.send(stepOf(s.handle, fed, first))
			if status.CodeOf(err) != status.ResourceExhausted || !strings.Contains(err.Error(), "The value fed for x:0") {
				t.Errorf("%s: %v; want RESOURCE_EXHAUSTED", hex.EncodeToString(fed), err)
			}
		}
	}
	good := claiming(tensor.Int64, 1, 10, []byte{7})
	for _, first := range []bool{false, true} {
		if err := s.send(stepOf(s.handle, good, first)); err != nil {
			t.Error(err)
		}
	}
	// A request without a session has none, even if its memory was another request's before.
	if err := s.send(stepOf("", good, false)); status.CodeOf(err) != status.Aborted {
		t.Errorf("without a session: %v", err)
	}
}

// FuzzRunStep runs steps with arbitrary feeds, in a process that may hold 64 MiB more.
func FuzzRunStep(f *testing.F) {
	for _, fed := range claims() {
		f.Add(stepOf("", fed, false)[:0], fed)
		f.Add(field(nil, 3, []byte("y:0")), fed)
	}
	f.Add(field(nil, 4, []byte("n")), claiming(tensor.Int64, 3, 10, []byte{1, 2, 3}))
	s := serve(f, smallGraph)
	limitProcess(f, 64<<20)
	f.Fuzz(func(t *testing.T, more, fed []byte) {
		// Any answer or error is fine; serve checks at the end that no memory is left.
		_ = s.send(append(stepOf(s.handle, fed, len(more)%2 == 1), more...))
	})
}

// TestDecodingOfRunStepEnds checks that a request is not decoded to its end when its client has gone away, whatever it consists of.
func TestDecodingOfRunStepEnds(t *testing.T) {
	served := serve(t, smallGraph)
	texts := claiming(tensor.String, 1<<20, 8, nil)
	for range 1 << 20 {
		texts = field(texts, 8, nil)
	}
	many := field(nil, 1, []byte(served.handle))
	for range 1 << 17 {
		many = field(many, 3, []byte("y:0"))
	}
	for name, message := range map[string][]byte{"strings of a feed": stepOf(served.handle, texts, false), "fetches": many} {
		looks := 0
		ended := status.New(status.Cancelled, "enough")
		q := served.takeStep()
		err := q.UnmarshalWire(mem.BufferSlice{mem.SliceBuffer(message)}, func() error {
			if looks++; looks > 3 {
				return ended
			}
			return nil
		})
		if !errors.Is(err, ended) || looks > 6 {
			t.Errorf("%s: %v after %d looks", name, err, looks)
		}
		for _, f := range q.Feeds {
			if f.Tensor != nil {
				t.Errorf("%s: a feed was left", name)
			}
		}
	}
}
