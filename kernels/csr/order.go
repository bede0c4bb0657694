package csr

import (
	"math"
	"sync"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// order gives for each matrix an order of its rows and columns in which a factorization makes few new elements. Only the
// lower triangle counts.
func order(ctx *kernels.Context) error {
	m, err := variant.CSRInput(ctx, 0)
	if err != nil {
		return err
	}
	n, err := squareSize(m)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, tensor.Int32, m.Dims[:len(m.Dims)-1])
	if err != nil {
		return err
	}
	to := tensor.Of[int32](out)
	return eachMatrix(ctx, m, 10, func(meter *kernels.Meter, b int) error {
		g, err := newGraph(meter, placesOf(m, b))
		if err == nil {
			g.eliminate()
			copy(to[b*n:], g.postorder())
		}
		return err
	})
}

// eachMatrix calls body for the matrices of a batch, on as many cores as it is worth if each element costs so much, and gives
// it a meter of its own. It returns the first error.
func eachMatrix(ctx *kernels.Context, m *variant.CSR, cost int, body func(meter *kernels.Meter, b int) error) error {
	rows, _ := m.Size()
	each := (m.Columns.Len()/m.Matrices() + rows) * cost
	var mu sync.Mutex
	var failed error
	ctx.Device.Parallel(m.Matrices(), max(1, element.CheapGrain/max(1, each)), func(lo, hi int) {
		for b := lo; b < hi; b++ {
			meter := ctx.Meter()
			err := body(&meter, b)
			meter.Done()
			if err != nil {
				mu.Lock()
				if failed == nil {
					failed = err
				}
				mu.Unlock()
				return
			}
		}
	})
	return failed
}

// graph is the quotient graph of the approximate minimum degree algorithm (Amestoy, Davis and Duff, 1996). Its nodes are
// rows that are still there, or several that cannot be told apart; its elements are rows that were eliminated, each with
// the nodes that it joined. Ties are broken as Eigen does, so that TensorFlow gives the same order.
type graph struct {
	n int32
	// list holds the neighbours of all nodes and elements, from at on and so many as size tells: first a node's elements,
	// as many as elements tells, then its nodes. What was absorbed has at the flipped number of what absorbed it.
	list               []int32
	at, size, elements []int32
	// weight is how many rows a node stands for: negative while it is a neighbour of the pivot, 0 once it is gone.
	weight []int32
	// Nodes of one degree form a list: first of each degree, next and previous.
	degree, first, next, previous []int32
	// seen is 0 for what is gone. At stamp or above, it tells what was met in the current pass.
	seen   []int32
	bucket []int32 // nodes by the hash of their neighbours
	stamp  int32
	widest int32 // the largest degree of an element
	least  int32 // no node has a lower degree
	gone   int32 // rows that are eliminated
	used   int32 // of list
}

const (
	root = -1 // the end of a list, and what nothing absorbed
	dead = -1 // in elements: what was absorbed
	made = -2 // in elements: an element
)

// flip exchanges indices with negative numbers.
func flip(i int32) int32 { return -i - 2 }

// newGraph makes the graph of a symmetric matrix out of its lower triangle.
func newGraph(meter *kernels.Meter, p places) (*graph, error) {
	n := p.rows
	starts, err := kernels.Scratch[int32](meter, n+1)
	if err != nil {
		return nil, err
	}
	total := 0
	lower(p, func(i, j int32) {
		starts[i+1]++
		total++
		if i != j {
			starts[j+1]++
			total++
		}
	})
	const tables = 9
	work, err := kernels.Scratch[int32](meter, tables*(n+1))
	if err != nil {
		return nil, err
	}
	list, err := kernels.Scratch[int32](meter, total+total/5+2*n+1)
	if err != nil {
		return nil, err
	}
	sumUp(starts)
	g := &graph{n: int32(n), list: list, at: starts, used: int32(total), stamp: 2}
	for i, t := range []*[]int32{&g.size, &g.elements, &g.weight, &g.degree, &g.first, &g.next, &g.previous, &g.seen, &g.bucket} {
		*t = work[i*(n+1):][:n+1]
	}
	fill := g.next // where the next neighbour goes
	copy(fill, starts)
	add := func(i, j int32) {
		list[fill[i]] = j
		fill[i]++
	}
	lower(p, func(i, j int32) {
		add(i, j)
		if i != j {
			add(j, i)
		}
	})
	g.begin()
	return g, nil
}

// lower calls f for the elements of the lower triangle. One place may have several, of which the first one counts where
// they follow each other.
func lower(p places, f func(i, j int32)) {
	for i := range p.rows {
		last := int32(-1)
		for _, j := range p.row(i) {
			if j <= int32(i) && j != last {
				f(int32(i), j)
			}
			last = j
		}
	}
}

// begin puts the nodes into the lists of their degrees. Those without neighbours are eliminated at once. Those with very many,
// or without an element on the diagonal, come last: they become part of an element n, which is no row.
func (g *graph) begin() {
	n := g.n
	for i := range n + 1 {
		g.first[i], g.next[i], g.previous[i], g.bucket[i] = root, root, root, root
		g.weight[i], g.seen[i] = 1, 1
		if i < n {
			g.size[i] = g.at[i+1] - g.at[i]
		}
		g.degree[i] = g.size[i]
	}
	limit := manyNeighbours(n)
	for i := range n {
		diagonal := false
		for _, j := range g.list[g.at[i]:][:g.size[i]] {
			diagonal = diagonal || j == i
		}
		switch d := g.degree[i]; {
		case d == 1 && diagonal:
			g.elements[i], g.at[i], g.seen[i] = made, root, 0
			g.gone++
		case d > limit || !diagonal:
			g.elements[i], g.at[i], g.weight[i] = dead, flip(n), 0
			g.weight[n]++
			g.gone++
		default:
			g.link(i, d)
		}
	}
	g.elements[n], g.at[n], g.seen[n] = made, root, 0
}

// link puts a node in front of the list of its degree.
func (g *graph) link(i, d int32) {
	if old := g.first[d]; old != root {
		g.previous[old] = i
	}
	g.next[i], g.previous[i] = g.first[d], root
	g.first[d] = i
}

// unlink takes a node out of the list of its degree.
func (g *graph) unlink(i int32) {
	if g.next[i] != root {
		g.previous[g.next[i]] = g.previous[i]
	}
	if g.previous[i] != root {
		g.next[g.previous[i]] = g.next[i]
	} else {
		g.first[g.degree[i]] = g.next[i]
	}
}

// restamp makes a stamp that nothing has been seen at, and to which twice the number of nodes can be added.
func (g *graph) restamp(stamp int32) {
	if int64(stamp)+2*int64(g.n) > math.MaxInt32 || stamp < 2 {
		for i := range g.n {
			g.seen[i] = min(g.seen[i], 1)
		}
		stamp = 2
	}
	g.stamp = stamp
}

// postorder is the order of the rows: an element comes after all that it absorbed.
func (g *graph) postorder() []int32 {
	n := g.n
	for i := range n {
		g.at[i] = flip(g.at[i]) // the parent
	}
	for i := range n + 1 {
		g.first[i] = root
	}
	adopt := func(i int32) {
		if parent := g.at[i]; parent != root {
			g.next[i] = g.first[parent]
			g.first[parent] = i
		}
	}
	for i := n; i >= 0; i-- {
		if g.weight[i] <= 0 {
			adopt(i)
		}
	}
	for i := n; i >= 0; i-- {
		if g.weight[i] > 0 {
			adopt(i)
		}
	}
	out, stack := g.previous[:0], g.seen[:0]
	for i := range n + 1 {
		if g.at[i] != root {
			continue
		}
		for stack = append(stack, i); len(stack) > 0; {
			top := stack[len(stack)-1]
			if child := g.first[top]; child != root {
				g.first[top] = g.next[child]
				stack = append(stack, child)
				continue
			}
			stack = stack[:len(stack)-1]
			out = append(out, top)
		}
	}
	return out[:n]
}
