//go:build unix

package e2e

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/internal/extent"
)

// bytesCodec sends and receives raw messages.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }

func (bytesCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }

func (bytesCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}

// TestMutatedMessages sends ten thousand random and mutated messages, the same in every run: the server answers each within seconds and
// goes on.
func TestMutatedMessages(t *testing.T) {
	t.Parallel()
	const messages, clients = 10_000, 4
	c := newCluster(t, "ps=1,worker=1", "--memory-limit", "256MiB", "--log-level", "error")
	k := c.task("worker", 0)
	m := masterOf(t, k)

	g := graphOf(two(),
		constant("many", float, floats([]int64{2, 3}, 1, 2, 3, 4, 5, 6)),
		with(node("x", "Placeholder", 0), "dtype", dtypeAttr(float)),
		on(node("sum", "AddV2", float, "two", "x"), "/job:ps"),
		node("product", "Mul", float, "sum", "many", "^two"),
		constant("flag", typespb.DataType_DT_BOOL, boolean(true)),
		node("switch", "Switch", float, "product", "flag"),
		node("end", "Identity", float, "switch:1"))
	g.Library = functions(recursive("negative", "Neg")).Library
	s, err := m.createSession(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	seeds := []struct {
		method  string
		request proto.Message
	}{
		{"CreateSession", &corepb.CreateSessionRequest{GraphDef: g, Config: &corepb.ConfigProto{AllowSoftPlacement: true, DeviceCount: map[string]int32{"CPU": 1}}}},
		{"ExtendSession", &corepb.ExtendSessionRequest{SessionHandle: s, GraphDef: graphOf(node("more", "Neg", float, "end")), CurrentGraphVersion: 0}},
		{"RunStep", &corepb.RunStepRequest{SessionHandle: s, Fetch: []string{"end:0"}, Target: []string{"product"}, StoreErrorsInResponseBody: true,
			Feed: []*corepb.NamedTensorProto{{Name: "x:0", Tensor: floats([]int64{3}, 1, 2, 3)}}, Options: &corepb.RunOptions{TimeoutInMs: 3000}}},
		{"PartialRunSetup", &corepb.PartialRunSetupRequest{SessionHandle: s, Feed: []string{"x:0"}, Fetch: []string{"end:0"}}},
		{"MakeCallable", &corepb.MakeCallableRequest{SessionHandle: s, Options: &corepb.CallableOptions{Feed: []string{"x:0"}, Fetch: []string{"end:0"}}}},
		{"RunCallable", &corepb.RunCallableRequest{SessionHandle: s, Handle: 1, Feed: seedTensors()}},
		{"ListDevices", &corepb.ListDevicesRequest{SessionHandle: s}},
	}

	var next atomic.Int64
	var answered [17]atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			own, err := dial(k.addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer own.close()
			for i := next.Add(1); i <= messages && !t.Failed(); i = next.Add(1) {
				r := rand.New(rand.NewPCG(uint64(i), 20260)) // seeded by the message's number, so that a failure can be reproduced
				seed := seeds[r.IntN(len(seeds))]
				if r.IntN(8) < 6 {
					seed = seeds[r.IntN(3)]
				}
				message, err := hostile(r, seed.request)
				if err != nil {
					t.Error(err)
					return
				}
				code := send(t, own, seed.method, message, i)
				answered[code].Add(1)
			}
		})
	}
	wg.Wait()
	for code := range answered {
		if n := answered[code].Load(); n > 0 {
			t.Logf("%5d answers of %v", n, codes.Code(code))
		}
	}
	if c.ended() != nil {
		t.Fatal("a task has ended")
	}
	works(t, m)
}

// hostile makes a message that no client should send: mostly a request with inconsistent fields, sometimes bytes that are not a message.
func hostile(r *rand.Rand, request proto.Message) ([]byte, error) {
	if r.IntN(4) > 0 {
		request = distort(r, request)
		return proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(request)
	}
	message, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if r.IntN(4) > 0 {
		return mutate(r, message), err
	}
	message = make([]byte, r.IntN(200))
	for i := range message {
		message[i] = byte(r.Uint32())
	}
	return message, err
}

// send sends one message, closes a session that it opened, and returns the answer's code.
func send(t *testing.T, m *master, method string, message []byte, number int64) codes.Code {
	ctx, cancel := context.WithTimeout(t.Context(), extent.Slack(5*time.Second))
	defer cancel()
	var reply []byte
	err := m.conn.Invoke(ctx, "/tensorflow.MasterService/"+method, message, &reply, grpc.ForceCodec(bytesCodec{}))
	code := grpcstatus.Code(err)
	switch {
	case ctx.Err() != nil || code == codes.Unavailable:
		t.Errorf("message %d, %s: %v\n%q", number, method, err, message)
	case err == nil && method == "CreateSession":
		var a corepb.CreateSessionResponse
		if err := errors.Join(proto.Unmarshal(reply, &a), m.closeSession(ctx, a.SessionHandle)); err != nil {
			t.Errorf("message %d: closing the session that it made: %v", number, err)
		}
	}
	if code > codes.Unauthenticated {
		t.Errorf("message %d, %s: code %d: %v", number, method, code, err)
		return codes.Unknown
	}
	return code
}
