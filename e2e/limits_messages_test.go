//go:build unix

package e2e

import (
	"fmt"
	"math"
	"testing"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
)

// TestMessagesBeyondTheProtocol checks that a message too large for TensorFlow's protocol is refused with advice, before memory is taken
// for it, and that the session goes on.
func TestMessagesBeyondTheProtocol(t *testing.T) {
	withoutRace(t)
	const size, times = 64 * mebibyte, 33 // 2 GiB and 64 MiB together
	c := newCluster(t, "ps=1,worker=1")
	k, ctx := c.task("worker", 0), patient(t)
	nodes := append(variableOf("v", "/job:worker", size/4), two())
	var fetches []string
	for i := range times {
		nodes = append(nodes, on(node(fmt.Sprintf("v%d", i), "Identity", float, "v_read"), "/job:worker"),
			placeholder(fmt.Sprintf("x%d", i), "/job:worker", float))
		fetches = append(fetches, fmt.Sprintf("v%d:0", i))
	}
	s := openSession(t, clientOf(t, k), graphOf(nodes...))
	if _, err := s.Run(ctx, nil, nil, []string{"v_set"}); err != nil {
		t.Fatal(err)
	}
	advice := []string{"in several steps", "queue", "checkpoint"}

	t.Run("fetches", func(t *testing.T) {
		_, err := s.Run(ctx, nil, fetches, nil)
		exhausted(t, err, append(advice, "v0:0", fmt.Sprint(size), fmt.Sprint(math.MaxInt32))...)
	})
	t.Run("feeds of the client in Go", func(t *testing.T) {
		x, err := tensor.New(tensor.Host, tensor.Float32, tensor.Shape{size / 4})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Release()
		feeds := map[string]*tensor.Tensor{}
		for i := range times {
			feeds[fmt.Sprintf("x%d:0", i)] = x
		}
		_, err = s.Run(ctx, feeds, []string{"two:0"}, nil)
		exhausted(t, err, append(advice, fmt.Sprint(size*times))...)
	})
	t.Run("a request that claims more", func(t *testing.T) {
		m := masterOf(t, k)
		begun := time.Now()
		err := m.conn.Invoke(ctx, "/tensorflow.MasterService/RunStep", make([]byte, mebibyte), &corepb.RunStepResponse{},
			grpc.ForceCodecV2(repeating(size*times/mebibyte)), grpc.MaxCallSendMsgSize(math.MaxUint32))
		refused(t, err, codes.ResourceExhausted, append(advice, fmt.Sprint(math.MaxInt32))...)
		if took := time.Since(begun); took > extent.Slack(5*time.Second) {
			t.Errorf("it was refused after %v", took)
		}
	})
	k.within(t, float64(size/mebibyte+allowance))
	out, err := s.Run(ctx, nil, []string{"two:0"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	out[0].Release()
}

// exhausted checks an error of a client in Go.
func exhausted(t *testing.T, err error, texts ...string) {
	t.Helper()
	if status.CodeOf(err) != status.ResourceExhausted {
		t.Fatalf("got %v: %v", status.CodeOf(err), err)
	}
	contains(t, "the message", err.Error(), texts...)
}

// repeating is a codec whose requests repeat the same bytes that many times; answers are protobuf.
type repeating int

func (n repeating) Name() string { return "proto" }

func (n repeating) Marshal(v any) (out mem.BufferSlice, err error) {
	for range int(n) {
		out = append(out, mem.SliceBuffer(v.([]byte)))
	}
	return out, nil
}

func (n repeating) Unmarshal(mem.BufferSlice, any) error { return nil }
