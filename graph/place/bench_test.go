package place

import (
	"fmt"
	"testing"

	"github.com/troupe-run/troupe/graph"
)

// model returns a training graph of about the given number of nodes: variables on two parameter servers, each with gradients and an update
// colocated with it.
func model(nodes int) *sketch {
	s := &sketch{}
	for i := 0; len(s.nodes) < nodes; i++ {
		name := func(part string) string { return fmt.Sprintf("layer%d/%s", i, part) }
		s.node(name("w"), "VarHandleOp", on(fmt.Sprintf("/job:ps/task:%d", i%2)))
		s.node(name("init"), "Const")
		s.node(name("assign"), "Assign", uses(name("w")), in(name("init")))
		s.node(name("read"), "Read", uses(name("w")))
		s.node(name("id"), "Identity", in(name("read")))
		s.node(name("x"), "Add", in(name("id")), on("/job:worker/task:1"))
		s.node(name("shape"), "Shape", in(name("x")))
		s.node(name("grad"), "Add", in(name("x"), name("shape")), with(name("x")))
		s.node(name("rate"), "Const", with(name("w")))
		s.node(name("update"), "Assign", uses(name("w")), in(name("grad"), name("rate")), with(name("w")), after(name("read")))
	}
	return s
}

func BenchmarkPlace10000(b *testing.B) {
	s := model(10000)
	g := s.graph()
	o := Options{Devices: devicesOf(b, randomCluster...), SoftPlacement: true, Supports: supports, Colocations: &Colocations{}}
	for b.Loop() {
		for _, n := range s.nodes {
			n.Assigned = ""
		}
		if err := Place(g, s.nodes, o); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkExtendByOne(b *testing.B) {
	s := model(10000)
	o := Options{Devices: devicesOf(b, randomCluster...), SoftPlacement: true, Supports: supports, Colocations: &Colocations{}}
	if err := Place(s.graph(), s.nodes, o); err != nil {
		b.Fatal(err)
	}
	n := s.node("new", "Read", uses("layer7/w"), with("layer9/x"))
	n.Attrs = graph.Attrs{}
	g := s.graph()
	for b.Loop() {
		n.Assigned = ""
		if err := Place(g, s.nodes[len(s.nodes)-1:], o); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkExtendLargeCluster places one node in a session of a large cluster.
func BenchmarkExtendLargeCluster(b *testing.B) {
	for _, tasks := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(tasks), func(b *testing.B) {
			s := &sketch{}
			s.node("before", "Read")
			var names []string
			for i := range tasks {
				names = append(names, fmt.Sprintf("/job:worker/replica:0/task:%d/device:CPU:0", i))
			}
			devices, err := Prepare(devicesOf(b, names...))
			if err != nil {
				b.Fatal(err)
			}
			o := Options{Prepared: devices, Supports: supports, Colocations: &Colocations{}}
			if err := Place(s.graph(), s.nodes, o); err != nil {
				b.Fatal(err)
			}
			n := s.node("new", "Read")
			g := s.graph()
			b.ReportAllocs()
			for b.Loop() {
				n.Assigned = ""
				if err := Place(g, s.nodes[1:], o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
