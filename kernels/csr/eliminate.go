package csr

import "math"

// manyNeighbours is the number of neighbours above which a node in a graph of n is dense.
func manyNeighbours(n int32) int32 { return min(n-2, max(16, int32(10*math.Sqrt(float64(n))))) }

// eliminate eliminates nodes of minimum degree, one after the other.
func (g *graph) eliminate() {
	for g.gone < g.n {
		for g.first[g.least] == root {
			g.least++
		}
		k := g.first[g.least]
		g.unlink(k)
		g.gone += g.weight[k]
		if g.elements[k] > 0 && int(g.used)+int(g.least) >= len(g.list)-1 {
			g.compact()
		}
		had := g.elements[k]
		from, to, degree := g.join(k)
		g.degree[k], g.at[k], g.size[k], g.elements[k] = degree, from, to-from, made
		rows := -g.weight[k]
		g.restamp(g.stamp)
		g.compareElements(from, to)
		for at := from; at < to; at++ {
			if i := g.list[at]; !g.update(i, k) {
				rows -= g.weight[i]
				degree += g.weight[i]
				g.gone -= g.weight[i]
				g.weight[i] = 0
			}
		}
		g.degree[k] = degree
		g.widest = max(g.widest, degree)
		g.restamp(g.stamp + g.widest)
		g.mergeEqual(from, to)
		end := g.relink(from, to, degree)
		g.weight[k] = rows
		if g.size[k] = end - from; g.size[k] == 0 {
			g.at[k], g.seen[k] = root, 0
		}
		if had != 0 {
			g.used = end
		}
	}
}

// compact moves the used parts of list to its start.
func (g *graph) compact() {
	for j := range g.n {
		// The first entry is saved in at, and replaced by the number of the list's owner.
		if at := g.at[j]; at >= 0 {
			g.at[j] = g.list[at]
			g.list[at] = flip(j)
		}
	}
	to := int32(0)
	for from := int32(0); from < g.used; {
		j := flip(g.list[from])
		from++
		if j < 0 {
			continue
		}
		g.list[to] = g.at[j]
		g.at[j] = to
		to++
		for range g.size[j] - 1 {
			g.list[to] = g.list[from]
			to++
			from++
		}
	}
	g.used = to
}

// join makes node k an element. Its neighbours are those of k and of k's neighbouring elements, which it absorbs. Their weights become
// negative. It returns their range in list, and how many rows they represent.
func (g *graph) join(k int32) (from, to, degree int32) {
	g.weight[k] = -g.weight[k]
	at, own := g.at[k], g.elements[k]
	from = g.used
	if own == 0 {
		from = at // no more than there were
	}
	to = from
	take := func(at, n int32) {
		for ; n > 0; n-- {
			i := g.list[at]
			at++
			if w := g.weight[i]; w > 0 {
				degree += w
				g.weight[i] = -w
				g.list[to] = i
				to++
				g.unlink(i)
			}
		}
	}
	for range own {
		e := g.list[at]
		at++
		take(g.at[e], g.size[e])
		g.at[e], g.seen[e] = flip(k), 0
	}
	take(at, g.size[k]-own)
	if own != 0 {
		g.used = to
	}
	return from, to, degree
}

// compareElements sets seen of each element next to a node in list[from:to] to stamp plus the number of its rows outside that range.
func (g *graph) compareElements(from, to int32) {
	for _, i := range g.list[from:to] {
		n := g.elements[i]
		if n <= 0 {
			continue
		}
		rows := -g.weight[i]
		for _, e := range g.list[g.at[i]:][:n] {
			switch {
			case g.seen[e] >= g.stamp:
				g.seen[e] -= rows
			case g.seen[e] != 0:
				g.seen[e] = g.degree[e] + g.stamp - rows
			}
		}
	}
}

// update recomputes the neighbours of node i, now that k is an element next to it, and puts i in the bucket of their hash. It returns false
// if i has no neighbour other than k, which then absorbs it.
func (g *graph) update(i, k int32) bool {
	begin := g.at[i]
	to, degree, hash := begin, int32(0), uint32(0)
	for _, e := range g.list[begin:][:g.elements[i]] {
		if g.seen[e] == 0 {
			continue
		}
		if beside := g.seen[e] - g.stamp; beside > 0 {
			degree += beside
			g.list[to] = e
			to++
			hash += uint32(e)
		} else {
			g.at[e], g.seen[e] = flip(k), 0
		}
	}
	nodes, end := to, begin+g.size[i]
	for at := begin + g.elements[i]; at < end; at++ {
		j := g.list[at]
		if w := g.weight[j]; w > 0 {
			degree += w
			g.list[to] = j
			to++
			hash += uint32(j)
		}
	}
	g.elements[i] = nodes - begin + 1
	if degree == 0 {
		g.at[i], g.elements[i] = flip(k), dead
		return false
	}
	g.degree[i] = min(g.degree[i], degree)
	// k becomes the first element: make room by moving the first node and the first element.
	g.list[to] = g.list[nodes]
	g.list[nodes] = g.list[begin]
	g.list[begin] = k
	g.size[i] = to - begin + 1
	h := int32(hash % uint32(g.n))
	g.next[i], g.bucket[h] = g.bucket[h], i
	g.previous[i] = h
	return true
}

// mergeEqual merges nodes in list[from:to] that have the same neighbours.
func (g *graph) mergeEqual(from, to int32) {
	for _, i := range g.list[from:to] {
		if g.weight[i] >= 0 {
			continue
		}
		h := g.previous[i]
		i = g.bucket[h]
		g.bucket[h] = root
		for ; i != root && g.next[i] != root; i = g.next[i] {
			for _, e := range g.neighbours(i) {
				g.seen[e] = g.stamp
			}
			last := i
			for j := g.next[i]; j != root; j = g.next[j] {
				if !g.same(i, j) {
					last = j
					continue
				}
				g.at[j], g.elements[j] = flip(i), dead
				g.weight[i] += g.weight[j]
				g.weight[j] = 0
				g.next[last] = g.next[j]
			}
			g.stamp++
		}
	}
}

// neighbours returns a node's neighbours except the latest element, which comes first.
func (g *graph) neighbours(i int32) []int32 { return g.list[g.at[i]+1:][:g.size[i]-1] }

// same reports whether j has the neighbours of i, which are marked with stamp.
func (g *graph) same(i, j int32) bool {
	if g.size[i] != g.size[j] || g.elements[i] != g.elements[j] {
		return false
	}
	for _, e := range g.neighbours(j) {
		if g.seen[e] != g.stamp {
			return false
		}
	}
	return true
}

// relink puts the remaining nodes in list[from:to] back into the lists of their degrees, and returns the end of their range.
func (g *graph) relink(from, to, degree int32) (end int32) {
	end = from
	for _, i := range g.list[from:to] {
		rows := -g.weight[i]
		if rows <= 0 {
			continue
		}
		g.weight[i] = rows
		d := min(g.degree[i]+degree-rows, g.n-g.gone-rows)
		g.link(i, d)
		g.least = min(g.least, d)
		g.degree[i] = d
		g.list[end] = i
		end++
	}
	return end
}
