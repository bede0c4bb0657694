//go:build unix

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	"github.com/troupe-run/troupe/internal/extent"
	"google.golang.org/protobuf/proto"
)

// soakRounds returns how many rounds the soak tests run: TROUPE_E2E_SOAK=100000 is a long run, of minutes.
func soakRounds(t *testing.T) int {
	text := os.Getenv("TROUPE_E2E_SOAK")
	if text == "" && extent.Check() {
		return 2000
	} else if text == "" {
		return 500
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("TROUPE_E2E_SOAK=%q is no number of rounds", text)
	}
	return n
}

// TestSoakSteps runs steps with loops, TensorArrays, lists and their gradients over two tasks: memory use does not grow.
func TestSoakSteps(t *testing.T) {
	t.Parallel()
	needPython(t)
	c := newCluster(t, "ps=1,worker=1")
	m, ctx := masterOf(t, c.task("worker", 0)), t.Context()
	handle, err := m.createSession(ctx, soakGraph(t, c))
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, 64)
	for i := range x {
		x[i] = float32(i) / 64
	}
	feed := map[string]*tensorpb.TensorProto{"x:0": floats([]int64{8, 8}, x...)}
	soak(t, c, func() error {
		_, err := m.step(ctx, handle, feed, "fetch:0")
		return err
	})
}

// TestSoakSessions opens sessions, runs a step over two tasks in each, and closes them.
func TestSoakSessions(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "ps=1,worker=1")
	m, ctx := masterOf(t, c.task("worker", 0)), t.Context()
	g := graphOf(two(), on(node("there", "AddV2", float, "two", "two"), "/job:ps"), node("end", "Mul", float, "there", "two"))
	soak(t, c, func() error {
		handle, err := m.createSession(ctx, g)
		if err == nil {
			_, err = m.step(ctx, handle, nil, "end:0")
		}
		if err == nil {
			err = m.closeSession(ctx, handle)
		}
		return err
	})
}

// soak repeats round many times, and checks that the processes' memory does not grow after a tenth of the rounds.
func soak(t *testing.T, c *cluster, round func() error) {
	t.Helper()
	memory := func() (sum float64) {
		for _, k := range c.tasks {
			sum += k.proc.residentMiB(t)
		}
		return sum
	}
	do := func(n int) {
		for i := range n {
			if err := round(); err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
		}
	}
	rounds := soakRounds(t)
	do(rounds/10 + 1) // the first rounds fill pools and load code
	before := settle(t, memory)
	begun := time.Now()
	do(rounds)
	took, most := time.Since(begun), memory()
	var now float64
	eventually(t, 60*time.Second, "the memory comes back", func() error {
		if now = memory(); now > before*1.10 {
			return fmt.Errorf("%.1f MiB, %.1f MiB before %d rounds, %.1f MiB right after them", now, before, rounds, most)
		}
		return nil
	})
	t.Logf("%.1f MiB before %d rounds (%v), %.1f MiB right after them, %.1f MiB in the end", before, rounds, took, most, now)
}

// soakGraph returns the graph of graphs/looping.py.
func soakGraph(t *testing.T, c *cluster) *graphpb.GraphDef {
	a := drivers.borrow(t).must(t, request{Case: "graphs/looping.py", Function: "graph", Name: "looping", Targets: c.targets()}, caseTime)
	var text string
	if err := json.Unmarshal(a.Result, &text); err != nil {
		t.Fatal(err)
	}
	data, err := base64.StdEncoding.DecodeString(text)
	g := &graphpb.GraphDef{}
	if err == nil {
		err = proto.Unmarshal(data, g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}
