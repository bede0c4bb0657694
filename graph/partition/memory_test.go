package partition

import (
	"hash/fnv"
	"strconv"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
)

// memoryTypes are the kernels of an imaginary GPU: control flow and variables as in TensorFlow, with small integers and conditions in host
// memory. For other ops the node's name decides: a name such as split_h1 puts output 1 in host memory, and in_h0 input 0.
func memoryTypes(n *graph.Node, deviceType string) (hostIn, hostOut []bool) {
	if deviceType != "GPU" {
		panic("asked for the memory of a " + deviceType)
	}
	hostIn, hostOut = make([]bool, len(n.Inputs)), make([]bool, len(n.OutTypes))
	small := func(t tensor.DType) bool { return t.Base() == tensor.Int32 || t.Base() == tensor.Bool }
	for i, t := range n.InTypes {
		hostIn[i] = small(t)
	}
	for i, t := range n.OutTypes {
		hostOut[i] = small(t)
	}
	switch KindOf(n.Op) {
	case Plain:
	default:
		return hostIn, hostOut
	}
	if strings.Contains(n.Op, "Variable") || strings.HasPrefix(n.Op, "Assign") || n.Op == "Const" || n.Op == "Cast" {
		return hostIn, hostOut
	}
	named := func(what string, i int) bool {
		if strings.Contains(n.Name, "_h") || strings.Contains(n.Name, "in_h") {
			return strings.Contains(n.Name, what+strconv.Itoa(i))
		}
		if !strings.ContainsAny(n.Name, "0123456789") {
			return false
		}
		h := fnv.New32a()
		h.Write([]byte(n.Name + what + strconv.Itoa(i)))
		return h.Sum32()>>7%3 == 0
	}
	for i := range hostIn {
		hostIn[i] = named("in_h", i)
	}
	for i := range hostOut {
		hostOut[i] = named("out_h", i)
	}
	return hostIn, hostOut
}

// memoriesOf returns the memory in which input i of a node arrives, and the one in which it is expected.
func memoriesOf(device string, n *graph.Node, i int) (from, to memory) {
	if typeOf(device) == "CPU" || n.InTypes[i].IsRef() {
		return hostMemory, hostMemory
	}
	in := n.Inputs[i]
	from, to = deviceMemory, deviceMemory
	switch in.Node.Op {
	case "_Recv":
	case "_HostRecv":
		from = hostMemory
	default:
		_, host := memoryTypes(in.Node, "GPU")
		from = memoryAt(host, in.Index)
	}
	switch n.Op {
	case "_Send":
	case "_HostSend":
		to = hostMemory
	default:
		host, _ := memoryTypes(n, "GPU")
		to = memoryAt(host, i)
	}
	return from, to
}

// TestOneTransferForEachMemory: a value that a device reads in both its memories is sent to it twice, once to each of them.
func TestOneTransferForEachMemory(t *testing.T) {
	g := parseGraph(t, "a = Const() float @w0g0\nb = Neg(a) float @w0g1\nc_in_h0 = Neg(a) float @w0g1\nd_in_h0 = Neg(a) float @w0g1\ne = Neg(a) float @w0g1")
	parts, err := Split(g, Options{MemoryTypes: memoryTypes})
	if err != nil {
		t.Fatal(err)
	}
	checkParts(t, parts)
	if len(parts.Transfers) != 2 {
		t.Errorf("%d transfers, want 2", len(parts.Transfers))
	}
}

// TestControlFlowGoesWhereItCanRun: control flow nodes follow their inputs only to devices that have a kernel for them.
func TestControlFlowGoesWhereItCanRun(t *testing.T) {
	const text = "x = Const() float @w0g0\np = Const() bool @w0\ns = Switch(x, p) float,float @w0\ny = Neg(s:1) float @w0"
	for _, can := range []bool{true, false} {
		g := parseGraph(t, text)
		parts, err := Split(g, Options{MemoryTypes: memoryTypes, Supports: func(n *graph.Node, kind string) bool {
			if n.Name != "s" || kind != "GPU" {
				t.Errorf("asked whether %s runs on %s", n.Name, kind)
			}
			return can
		}})
		if err != nil {
			t.Fatal(err)
		}
		if moved := parts.ByDevice[longName("w0g0")].Lookup("s") != nil; moved != can {
			t.Errorf("the Switch moved: %v, may it: %v", moved, can)
		}
	}
}

// TestCPUsAreNotAsked: a graph on CPUs does not query or store memory types.
func TestCPUsAreNotAsked(t *testing.T) {
	g := parseGraph(t, "a = Const() int32 @w0\nb = Neg(a) int32 @w1")
	if _, err := Split(g, Options{MemoryTypes: func(n *graph.Node, kind string) ([]bool, []bool) {
		t.Errorf("asked for the memory of %s on a %s", n.Name, kind)
		return nil, nil
	}}); err != nil {
		t.Fatal(err)
	}
}
