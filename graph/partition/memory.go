package partition

import (
	"slices"
	"strings"

	"github.com/troupe-run/troupe/graph"
)

// memory is where the device that produces or consumes a value keeps it.
type memory uint8

const (
	hostMemory memory = iota
	deviceMemory
)

// nodeMemory caches the result of Options.MemoryTypes for a node.
type nodeMemory struct {
	hostIn, hostOut []bool
	known           bool
}

// memoryOf returns the memory types of a node on a device that has its own memory.
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

// outputMemory returns the memory of an output, inputMemory the memory in which a node expects its input i. On CPUs, both are host memory.
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

// stays reports whether input i of a node is already on the node's device and in the memory in which it is expected. References are not
// moved: a node that takes one knows where the variable is.
func (s *splitter) stays(n *graph.Node, i int) bool {
	dev, in := s.places[n.ID].dev, n.Inputs[i]
	if s.places[in.Node.ID].dev != dev {
		return false
	}
	return !s.own[dev] || n.InTypes[i].IsRef() || s.outputMemory(in) == s.inputMemory(n, i)
}

// hosted reports whether m is host memory on a device that has its own.
func (s *splitter) hosted(dev int32, m memory) bool { return s.own[dev] && m == hostMemory }

// typeOf returns the device type in a full device name.
func typeOf(device string) string {
	_, kind, _ := strings.Cut(device, "/device:")
	kind, _, _ = strings.Cut(kind, ":")
	return kind
}
