package actors

import (
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/internal/view"
)

// shown returns a graph as text, one line per node, assembled from pages of limit nodes.
func shown(t *testing.T, give func(*view.GraphQuery) *view.Graph, session string, limit int64) string {
	t.Helper()
	var names, lines []string
	for {
		g := give(&view.GraphQuery{Task: taskName("a"), Session: session, First: int64(len(names)), Limit: limit})
		if !g.Known || g.Session != session || g.First != int64(len(names)) {
			t.Fatalf("a page from %d on: %v", len(names), g)
		}
		for _, n := range g.Page {
			names = append(names, n.Name)
			lines = append(lines, fmt.Sprintf("%s %s %s %v %v %d", n.Name, g.Ops[n.Op], g.Devices[n.Device], n.Inputs, n.Controls, n.Omitted))
		}
		if int64(len(names)) == g.Nodes {
			return strings.Join(lines, "\n")
		}
		if len(g.Page) == 0 || len(g.Page) > int(limit) {
			t.Fatalf("a page from %d on has %d nodes", len(names), len(g.Page))
		}
	}
}

func TestGraphIsShownByPages(t *testing.T) {
	net := newNetwork(t, "a", "b")
	n := net.node(taskName("a"))
	c := open(t, n, `
		x = Placeholder()
		two = Const() value=2 wide=true @b0
		y = Mul(x, two) @b0
		z = AddV2(y, x, ^two)
	`)
	want := `x Placeholder /job:a/replica:0/task:0/device:CPU:0 [] [] 0
two Const /job:b/replica:0/task:0/device:CPU:0 [] [] 0
y Mul /job:b/replica:0/task:0/device:CPU:0 [0 1] [] 0
z AddV2 /job:a/replica:0/task:0/device:CPU:0 [2 0] [1] 0`
	for limit := range int64(5) {
		if got := shown(t, n.task.Graph, c.session.name(), limit+1); got != want {
			t.Errorf("in pages of %d nodes:\n%s\nwant\n%s", limit+1, got, want)
		}
	}
	b := net.node(taskName("b"))
	asked := func(q *view.GraphQuery) *view.Graph {
		g, err := b.task.AskGraph(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	if got := shown(t, asked, c.session.name(), 3); got != want {
		t.Errorf("asked by another task:\n%s", got)
	}
	if g := n.task.Graph(&view.GraphQuery{Session: c.session.name(), First: -5}); g.First != 0 || len(g.Page) != 4 {
		t.Errorf("from -5 on: %v", g)
	}
	if g := n.task.Graph(&view.GraphQuery{Session: c.session.name(), First: 1 << 62, Limit: 1 << 62}); !g.Known || g.Nodes != 4 || len(g.Page) != 0 {
		t.Errorf("after the end: %v", g)
	}
	if g := asked(&view.GraphQuery{Task: taskName("a"), Session: "nonsense"}); g.Known {
		t.Errorf("of no session: %v", g)
	}
}

func TestPagesOfGraphsAreBounded(t *testing.T) {
	net := newNetwork(t, "a")
	n := net.node(taskName("a"))
	var text strings.Builder
	fmt.Fprintf(&text, "%s = Placeholder()\nx = Placeholder()\n", strings.Repeat("n", 2000))
	ins := strings.Repeat("x, ", 2999) + "x"
	const sums = 200
	for i := range sums {
		fmt.Fprintf(&text, "s%d = AddN(%s) N=3000\n", i, ins)
	}
	c := open(t, n, text.String())
	g := n.task.Graph(&view.GraphQuery{Session: c.session.name()})
	if len(g.Page) < 50 || len(g.Page) > sums/2 || g.Nodes != sums+2 {
		t.Errorf("the first page has %d nodes of %d", len(g.Page), g.Nodes)
	}
	if got := g.Page[0].Name; len(got) > maxNodeName+len("…") || !strings.HasSuffix(got, "n…") {
		t.Errorf("a long name is shown with %d bytes", len(got))
	}
	if got := shown(t, n.task.Graph, c.session.name(), pageNodes); strings.Count(got, "\n") != sums+1 {
		t.Errorf("all pages have %d lines", strings.Count(got, "\n"))
	}
}
