package actors

import (
	"context"
	"log/slog"
	"testing"
	"time"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"github.com/troupe-run/troupe/kernels/kernelstest"
	"google.golang.org/protobuf/proto"
)

// FuzzGraph opens a session with an arbitrary graph on one of two tasks and runs a step that feeds its first node a vector and fetches its
// last node. Any outcome must come in bounded time and leave nothing behind.
func FuzzGraph(f *testing.F) {
	for _, text := range []string{
		"x = Placeholder() dtype=int64\ny = Neg(x) @b0\nz = Add(x, y)",
		"x = Placeholder() dtype=int64\na = _Arg() T=int64 index=1000\nz = Add(x, a)",
		"x = Placeholder() dtype=int64\ne = Enter(x) frame_name=\"f\" parallel_iterations=4096\nz = Exit(e)",
	} {
		b, err := proto.Marshal(kernelstest.GraphDef(f, text))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, n := range []int{1, 3} {
		b, err := proto.Marshal(chainOfFunctions(n, "/job:b/task:0"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	a := newNetwork(f, "a", "b").nodes[taskName("a")]
	a.task.Log = slog.New(slog.DiscardHandler)
	f.Fuzz(func(t *testing.T, content []byte) {
		def := &graphpb.GraphDef{}
		if err := proto.Unmarshal(content, def); err != nil || len(def.Node) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		handle, err := a.task.CreateSession(ctx, 0, everything, def, nil)
		if err != nil {
			return
		}
		s, err := a.task.Session(handle, 0)
		if err != nil {
			t.Fatal(err)
		}
		last := def.Node[len(def.Node)-1].Name
		for _, feeds := range []map[string]int64{{def.Node[0].Name + ":0": 3}, nil} {
			req := request(feeds, last+":0")
			if r, err := s.Run(ctx, req); err == nil {
				r.Release()
			}
			req.done()
		}
		if err := a.task.CloseSession(t.Context(), handle); err != nil {
			t.Errorf("the session did not end: %v", err)
		}
	})
}
