package devices

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/proto"
)

// join replaces nodes that compute the same from the same inputs by the first of them.
func (w *wiring) join() {
	j := &joiner{w: w, same: map[string][]*node{}, values: map[*tensor.Tensor]uint64{}, contents: map[string]uint64{}}
	visited := make([]bool, len(w.nodes))
	var stack []*node
	for i := range w.nodes {
		stack = append(stack, &w.program.nodes[i])
		for len(stack) > 0 { // inputs come before their users
			n := stack[len(stack)-1]
			if visited[n.place] || !w.pure(n) {
				stack = stack[:len(stack)-1]
				continue
			}
			before := len(stack)
			for _, in := range w.of(n).inputs {
				if in.node != nil && !visited[in.node.place] && w.pure(in.node) {
					stack = append(stack, in.node)
				}
			}
			if len(stack) == before {
				stack = stack[:before-1]
				visited[n.place] = true
				j.visit(n)
			}
		}
	}
}

// joiner finds equal nodes.
type joiner struct {
	w    *wiring
	same map[string][]*node // by op, frame, inputs and controls
	// values numbers the constants. Small constants of equal content have the same number, by contents.
	values   map[*tensor.Tensor]uint64
	contents map[string]uint64
	key      []byte
}

func (j *joiner) visit(n *node) {
	if len(j.w.of(n).users) == 0 {
		return // a target
	}
	j.key = append(append(j.key[:0], n.graph.Op...), 0)
	j.number(uint64(n.frame.index))
	for _, in := range j.w.of(n).inputs {
		if in.node != nil {
			j.number(uint64(in.node.place)<<1 | 1)
			j.number(uint64(in.out))
		} else {
			j.number(j.constant(in.value) << 1)
		}
	}
	for _, c := range j.w.controls(n) {
		j.number(uint64(c.place))
	}
	for _, first := range j.same[string(j.key)] {
		if sameAttrs(first.graph, n.graph) && slices.Equal(first.graph.OutTypes, n.graph.OutTypes) {
			j.replace(n, first)
			return
		}
	}
	j.same[string(j.key)] = append(j.same[string(j.key)], n)
}

func (j *joiner) number(v uint64) { j.key = binary.AppendUvarint(j.key, v) }

// comparedBytes bounds the constants that are compared by content.
const comparedBytes = 1 << 10

func (j *joiner) constant(t *tensor.Tensor) uint64 {
	if id, ok := j.values[t]; ok {
		return id
	}
	id := uint64(len(j.values))
	if size := t.DataSize(); size > 0 && size <= comparedBytes {
		content := binary.AppendUvarint(nil, uint64(t.DType()))
		content = binary.AppendUvarint(content, uint64(t.Rank()))
		for _, d := range t.Shape() {
			content = binary.AppendUvarint(content, uint64(d))
		}
		content = append(content, t.Data()...)
		if known, ok := j.contents[string(content)]; ok {
			id = known
		}
		j.contents[string(content)] = id
	}
	j.values[t] = id
	return id
}

// replace gives the outputs of first to the users of n. Nodes that wait for n then wait for first.
func (j *joiner) replace(n, first *node) {
	l := j.w.of(n)
	l.gone = true
	for _, u := range l.users {
		if in := j.w.of(u.node).inputs[u.slot]; !j.w.gone(u.node) && in.node == n {
			j.w.connect(u, source{node: first, out: in.out})
		}
	}
	for _, x := range l.waiters {
		if !j.w.gone(x) {
			j.w.await(x, first)
		}
	}
}

// sameAttrs compares attributes, except those whose names begin with _, which do not affect the computation.
func sameAttrs(a, b *graph.Node) bool {
	plain := 0
	for name, v := range a.Attrs {
		if strings.HasPrefix(name, "_") {
			continue
		}
		plain++
		if other, ok := b.Attrs[name]; !ok || !proto.Equal(v, other) {
			return false
		}
	}
	for name := range b.Attrs {
		if !strings.HasPrefix(name, "_") {
			plain--
		}
	}
	return plain == 0
}
