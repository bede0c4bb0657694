package partition

import (
	"encoding/binary"
	"slices"
	"strconv"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// arrivals are the _Recvs added so far, for reuse.
type arrivals struct {
	// tensors are those that deliver an output to a device.
	tensors map[arrival]*graph.Node
	// signals are those that arrive, dead or alive, once the node has run.
	signals map[arrival]*graph.Node
	// groups are those that replace the control edges from several nodes.
	groups map[string]*graph.Node
}

// arrival identifies an output of a node on another device, or in the other memory of its own device. For a signal, the index and the
// memory are 0.
type arrival struct {
	from  int
	index int
	dev   int32
	to    memory // the destination
}

// cut replaces the edges between devices.
func (s *splitter) cut() error {
	s.arrivals = arrivals{map[arrival]*graph.Node{}, map[arrival]*graph.Node{}, map[string]*graph.Node{}}
	s.routes = map[routeKey]*route{}
	var reads []refRead
	for id := range len(s.nodes) { // the nodes added here have no inputs to cut
		if err := s.check(); err != nil {
			return err
		}
		r, err := s.cutInputs(s.nodes[id])
		if err != nil {
			return err
		}
		reads = append(reads, r...)
	}
	for _, r := range reads {
		if err := s.cutRead(r); err != nil {
			return err
		}
	}
	for id := range len(s.nodes) {
		if err := s.check(); err != nil {
			return err
		}
		if err := s.cutControls(s.nodes[id]); err != nil {
			return err
		}
	}
	return nil
}

// refRead is a node that reads a reference on another device through its input i. after holds the sources of all its other inputs, before
// they are cut.
type refRead struct {
	reader *graph.Node
	i      int
	after  []*graph.Node
	phase  phase
}

// cutInputs replaces the inputs of a node with ones on its own device, except for reads of references, which it returns.
func (s *splitter) cutInputs(node *graph.Node) (reads []refRead, err error) {
	dev := s.places[node.ID].dev
	for i, in := range node.Inputs {
		if s.stays(node, i) {
			continue
		} else if from := s.places[in.Node.ID]; node.InTypes[i].IsRef() {
			return nil, status.InvalidArgumentf("Input %d of {{node %s}} is a reference to {{node %s}}, which is on another device: %s, not %s",
				i, node.Name, in.Node.Name, s.devices[from.dev], s.devices[dev])
		}
		if in.Node.OutTypes[in.Index].IsRef() {
			reads = append(reads, s.refRead(node, i))
		}
	}
	for i, in := range node.Inputs {
		from := s.places[in.Node.ID]
		if in.Node.OutTypes[in.Index].IsRef() || s.stays(node, i) {
			continue
		}
		if from.kind == NextIteration && s.places[node.ID].kind == Merge {
			return nil, status.Internalf("{{node %s}} closes a loop from one memory of %s to the other", in.Node.Name, s.devices[dev])
		}
		key := arrival{in.Node.ID, in.Index, dev, s.inputMemory(node, i)}
		recv := s.tensors[key]
		if recv == nil {
			if _, recv, err = s.transfer(in, dev, key.to, in.Node, from.phase); err != nil {
				return nil, err
			}
			s.tensors[key] = recv
			// An output of a Switch may be dead when the Switch is not.
			if key.index, key.to = 0, hostMemory; from.dev != dev && from.kind != Switch && s.signals[key] == nil {
				s.signals[key] = recv
			}
		}
		node.Inputs[i] = graph.Output{Node: recv}
	}
	return reads, nil
}

// refRead determines when a node reads its input i: after all its other inputs have arrived. A Merge does not wait for its inputs.
func (s *splitter) refRead(node *graph.Node, i int) refRead {
	r := refRead{reader: node, i: i, phase: s.places[node.Inputs[i].Node.ID].phase}
	if s.places[node.ID].kind == Merge {
		return r
	}
	// left holds the nodes still to visit, the next one last.
	var left []*graph.Node
	push := func(inputs []graph.Output, controls []*graph.Node) {
		for _, from := range slices.Backward(controls) {
			left = append(left, from)
		}
		for _, in := range slices.Backward(inputs) {
			left = append(left, in.Node)
		}
	}
	push(node.Inputs, node.Controls)
	for seen := map[*graph.Node]bool{}; len(left) > 0; {
		n := left[len(left)-1]
		left = left[:len(left)-1]
		r.phase &= s.places[n.ID].phase
		switch {
		case n == node.Inputs[i].Node || seen[n]:
		case passesReference(n): // waiting for it would make it a separate read, at another time than the reader's
			seen[n] = true
			push(n.Inputs[:1], n.Controls)
		default:
			r.after = append(r.after, n)
		}
	}
	return r
}

// passesReference reports whether a node only passes on a reference, which its reader reads.
func passesReference(n *graph.Node) bool {
	for n.Op == "Identity" {
		in := n.Inputs[0]
		if in.Node.OutTypes[in.Index].IsRef() {
			return true
		}
		n = in.Node
	}
	return false
}

// cutRead makes the variable's device read it at the time when the reader would.
func (s *splitter) cutRead(r refRead) error {
	in := r.reader.Inputs[r.i]
	read, recv, err := s.transfer(in, s.places[r.reader.ID].dev, s.inputMemory(r.reader, r.i), in.Node, r.phase)
	if err != nil {
		return err
	}
	read.Controls = r.after
	r.reader.Inputs[r.i] = graph.Output{Node: recv}
	return nil
}

// cutControls replaces the control inputs of a node with ones on its own device.
func (s *splitter) cutControls(node *graph.Node) error {
	dev := s.places[node.ID].dev
	if !slices.ContainsFunc(node.Controls, func(from *graph.Node) bool { return s.places[from.ID].dev != dev }) {
		return nil
	}
	var local, remote []*graph.Node
	for _, from := range node.Controls {
		if s.places[from.ID].dev == dev {
			local = append(local, from)
		} else if recv := s.signals[arrival{from: from.ID, dev: dev}]; recv != nil {
			local = append(local, recv)
		} else {
			remote = append(remote, from)
		}
	}
	slices.SortStableFunc(remote, func(a, b *graph.Node) int { return int(s.places[a.ID].dev - s.places[b.ID].dev) })
	for len(remote) > 0 {
		n := 1
		for n < len(remote) && s.places[remote[n].ID].dev == s.places[remote[0].ID].dev {
			n++
		}
		recv, err := s.signal(remote[:n], dev)
		if err != nil {
			return err
		}
		local = append(local, recv)
		remote = remote[n:]
	}
	node.Controls = s.needed(node, local)
	return nil
}

// needed removes duplicate control inputs of a node and those implied by its data inputs.
func (s *splitter) needed(node *graph.Node, controls []*graph.Node) []*graph.Node {
	have := map[*graph.Node]bool{}
	if s.places[node.ID].kind != Merge {
		for _, in := range node.Inputs {
			have[in.Node] = s.places[in.Node.ID].kind == Recv
		}
	}
	return slices.DeleteFunc(controls, func(c *graph.Node) bool {
		drop := have[c]
		have[c] = true
		return drop
	})
}

// signal returns a node on dev that runs after all of from, which are on one other device, and that is dead if any of them is.
func (s *splitter) signal(from []*graph.Node, dev int32) (*graph.Node, error) {
	slices.SortFunc(from, func(a, b *graph.Node) int { return a.ID - b.ID })
	from = slices.Compact(from)
	if len(from) == 1 {
		key := arrival{from: from[0].ID, dev: dev}
		recv, err := s.sendSignal(from, dev)
		s.signals[key] = recv
		return recv, err
	}
	key := binary.AppendVarint(nil, int64(dev))
	for _, f := range from {
		key = binary.AppendVarint(key, int64(f.ID))
	}
	if recv := s.groups[string(key)]; recv != nil {
		return recv, nil
	}
	recv, err := s.sendSignal(from, dev)
	s.groups[string(key)] = recv
	return recv, err
}

// sendSignal adds the transfer for signal.
func (s *splitter) sendSignal(from []*graph.Node, dev int32) (*graph.Node, error) {
	p := placed{dev: s.places[from[0].ID].dev, in: s.places[from[0].ID].out, out: s.places[from[0].ID].out, phase: always}
	for _, f := range from {
		p.phase &= s.places[f.ID].phase
	}
	c := s.emptyConst(from[0], "control", p, slices.Clone(from)...)
	_, recv, err := s.transfer(graph.Output{Node: c}, dev, hostMemory, from[0], p.phase)
	if err == nil {
		s.transfers[len(s.transfers)-1].Control = true
	}
	return recv, err
}

// transfer adds the nodes that move an output, on behalf of user and in the iterations p, to a memory of another device or the other
// memory of its own. first reads the output; last holds it at the destination.
func (s *splitter) transfer(out graph.Output, dev int32, to memory, user *graph.Node, p phase) (first, last *graph.Node, err error) {
	from, dtype := s.places[out.Node.ID], out.Node.OutTypes[out.Index].Base()
	var start *graph.Node
	if from.dev != dev {
		if start, err = s.starter(user, from.out, dev, p); err != nil {
			return nil, nil, err
		}
	}
	sendOp, recvOp := "_Send", "_Recv"
	if s.hosted(from.dev, s.outputMemory(out)) {
		sendOp = "_HostSend"
	}
	if s.hosted(dev, to) {
		recvOp = "_HostRecv"
	}
	at := placed{dev: from.dev, in: from.out, out: from.out, phase: p}
	sent := dtype
	if s.narrows(out, dev, to) {
		sent = tensor.BFloat16
		first = s.cast(user, out, dtype, sent, at)
		out = graph.Output{Node: first}
	}
	way := s.route(from.dev, dev, sent)
	t := Transfer{
		Edge: "edge_" + strconv.Itoa(len(s.transfers)) + "_" + user.Name, Src: s.devices[from.dev], Dst: s.devices[dev],
		DType: sent, Frame: s.info.Frames[from.out].Name,
	}
	s.transfers = append(s.transfers, t)
	name := stringAttr(t.Edge)
	attrs := func(typeName string) graph.Attrs {
		return graph.Attrs{typeName: way.dtype, "tensor_name": name, "send_device": way.sender, "recv_device": way.receiver,
			"send_device_incarnation": way.incarnation, "client_terminated": no}
	}
	at.kind = Send
	send := s.add(user, graph.Node{
		Name: s.namer.name(user, "send"), Op: sendOp, Attrs: attrs("T"),
		Inputs: []graph.Output{out}, InTypes: way.types,
	}, at)
	if from.dev == dev {
		start = send // the order is certain here, in every iteration
	}
	at.dev, at.kind = dev, Recv
	last = s.add(user, graph.Node{
		Name: s.namer.name(user, "recv"), Op: recvOp, Attrs: attrs("tensor_type"), OutTypes: way.types,
	}, at)
	if start != nil {
		last.Controls = []*graph.Node{start}
	}
	if sent == dtype {
		return send, last, nil
	}
	at.kind = Plain
	return first, s.cast(user, graph.Output{Node: last}, sent, dtype, at), nil
}

// routeKey is what all transfers of a type between two devices have in common.
type routeKey struct {
	src, dst int32
	dtype    tensor.DType
}

// route holds the attributes shared by those transfers.
type route struct {
	sender, receiver, incarnation, dtype *attrpb.AttrValue
	types                                []tensor.DType
}

func (s *splitter) route(src, dst int32, dtype tensor.DType) *route {
	k := routeKey{src, dst, dtype}
	if s.routes[k] == nil {
		life := int64(0)
		if s.opts.Incarnation != nil {
			life = int64(s.opts.Incarnation(s.devices[src]))
		}
		s.routes[k] = &route{stringAttr(s.devices[src]), stringAttr(s.devices[dst]), intAttr(life), typeAttr(dtype), []tensor.DType{dtype}}
	}
	return s.routes[k]
}
