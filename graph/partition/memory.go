package partition

import (
	"slices"
	"strings"

	"github.com/troupe-run/troupe/graph"
)

// memory is where a value lies for the device that makes or takes it.
type memory uint8

const (
	hostMemory memory = iota
	deviceMemory
)

// nodeMemory is what Options.MemoryTypes says of a node.
type nodeMemory struct {
	hostIn, hostOut []bool
	known           bool
}

// memoryOf asks for the memory types of a node on a device with memory of its own.
func (s *splitter) memoryOf(n *graph.Node) *nodeMemory {
	if n.ID >= len(s.memories) {
		s.memories = slices.Grow(s.memories, len(s.nodes)-len(s.memories))[:len(s.nodes)]
	}
	m := &s.memories[n.ID]
	if !m.known {
		m.known = true
		if s.opts.MemoryTypes != nil {
			m.hostIn, m.hostOut = s.opts.MemoryTypes(n, s.types[s.places[n.ID].dev])
		}
	}
	return m
}

// outputMemory is where an output lies, inputMemory where a node wants its input i. On CPUs that is host
// memory.
func (s *splitter) outputMemory(o graph.Output) memory {
	if !s.own[s.places[o.Node.ID].dev] {
		return hostMemory
	}
	return memoryAt(s.memoryOf(o.Node).hostOut, o.Index)
}

func (s *splitter) inputMemory(n *graph.Node, i int) memory {
	if !s.own[s.places[n.ID].dev] {
		return hostMemory
	}
	return memoryAt(s.memoryOf(n).hostIn, i)
}

func memoryAt(host []bool, i int) memory {
	if i < len(host) && host[i] {
		return hostMemory
	}
	return deviceMemory
}

// stays tells whether input i of a node is on the node's device and in the memory that it is wanted in.
// References stay what they are: who takes one knows where the variable lies.
func (s *splitter) stays(n *graph.Node, i int) bool {
	dev, in := s.places[n.ID].dev, n.Inputs[i]
	if s.places[in.Node.ID].dev != dev {
		return false
	}
	return !s.own[dev] || n.InTypes[i].IsRef() || s.outputMemory(in) == s.inputMemory(n, i)
}

// hosted tells whether a memory of a device is the host's though the device has its own.
func (s *splitter) hosted(dev int32, m memory) bool { return s.own[dev] && m == hostMemory }

// typeOf is the type of a device with a full name.
func typeOf(device string) string {
	_, kind, _ := strings.Cut(device, "/device:")
	kind, _, _ = strings.Cut(kind, ":")
	return kind
}
