//go:build unix

package e2e

import (
	"fmt"
	"testing"
	"time"

	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
)

// allowance is the memory that a process may take beyond the tensors that a step needs there: for the program itself, the transport's
// buffers, and garbage.
const allowance = 200 // MiB

// TestLargeTensors feeds, fetches and sends large tensors between tasks, which must arrive unchanged. A task takes memory once for the
// tensors that it computes with, and little more: the transport keeps no copy, except for the message of a feed, which exists beside the
// tensor until it has been read.
func TestLargeTensors(t *testing.T) {
	withoutRace(t)
	size := int64(64 * mebibyte)
	switch {
	case extent.Full():
		size = 1024 * mebibyte
	case extent.Check():
		size = 256 * mebibyte
	}
	const ps, worker, step = "/job:ps", "/job:worker", 0x1E3779B97F4A7C15 // odd: the values are all different
	n, mib := size/8, float64(size/mebibyte)
	fed, err := tensor.New(tensor.Host, tensor.Int64, tensor.Shape{n})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		fed.Release()
		tensor.Host.Trim()
		tensor.Host.Trim()
	}()
	for i := range tensor.Of[int64](fed) {
		tensor.Of[int64](fed)[i] = int64(i) * step
	}
	feeds := map[string]*tensor.Tensor{"x:0": fed}

	for _, row := range []struct {
		name  string
		graph []*nodepb.NodeDef
		feeds map[string]*tensor.Tensor
		fetch string
		want  func(i int64) int64
		// how many such tensors each task must hold at once
		ps, worker float64
	}{
		{"fed", append(total("sum", worker, "x"), placeholder("x", worker, int64T)), feeds, "sum:0",
			func(int64) int64 { return n * (n - 1) / 2 * step }, 0, 2},
		{"fetched", counting("count", worker, n), nil, "count:0", func(i int64) int64 { return i }, 0, 1},
		{"sent", append(counting("count", ps, n), total("sum", worker, "count")...), nil, "sum:0",
			func(int64) int64 { return n * (n - 1) / 2 }, 1, 1},
		{"fetched from another task", counting("count", ps, n), nil, "count:0", func(i int64) int64 { return i }, 1, 1},
		{"there and back", []*nodepb.NodeDef{placeholder("x", worker, int64T), on(node("y", "Neg", int64T, "x"), ps)}, feeds, "y:0",
			func(i int64) int64 { return -i * step }, 1, 3},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := newCluster(t, "ps=1,worker=1")
			s := openSession(t, clientOf(t, c.task("worker", 0)), graphOf(row.graph...))
			out, err := s.Run(patient(t), row.feeds, []string{row.fetch}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer out[0].Release()
			for i, v := range tensor.Of[int64](out[0]) {
				if want := row.want(int64(i)); v != want {
					t.Fatalf("element %d of %d is %d, not %d", i, out[0].Len(), v, want)
				}
			}
			if l := int64(out[0].Len()); l != 1 && l != n {
				t.Errorf("%d elements came", l)
			}
			c.task("ps", 0).within(t, row.ps*mib+allowance)
			c.task("worker", 0).within(t, row.worker*mib+allowance)
		})
	}
}

// TestManyTensorsInAGraph sends a hundred thousand tensors across tasks in one step, as edges of a graph.
func TestManyTensorsInAGraph(t *testing.T) {
	withoutRace(t)
	n := int64(100_000)
	if !extent.Check() {
		n = 10_000
	}
	const ps, worker = "/job:ps", "/job:worker"
	unpack := with(with(node("parts", "Unpack", int64T, "count"), "num", number(n)), "axis", number(0))
	pack := with(with(node("together", "Pack", int64T), "N", number(n)), "axis", number(0))
	for i := range n {
		pack.Input = append(pack.Input, fmt.Sprintf("parts:%d", i))
	}
	manyTensors(t, n, append(counting("count", ps, n), on(unpack, ps), on(pack, worker)), "together:0", allowance+manyBytes*float64(n)/mebibyte, func(i int64) int64 { return i })
}

// TestManyTensorsInALoop sends a hundred thousand tensors across tasks in one step, one in each iteration of a loop. The memory does not
// depend on their number.
func TestManyTensorsInALoop(t *testing.T) {
	withoutRace(t)
	n := int64(100_000)
	if !extent.Check() {
		n = 10_000
	}
	manyTensors(t, n, sumInLoop(n, "/job:worker", "/job:ps"), "result:0", allowance, func(int64) int64 { return n * (n - 1) / 2 })
}

// sumInLoop returns a loop that counts to n on one device and adds the numbers up on another.
func sumInLoop(n int64, counts, adds string) []*nodepb.NodeDef {
	enter := func(name, device, input string, constant bool) *nodepb.NodeDef {
		e := with(with(node(name, "Enter", int64T, input), "frame_name", text("loop")), "is_constant", flag(constant))
		return on(with(e, "parallel_iterations", number(32)), device)
	}
	two := func(op, name, device string, inputs ...string) *nodepb.NodeDef {
		return on(node(name, op, int64T, inputs...), device)
	}
	c := func(name, device string, v int64, control ...string) *nodepb.NodeDef {
		k := on(constant(name, int64T, scalarOf(int64T, v)), device)
		k.Input = control
		return k
	}
	merge := func(name, device, first, again string) *nodepb.NodeDef {
		return with(two("Merge", name, device, first, again), "N", number(2))
	}
	return []*nodepb.NodeDef{
		c("zero", counts, 0), c("none", adds, 0), c("n", counts, n),
		enter("i_enter", counts, "zero", false), enter("sum_enter", adds, "none", false), enter("limit", counts, "n", true),
		merge("i", counts, "i_enter", "i_next"), merge("sum", adds, "sum_enter", "sum_next"),
		two("Less", "less", counts, "i", "limit"), on(node("more", "LoopCond", 0, "less"), counts),
		two("Switch", "i_switch", counts, "i", "more"), two("Switch", "sum_switch", adds, "sum", "more"),
		two("Identity", "here", counts, "i_switch:1"), c("one", counts, 1, "^here"),
		two("AddV2", "i_up", counts, "here", "one"), two("AddV2", "sum_up", adds, "sum_switch:1", "here"),
		two("NextIteration", "i_next", counts, "i_up"), two("NextIteration", "sum_next", adds, "sum_up"),
		two("Exit", "result", adds, "sum_switch"),
	}
}

// manyBytes bounds the memory of each task for an edge between tasks: names and nodes, in the graph, the parts and the programs, and the
// tensor in flight.
const manyBytes = 6000

func manyTensors(t *testing.T, n int64, nodes []*nodepb.NodeDef, fetch string, most float64, want func(i int64) int64) {
	t.Helper()
	c := newCluster(t, "ps=1,worker=1")
	begun := time.Now()
	s := openSession(t, clientOf(t, c.task("worker", 0)), graphOf(nodes...))
	t.Logf("the session took %v", time.Since(begun))
	for round := range 3 {
		begun := time.Now()
		out, err := s.Run(patient(t), nil, []string{fetch}, nil)
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(begun)
		t.Logf("round %d: %v, %.1f µs a tensor", round, took, float64(took.Nanoseconds())/1e3/float64(n))
		for i, v := range tensor.Of[int64](out[0]) {
			if v != want(int64(i)) {
				t.Fatalf("element %d of %d is %d, not %d", i, out[0].Len(), v, want(int64(i)))
			}
		}
		out[0].Release()
	}
	for _, k := range c.tasks {
		k.within(t, most)
	}
}
