package gateway

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

func result(t *testing.T, pool *tensor.Pool, bytes int64) *actors.StepResult {
	t.Helper()
	v, err := tensor.New(pool, tensor.Uint8, tensor.Shape{bytes})
	if err != nil {
		t.Fatal(err)
	}
	return &actors.StepResult{Tensors: []*tensor.Tensor{v}}
}

// TestRepeatedRequest checks that a retry, during the first request or after it, gets the first one's answer, and that nothing is left of
// it once the answer's time is over.
func TestRepeatedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := tensor.NewPool("test", 0)
		var a answers
		a.init()
		defer a.close()
		runs, finish := 0, make(chan struct{})
		run := func() (*actors.StepResult, error) {
			runs++
			<-finish
			return result(t, pool, 100), nil
		}
		key := answerKey{"s", 7, 0, 0}
		answered := make(chan *actors.StepResult, 3)
		for range 2 {
			go func() {
				r, err := a.once(t.Context(), key, run)
				if err != nil {
					t.Error(err)
				}
				answered <- r
			}()
		}
		synctest.Wait()
		close(finish)
		first, second := <-answered, <-answered
		third, err := a.once(t.Context(), key, run)
		if err != nil || runs != 1 {
			t.Fatalf("%d runs, %v", runs, err)
		}
		for _, r := range []*actors.StepResult{first, second, third} {
			if r.Tensors[0] != first.Tensors[0] {
				t.Fatal("another tensor than the first one's")
			}
			r.Release()
		}
		if pool.Stats().InUse == 0 {
			t.Fatal("the answer is not kept")
		}
		time.Sleep(2*answerTime + time.Second)
		synctest.Wait()
		if n := pool.Stats().InUse; n != 0 {
			t.Fatalf("%d bytes are kept for ever", n)
		}
	})
}

func TestAnswersAreBounded(t *testing.T) {
	pool := tensor.NewPool("test", 0)
	var a answers
	a.init()
	for i := range 2 * maxAnswers {
		r, err := a.once(t.Context(), answerKey{"s", int64(i + 1), 0, 0}, func() (*actors.StepResult, error) { return result(t, pool, 64<<10), nil })
		if err != nil {
			t.Fatal(err)
		}
		r.Release()
	}
	if n := pool.Stats().InUse; n > answerBytes+(1<<20) || len(a.byKey) > maxAnswers {
		t.Fatalf("%d bytes, %d answers", n, len(a.byKey))
	}
	a.close()
	if n := pool.Stats().InUse; n != 0 {
		t.Fatalf("%d bytes left", n)
	}
}

func TestWaitingForAnAnswerEnds(t *testing.T) {
	var a answers
	a.init()
	defer a.close()
	finish := make(chan struct{})
	begun := make(chan struct{})
	go a.once(t.Context(), answerKey{"s", 1, 0, 0}, func() (*actors.StepResult, error) {
		close(begun)
		<-finish
		return nil, errors.New("failed")
	})
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.once(ctx, answerKey{"s", 1, 0, 0}, nil); status.CodeOf(err) != status.Cancelled {
		t.Fatal(err)
	}
	close(finish)
}

// TestRetryOfInterruptedRequest checks that a step that was cancelled because its connection broke does not run again for a retry, whether that comes
// before its end or after, and that the retry learns why. Other errors are the retry's, too.
func TestRetryOfInterruptedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a answers
		a.init()
		defer a.close()
		key := answerKey{"s", 7, 0, 0}
		gone, breakConnection := context.WithCancel(t.Context())
		unwound := make(chan struct{})
		first := make(chan error, 1)
		go func() {
			_, err := a.once(gone, key, func() (*actors.StepResult, error) {
				<-gone.Done()
				<-unwound
				return nil, status.New(status.Cancelled, "RunStep was cancelled")
			})
			first <- err
		}()
		synctest.Wait()
		breakConnection()
		retry := func() error {
			_, err := a.once(t.Context(), key, func() (*actors.StepResult, error) {
				t.Error("a retry runs")
				return nil, nil
			})
			return err
		}
		early := make(chan error, 1)
		go func() { early <- retry() }()
		synctest.Wait()
		close(unwound)
		if err := <-first; status.CodeOf(err) != status.Cancelled {
			t.Error("the first request:", err)
		}
		for when, err := range map[string]error{"early": <-early, "late": retry()} {
			if status.CodeOf(err) != status.Aborted || !strings.Contains(err.Error(), "connection to its client broke") {
				t.Errorf("the %s retry: %v", when, err)
			}
		}
		for name, code := range map[string]status.Code{"by its own graph": status.Cancelled, "by a lost task": status.Unavailable} {
			key.request++
			if _, err := a.once(t.Context(), key, func() (*actors.StepResult, error) { return nil, status.New(code, name) }); status.CodeOf(err) != code {
				t.Errorf("a step that failed %s: %v", name, err)
			}
			if err := retry(); status.CodeOf(err) != code {
				t.Errorf("the retry of a step that failed %s: %v", name, err)
			}
		}
	})
}

// TestSameIDOfOtherRequests checks that a client that reuses an id for something else gets what it asks for.
func TestSameIDOfOtherRequests(t *testing.T) {
	keys := map[answerKey]bool{}
	for _, fetches := range [][]string{nil, {""}, {"a:0"}, {"a:0", "b:0"}, {"b:0", "a:0"}, {"a:0b:0"}} {
		key := answerKey{"s", 7, hashFetches(fetches), 0}
		if keys[key] || key != (answerKey{"s", 7, hashFetches(fetches), 0}) {
			t.Errorf("%q: the key is not its own", fetches)
		}
		keys[key] = true
	}
}

// TestRepeatedRequestWithOtherFeeds checks that an id that is reused for another step gets no earlier answer. All steps are decoded from
// messages.
func TestRepeatedRequestWithOtherFeeds(t *testing.T) {
	served := serve(t, smallGraph)
	large := make([]float32, 1<<18)
	content := func(changed int) *tensorpb.TensorProto {
		b := make([]byte, 4*len(large))
		b[changed] = 1
		return &tensorpb.TensorProto{Dtype: typespb.DataType_DT_FLOAT, TensorShape: &shapepb.TensorShapeProto{Dim: []*shapepb.TensorShapeProto_Dim{{Size: int64(len(large))}}}, TensorContent: b}
	}
	filled := func(v float32) *tensorpb.TensorProto {
		p := content(0)
		p.TensorContent, p.FloatVal = nil, []float32{v}
		return p
	}
	text := func(s string) *tensorpb.TensorProto {
		return &tensorpb.TensorProto{Dtype: typespb.DataType_DT_STRING, TensorShape: &shapepb.TensorShapeProto{}, StringVal: [][]byte{[]byte(s)}}
	}
	// packed is many strings: one has longer extra bytes, the next one lacks as many, and the last string ends with the byte last.
	packed := func(longer int, last byte) *tensorpb.TensorProto {
		const n, size = 1 << 12, 32
		lengths, texts := bytes.Repeat([]byte{size}, n), bytes.Repeat([]byte{'x'}, n*size)
		lengths[10], lengths[11], texts[len(texts)-1] = byte(size+longer), byte(size-longer), last
		return &tensorpb.TensorProto{Dtype: typespb.DataType_DT_STRING, TensorShape: &shapepb.TensorShapeProto{Dim: []*shapepb.TensorShapeProto_Dim{{Size: n}}}, TensorContent: append(lengths, texts...)}
	}
	small := func(v int32) *tensorpb.TensorProto {
		return &tensorpb.TensorProto{Dtype: typespb.DataType_DT_INT32, TensorShape: &shapepb.TensorShapeProto{}, IntVal: []int32{v}}
	}
	feeds := func(more ...*tensorpb.TensorProto) (list []*corepb.NamedTensorProto) {
		for i, p := range more {
			list = append(list, &corepb.NamedTensorProto{Name: string(rune('a' + i)), Tensor: p})
		}
		return list
	}
	key := func(m *corepb.RunStepRequest) uint64 {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var pieces mem.BufferSlice // as they arrive from a connection
		for piece := range slices.Chunk(b, 16<<10) {
			pieces = append(pieces, mem.SliceBuffer(piece))
		}
		q := served.takeStep()
		if err := q.UnmarshalWire(pieces, nil); err != nil || q.invalid != nil {
			t.Fatal(err, q.invalid)
		}
		defer q.releaseFeeds()
		return hashRest(&q.given, &q.StepRequest)
	}
	first := func() *corepb.RunStepRequest {
		return &corepb.RunStepRequest{SessionHandle: served.handle, Feed: feeds(small(1), text("a"), content(7), filled(1), packed(0, 'y')), Target: []string{"t"}}
	}
	for name, change := range map[string]func(m *corepb.RunStepRequest){
		"a number":                 func(m *corepb.RunStepRequest) { m.Feed[0].Tensor = small(2) },
		"a string":                 func(m *corepb.RunStepRequest) { m.Feed[1].Tensor = text("b") },
		"a byte of many":           func(m *corepb.RunStepRequest) { m.Feed[2].Tensor = content(4*len(large) - 1) },
		"a value for all elements": func(m *corepb.RunStepRequest) { m.Feed[3].Tensor = filled(2) },
		"a byte of many strings":   func(m *corepb.RunStepRequest) { m.Feed[4].Tensor = packed(0, 'z') },
		"an end of a string":       func(m *corepb.RunStepRequest) { m.Feed[4].Tensor = packed(1, 'y') },
		"a name":                   func(m *corepb.RunStepRequest) { m.Feed[0].Name = "z" },
		"one less":                 func(m *corepb.RunStepRequest) { m.Feed = m.Feed[:3] },
		"targets":                  func(m *corepb.RunStepRequest) { m.Target = []string{"u"} },
		"options":                  func(m *corepb.RunStepRequest) { m.Options = &corepb.RunOptions{TimeoutInMs: 7} },
		"partial":                  func(m *corepb.RunStepRequest) { m.PartialRunHandle = "p" },
		"nothing":                  func(*corepb.RunStepRequest) {},
	} {
		var a answers
		a.init()
		runs := 0
		try := func(m *corepb.RunStepRequest) error {
			r, err := a.once(t.Context(), answerKey{"s", 7, hashFetches(nil), key(m)}, func() (*actors.StepResult, error) { runs++; return &actors.StepResult{}, nil })
			if err == nil {
				r.Release()
			}
			return err
		}
		if err := try(first()); err != nil {
			t.Fatal(err)
		}
		other := first()
		change(other)
		err := try(other)
		if same := name == "nothing"; runs != 1 || (err == nil) != same || err != nil && status.CodeOf(err) != status.AlreadyExists {
			t.Errorf("%s: %d runs, %v", name, runs, err)
		}
		a.close()
	}
}
