package client

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/grpc"
)

func named(name string, v float32) *corepb.NamedTensorProto {
	return &corepb.NamedTensorProto{Name: name, Tensor: &tensorpb.TensorProto{Dtype: typespb.DataType_DT_FLOAT,
		TensorShape: &shapepb.TensorShapeProto{}, FloatVal: []float32{v}}}
}

func TestAnswersComeInAnyOrder(t *testing.T) {
	out, err := fetched([]string{"a:0", "b:0", "a:0"}, []*corepb.NamedTensorProto{named("b:0", 2), named("a:0", 1)})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float32{1, 2, 1} {
		if got := tensor.Of[float32](out[i])[0]; got != want {
			t.Errorf("result %d is %v", i, got)
		}
		out[i].Release()
	}
}

func TestAnswersThatDoNotFit(t *testing.T) {
	malformed := named("a:0", 1)
	malformed.Tensor.FloatVal = []float32{1, 2, 3}
	for want, answer := range map[string][]*corepb.NamedTensorProto{
		"lacks the tensor b:0":              {named("a:0", 1)},
		"tensor c:0 that was not asked for": {named("a:0", 1), named("c:0", 1)},
		"tensor a:0 that was not asked for": {named("a:0", 1), named("a:0", 1)},
		"a:0":                               {malformed, named("b:0", 1)},
	} {
		out, err := fetched([]string{"a:0", "b:0"}, answer)
		if out != nil || err == nil || want != "a:0" && (!strings.Contains(err.Error(), want) || status.CodeOf(err) != status.Internal) {
			t.Errorf("%s: %v, %v", want, out, err)
		}
	}
}

func TestRequests(t *testing.T) {
	one := tensor.Scalar(tensor.Float32, float32(1))
	defer one.Release()
	s := &Session{handle: "h"}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	q, err := s.request(ctx, Step{Feeds: map[string]*tensor.Tensor{"y:0": one, "x:0": one}, Fetches: []string{"a:0", "a:0"}, Targets: []string{"t"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(q.Feed) != 2 || q.Feed[0].Name != "x:0" || len(q.Fetch) != 1 || q.SessionHandle != "h" || !q.StoreErrorsInResponseBody || q.RequestId == 0 {
		t.Errorf("%v", q)
	}
	if ms := q.Options.GetTimeoutInMs(); ms < 50_000 || ms > 60_000 {
		t.Errorf("the deadline became %d ms", ms)
	}
	q, err = s.request(t.Context(), Step{Options: &corepb.RunOptions{TimeoutInMs: 7}})
	if err != nil || q.Options.TimeoutInMs != 7 {
		t.Errorf("%v, %v", q, err)
	}
}

// A server that knows no method at all, such as TensorFlow's is for Status.
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
	c, err := Dial("grpc://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Status(t.Context()); status.CodeOf(err) != status.Unimplemented || !strings.Contains(err.Error(), "it is not one of Troupe's") {
		t.Error(err)
	}
}

func TestNobodyThere(t *testing.T) {
	c, err := Dial("grpc://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, call := range map[string]func() error{
		"ListDevices":   func() error { _, err := c.ListDevices(t.Context()); return err },
		"Reset":         func() error { return c.Reset(t.Context()) },
		"Status":        func() error { _, err := c.Status(t.Context()); return err },
		"CreateSession": func() error { _, err := c.CreateSession(t.Context(), nil, nil); return err },
	} {
		if err := call(); status.CodeOf(err) != status.Unavailable || !strings.HasPrefix(err.Error(), "grpc://127.0.0.1:1: ") {
			t.Errorf("%s: %v %v", name, status.CodeOf(err), err)
		}
	}
}
