package client

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

func named(name string, v float32) *corepb.NamedTensorProto {
	return &corepb.NamedTensorProto{Name: name, Tensor: &tensorpb.TensorProto{Dtype: typespb.DataType_DT_FLOAT,
		TensorShape: &shapepb.TensorShapeProto{}, FloatVal: []float32{v}}}
}

// read decodes a response with the given tensors.
func read(t *testing.T, names []string, tensors ...*corepb.NamedTensorProto) (*answer, error) {
	t.Helper()
	b, err := proto.Marshal(&corepb.RunStepResponse{Tensor: tensors, Metadata: &corepb.RunMetadata{}, StatusCode: 5, StatusErrorMessage: "five"})
	if err != nil {
		t.Fatal(err)
	}
	a := &answer{fetched: make([]*tensor.Tensor, len(names))}
	r := wire.NewReader(mem.BufferSlice{mem.SliceBuffer(b[:len(b)/2]), mem.SliceBuffer(b[len(b)/2:])})
	return a, a.readStep(&r, names)
}

func TestAnswersComeInAnyOrder(t *testing.T) {
	a, err := read(t, []string{"a:0", "b:0"}, named("b:0", 2), named("a:0", 1))
	if err != nil {
		t.Fatal(err)
	}
	asked := []string{"a:0", "b:0", "a:0"}
	for i, v := range spread(a.fetched, unique(asked), asked) {
		if got := tensor.Of[float32](v)[0]; got != []float32{1, 2, 1}[i] {
			t.Errorf("result %d is %v", i, got)
		}
		v.Release()
	}
	if a.code != status.NotFound || a.text != "five" || a.metadata == nil {
		t.Errorf("%v", a)
	}
}

func TestAnswersThatDoNotFit(t *testing.T) {
	malformed := named("a:0", 1)
	malformed.Tensor.TensorContent = []byte{1, 2, 3}
	for want, tensors := range map[string][]*corepb.NamedTensorProto{
		"tensor c:0 that was not requested": {named("a:0", 1), named("c:0", 1)},
		"tensor a:0 that was not requested": {named("a:0", 1), named("a:0", 1)},
		"content of 3 bytes does not fit":   {malformed, named("b:0", 1)},
	} {
		a, err := read(t, []string{"a:0", "b:0"}, tensors...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		a.release()
	}
}

// written returns the message that a step is encoded as.
func written(t *testing.T, ctx context.Context, step Step) (*corepb.RunStepRequest, error) {
	t.Helper()
	w := &writer{}
	if err := (&Session{handle: "h"}).write(ctx, w, step, unique(step.Fetches), "p"); err != nil {
		return nil, err
	}
	q := &corepb.RunStepRequest{}
	return q, proto.Unmarshal(slices.Concat(w.end()...), q)
}

func TestRequests(t *testing.T) {
	one := tensor.FromScalar(float32(1))
	defer one.Release()
	large, err := tensor.FromValues(make([]float32, inPlace), 2, inPlace/2)
	if err != nil {
		t.Fatal(err)
	}
	defer large.Release()
	tensor.Of[float32](large)[inPlace-1] = 7
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	q, err := written(t, ctx, Step{Feeds: map[string]*tensor.Tensor{"y:0": one, "x:0": large}, Fetches: []string{"a:0", "a:0"}, Targets: []string{"t"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(q.Feed) != 2 || q.Feed[0].Name != "x:0" || len(q.Fetch) != 1 || q.Target[0] != "t" || q.SessionHandle != "h" || q.PartialRunHandle != "p" ||
		!q.StoreErrorsInResponseBody || q.RequestId == 0 {
		t.Errorf("%v", q)
	}
	back, err := tensor.FromTensorProto(q.Feed[0].Tensor, tensor.Host)
	if err != nil || !back.Shape().Equal(large.Shape()) || tensor.Of[float32](back)[inPlace-1] != 7 {
		t.Errorf("%v, %v", back, err)
	}
	back.Release()
	if ms := q.Options.GetTimeoutInMs(); ms < 50_000 || ms > 60_000 {
		t.Errorf("the deadline became %d ms", ms)
	}
	q, err = written(t, t.Context(), Step{Options: &corepb.RunOptions{TimeoutInMs: 7}})
	if err != nil || q.Options.TimeoutInMs != 7 {
		t.Errorf("%v, %v", q, err)
	}
	if _, err := written(t, t.Context(), Step{Feeds: map[string]*tensor.Tensor{"x:0": nil}}); status.CodeOf(err) != status.InvalidArgument {
		t.Error(err)
	}
}

// TestFeedsThatDoNotFit checks that feeds that are too large together are refused before anything is encoded.
func TestFeedsThatDoNotFit(t *testing.T) {
	part, err := tensor.New(tensor.Host, tensor.Uint8, tensor.Shape{64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer part.Release()
	feeds, named := slices.Repeat([]*tensor.Tensor{part}, maxFeeds/part.ByteSize()+1), map[string]*tensor.Tensor{}
	for i := range feeds {
		named[fmt.Sprint("x", i, ":0")] = part
	}
	refused := func(what string, err error) {
		t.Helper()
		if status.CodeOf(err) != status.ResourceExhausted || !strings.Contains(err.Error(), "fit into one request") {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("a prepared step", (&Callable{feeds: len(feeds)}).RunInto(t.Context(), nil, feeds))
	_, err = written(t, t.Context(), Step{Feeds: named})
	refused("a step", err)
}

// TestServersThatKnowNoStatus calls a server that knows no method at all, as TensorFlow's do not know Status.
func TestServersThatKnowNoStatus(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	c, err := Dial(t.Context(), "grpc://"+l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Status(t.Context()); status.CodeOf(err) != status.Unimplemented || !strings.Contains(err.Error(), "it is not a Troupe server") {
		t.Error(err)
	}
	if _, err := c.Actors(t.Context()); status.CodeOf(err) != status.Unimplemented || !strings.Contains(err.Error(), "it is not a Troupe server") {
		t.Error(err)
	}
}

func TestNobodyThere(t *testing.T) {
	c, err := Dial(t.Context(), "grpc://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	for name, call := range map[string]func() error{
		"Devices":    func() error { _, err := c.Devices(t.Context()); return err },
		"Reset":      func() error { return c.Reset(t.Context()) },
		"Status":     func() error { _, err := c.Status(t.Context()); return err },
		"NewSession": func() error { _, err := c.NewSession(t.Context(), nil, nil); return err },
		"Actors":     func() error { _, err := c.Actors(t.Context()); return err },
	} {
		if err := call(); status.CodeOf(err) != status.Unavailable || !strings.HasPrefix(err.Error(), "grpc://127.0.0.1:1: ") {
			t.Errorf("%s: %v %v", name, status.CodeOf(err), err)
		}
	}
}
