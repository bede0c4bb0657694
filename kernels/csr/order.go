package csr

import (
	"math"
	"sync"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// order outputs for each matrix an order of its rows and columns that causes little fill-in in a factorization. Only the lower triangle is
// used.
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

// eachMatrix calls body for the matrices of a batch, each with its own meter, on as many cores as are worthwhile if each element costs
// cost. It returns the first error.
func eachMatrix(ctx *kernels.Context, m *variant.CSR, cost int, body func(meter *kernels.Meter, b int) error) error {
	rows, _ := m.Size()
	each := (m.Columns.Len()/m.Matrices() + rows) * cost
	var mu sync.Mutex
	var failed error
	ctx.Parallel(m.Matrices(), max(1, element.CheapGrain/max(1, each)), func(lo, hi int) {
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
	if failed == nil {
		failed = ctx.Ended()
	}
	return failed
}

// graph is the quotient graph of the approximate minimum degree algorithm (Amestoy, Davis and Duff, 1996). Its nodes are remaining rows, or
// groups of indistinguishable ones. Its elements are eliminated rows, each with the nodes that it connected. Ties are broken as in Eigen,
// to produce TensorFlow's order.
type graph struct {
	n int32
	// list holds the neighbours of each node and element, size of them starting at at: first a node's elements, as many as elements says,
	// then its nodes. For absorbed ones, at is the flipped number of the absorber.
	list               []int32
	at, size, elements []int32
	// weight is how many rows a node represents: negative while it is a neighbour of the pivot, 0 once it is gone.
	weight []int32
	// Nodes of equal degree form a doubly linked list: first (by degree), next and previous.
	degree, first, next, previous []int32
	// seen is 0 for removed nodes and elements. Values of at least stamp mark those met in the current pass.
	seen   []int32
	bucket []int32 // nodes by the hash of their neighbours
	stamp  int32
	widest int32 // the maximum degree of an element
	least  int32 // lower bound of the nodes' degrees
	gone   int32 // number of eliminated rows
	used   int32 // used length of list
}

const (
	root = -1 // the end of a list, and the absorber of nodes that were not absorbed
	dead = -1 // in elements: absorbed
	made = -2 // in elements: an element
)

// flip maps indices to negative numbers and back.
func flip(i int32) int32 { return -i - 2 }

// newGraph returns the graph of a symmetric matrix, given its lower triangle.
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
	fill := g.next // position of the next neighbour
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

// lower calls f for the elements of the lower triangle. Of consecutive elements at the same position, only the first one counts.
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

// begin puts the nodes into the lists of their degrees. Nodes without neighbours are eliminated at once. Dense nodes, or those without an
// element on the diagonal, come last: they become part of an element n, which is not a row.
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

// link inserts a node at the front of the list of its degree.
func (g *graph) link(i, d int32) {
	if old := g.first[d]; old != root {
		g.previous[old] = i
	}
	g.next[i], g.previous[i] = g.first[d], root
	g.first[d] = i
}

// unlink removes a node from the list of its degree.
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

// restamp sets a stamp that is above all marks, and to which twice the number of nodes can be added without overflow.
func (g *graph) restamp(stamp int32) {
	if int64(stamp)+2*int64(g.n) > math.MaxInt32 || stamp < 2 {
		for i := range g.n {
			g.seen[i] = min(g.seen[i], 1)
		}
		stamp = 2
	}
	g.stamp = stamp
}

// postorder returns the order of the rows: an element comes after all that it absorbed.
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
