package graph

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// TestExtendShares checks that nodes keep their identity, and that two extensions of one graph
// do not see each other.
func TestExtendShares(t *testing.T) {
	base := mustBuild(t, "a = Placeholder[dtype=float]")
	grown := make([]*Graph, 3)
	for i := range grown {
		g, err := base.Extend(parseGraph(t, fmt.Sprintf("b%d = Identity[T=float](a)", i)))
		if err != nil {
			t.Fatal(err)
		}
		grown[i] = g
	}
	for i, g := range grown {
		want := fmt.Sprintf("b%d", i)
		if len(g.Nodes) != 2 || g.Nodes[0] != base.Nodes[0] || g.Nodes[1].Name != want || g.Nodes[1].ID != 1 ||
			g.Lookup(want) != g.Nodes[1] || g.Lookup("b3") != nil || g.Lookup(fmt.Sprintf("b%d", (i+1)%3)) != nil {
			t.Errorf("extension %d is\n%s", i, show(g))
		}
	}
	if len(base.Nodes) != 1 || base.Lookup("b0") != nil {
		t.Errorf("the base became\n%s", show(base))
	}
}

// TestExtendMany adds nodes one by one and finds all of them, in every version.
func TestExtendMany(t *testing.T) {
	g := mustBuild(t, "n0 = NoOp")
	versions := []*Graph{g}
	for i := 1; i < 300; i++ {
		var err error
		if g, err = g.Extend(parseGraph(t, fmt.Sprintf("n%d = NoOp(^n%d)", i, i-1))); err != nil {
			t.Fatal(err)
		}
		versions = append(versions, g)
	}
	for v, g := range versions {
		if len(g.Nodes) != v+1 {
			t.Fatalf("version %d has %d nodes", v, len(g.Nodes))
		}
		for i := range versions {
			n := g.Lookup(fmt.Sprintf("n%d", i))
			if (n != nil) != (i <= v) || n != nil && (n.ID != i || g.Nodes[i] != n) {
				t.Fatalf("version %d has %v as n%d", v, n, i)
			}
		}
	}
	if n := len(g.index().layers); n > 10 {
		t.Errorf("300 names lie in %d maps", n)
	}
}

// TestReadWhileExtending prunes old versions of a graph while new ones are made.
func TestReadWhileExtending(t *testing.T) {
	g := mustBuild(t, "n0 = NoOp")
	var wg sync.WaitGroup
	for i := 1; i < 50; i++ {
		old := g
		wg.Go(func() {
			last := fmt.Sprintf("n%d", i-1)
			p, err := Prune(old, Signature{Targets: []string{last}}, "/job:a/replica:0/task:0/device:CPU:0")
			if err != nil || len(p.Nodes) != i || p.Lookup(last) == nil {
				t.Errorf("%s: %d nodes, %v", last, len(p.Nodes), err)
			}
		})
		var err error
		if g, err = g.Extend(parseGraph(t, fmt.Sprintf("n%d = NoOp(^n%d)", i, i-1))); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
}

func TestManyControls(t *testing.T) {
	text := ""
	join := "join = NoOp(^n0"
	for i := range 100 {
		text += fmt.Sprintf("n%d = NoOp\n", i)
		join += fmt.Sprintf(", ^n%d", i)
	}
	g := mustBuild(t, text+join+")")
	if n := g.Lookup("join"); len(n.Controls) != 100 || n.Controls[0].Name != "n0" || n.Controls[99].Name != "n99" {
		t.Errorf("%d controls", len(n.Controls))
	}
	if !g.Contains(parseGraph(t, join+")")) {
		t.Error("an equal node is not found equal")
	}
}

func TestEmptyGraphTakesVersionLater(t *testing.T) {
	def := parseGraph(t, "")
	def.Versions = nil
	g, err := Build(def)
	if err != nil {
		t.Fatal(err)
	}
	if g, err = g.Extend(parseGraph(t, "producer 21\na = NoOp")); err != nil || g.Producer != 21 {
		t.Fatal(g, err)
	}
}

func TestFeedsOf(t *testing.T) {
	g := mustBuild(t, `
		a = Placeholder[dtype=float]
		b = Placeholder[dtype=float]
		c = Placeholder[dtype=float]
		ab = Add[T=float](a, b)
		abc = Add[T=float](ab, ab, ^c)
		k = Identity[T=float](c)
		v = VariableV2[dtype=float; shape=shape(1)]`)
	p, err := Prune(g, Signature{Feeds: []string{"c", "a", "b"}, Fetches: []string{"ab", "abc", "k", "v"}}, "/job:a/replica:0/task:0/device:CPU:0")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]int{{1, 2}, {0, 1, 2}, {0}, nil} {
		if got := p.FeedsOf(i); !slices.Equal(got, want) {
			t.Errorf("%s needs feeds %v, want %v", p.Signature.Fetches[i], got, want)
		}
	}
	p, err = Prune(g, Signature{Feeds: []string{"c", "ab"}, Fetches: []string{"abc"}}, "/job:a/replica:0/task:0/device:CPU:0")
	if err != nil {
		t.Fatal(err)
	}
	if got := p.FeedsOf(0); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("abc needs feeds %v, want both", got)
	}
}

// TestPruneKeepsPlacement checks that a pruned graph's nodes stay where placement put them,
// and that they are copies.
func TestPruneKeepsPlacement(t *testing.T) {
	g := mustBuild(t, "a = Placeholder[dtype=float]\nb = Identity[T=float](a)")
	const device, client = "/job:ps/replica:0/task:0/device:CPU:0", "/job:a/replica:0/task:0/device:CPU:0"
	for _, n := range g.Nodes {
		n.Assigned = device
	}
	p, err := Prune(g, Signature{Feeds: []string{"a:0"}, Fetches: []string{"b:0"}}, client)
	if err != nil {
		t.Fatal(err)
	}
	b := p.Lookup("b")
	if b == g.Lookup("b") || b.Assigned != device || p.Feeds[0].Assigned != client || p.Fetches[0].Assigned != client {
		t.Errorf("got\n%s", show(p.Graph))
	}
	if g.Lookup("b").Inputs[0].Node != g.Lookup("a") {
		t.Error("pruning changed the graph")
	}
	again, err := Rebuild(p.Def())
	if err != nil {
		t.Fatal(err)
	}
	if n := again.Lookup("b"); n.Assigned != device || again.Lookup(p.Feeds[0].Name).Assigned != client {
		t.Errorf("a worker gets\n%s", show(again))
	}
}

// TestLibraryFor checks that For keeps only what is called, through attributes and other functions.
func TestLibraryFor(t *testing.T) {
	def := parseGraph(t, "x = PartitionedCall[Tin=[]; Tout=[]; f=&a]")
	def.Library = parseLibrary(t, `
		function { signature { name: "a" } node_def { name: "n" op: "b" } }
		function { signature { name: "b" } node_def { name: "n" op: "PartitionedCall" attr { key: "f" value { func { name: "a" attr { key: "g" value { func { name: "c" } } } } } } } }
		function { signature { name: "c" } }
		function { signature { name: "d" } }
		function { signature { name: "a_grad" } }
		gradient { function_name: "a" gradient_func: "a_grad" }`)
	g, err := Build(def)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range g.Library.For(g).Proto().Function {
		got = append(got, f.Signature.Name)
	}
	if !slices.Equal(got, []string{"a", "a_grad", "b", "c"}) {
		t.Errorf("got %v", got)
	}
}

// TestOutputsAreBounded: a short message must not claim much memory.
func TestOutputsAreBounded(t *testing.T) {
	text := "i = Placeholder[dtype=int32]\n"
	for k := range 10 {
		text += fmt.Sprintf("s%d = Split[T=int32; num_split=1000000](i, i)\n", k)
	}
	if _, err := Build(parseGraph(t, text)); err == nil {
		t.Error("10 million outputs were accepted")
	}
}
