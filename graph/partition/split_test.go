package partition

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
)

func TestTransfersCarryTheSendersIncarnation(t *testing.T) {
	g := parseGraph(t, "a = Const() float @w0\nb = Neg(a) float @w1\nc = Neg(b) float @w0")
	parts, err := Split(g, Options{Incarnation: func(device string) uint64 {
		return map[string]uint64{longName("w0"): 1<<63 + 5, longName("w1"): 7}[device]
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, device := range parts.Devices {
		for _, n := range parts.ByDevice[device].Nodes {
			if k := KindOf(n.Op); k != Send && k != Recv {
				continue
			}
			from, err := n.Attrs.Str("send_device")
			if err != nil {
				t.Fatal(err)
			}
			life, err := n.Attrs.Int("send_device_incarnation")
			if err != nil {
				t.Fatal(err)
			}
			want := uint64(7)
			if from == longName("w0") {
				want = 1<<63 + 5
			}
			if uint64(life) != want {
				t.Errorf("%s has incarnation %d, want %d", n.Name, uint64(life), want)
			}
		}
	}
}

func TestFeedsGoByTheirUserName(t *testing.T) {
	g := parseGraph(t, "_arg_x_0 = _Arg() float @w0\nb = Neg(_arg_x_0) float @w1")
	g.Nodes[0].Attrs[graph.EndpointAttr] = stringAttr("x:0")
	parts, err := Split(g, Options{})
	if err != nil {
		t.Fatal(err)
	}
	recv := parts.ByDevice[longName("w1")].Lookup("b").Inputs[0].Node
	if got := string(recv.Attrs[UserNode].GetS()); got != "x" {
		t.Errorf("the _Recv is on behalf of %q", got)
	}
}

func TestPartsAreGraphsOfTheirOwn(t *testing.T) {
	g := parseGraph(t, "a = Const() float @w0\nb = Neg(a) float @w1")
	parts, err := Split(g, Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := parts.ByDevice[longName("w1")].Lookup("b")
	if b == nil || b == g.Nodes[1] {
		t.Fatal("the part's b is not a node of its own")
	}
	recv := b.Inputs[0].Node
	if parts.ByDevice[longName("w1")].Lookup(recv.Name) != recv {
		t.Errorf("%s is not found by its name", recv.Name)
	}
	if got := string(recv.Attrs[UserNode].GetS()); got != "a" {
		t.Errorf("the _Recv is on behalf of %q", got)
	}
}

// wideGraph returns a graph of n nodes with two inputs each. About a fraction 1/one of them is on w1, the others are on w0.
func wideGraph(n, one int) *graph.Graph {
	rng := rand.New(rand.NewPCG(1, 1))
	k := &maker{rng: rng, devices: 2}
	s := &scope{}
	for len(k.nodes) < n {
		near := func() graph.Output {
			if len(s.values) < 2 {
				return k.any(s)
			}
			return s.values[len(s.values)-1-rng.IntN(min(len(s.values), 100))]
		}
		a, b := near(), near()
		n := k.node(s, "AddN", intOut, a, b)
		n.Controls = nil
		n.Assigned = longName("w0")
		if rng.IntN(one) == 0 {
			n.Assigned = longName("w1")
		}
		s.values = append(s.values, graph.Output{Node: n})
	}
	return graph.New(k.nodes, nil, 0)
}

func BenchmarkSplit(b *testing.B) {
	for _, one := range []int{2, 50} {
		b.Run(fmt.Sprintf("one in %d nodes elsewhere", one), func(b *testing.B) {
			g := wideGraph(10_000, one)
			b.ReportAllocs()
			var parts *Parts
			for b.Loop() {
				var err error
				if parts, err = Split(g, Options{MemoryTypes: memoryTypes}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(parts.Transfers)), "transfers")
		})
	}
}

func BenchmarkFrames(b *testing.B) {
	g := wideGraph(10_000, 2)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Frames(g); err != nil {
			b.Fatal(err)
		}
	}
}

// TestDeepGraphs: nested loops, however deep, take neither much stack nor much time.
func TestDeepGraphs(t *testing.T) {
	const depth = 50_000
	nodes := []*graph.Node{{Name: "a", Op: "Const", OutTypes: []tensor.DType{tensor.Float32}, Assigned: longName("w0")}}
	for i := range depth {
		last := nodes[len(nodes)-1]
		n := &graph.Node{
			Name: fmt.Sprint("enter", i), Op: "Enter", Inputs: []graph.Output{{Node: last}},
			InTypes: []tensor.DType{tensor.Float32}, OutTypes: []tensor.DType{tensor.Float32}, Assigned: longName("w0"),
			Attrs: graph.Attrs{"frame_name": stringAttr(strconv.Itoa(i)), "parallel_iterations": intAttr(1), "is_constant": boolAttr(true)},
		}
		nodes = append(nodes, n)
	}
	last := nodes[len(nodes)-1]
	for _, device := range []string{"w0", "w1"} {
		nodes = append(nodes, &graph.Node{Name: device, Op: "Neg", Inputs: []graph.Output{{Node: last}}, InTypes: last.OutTypes, OutTypes: last.OutTypes, Assigned: longName(device)})
	}
	if _, err := Split(graph.New(nodes, nil, 0), Options{}); err == nil {
		t.Error("a loop without LoopCond was cut")
	}
}
