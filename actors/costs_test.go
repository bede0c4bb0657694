package actors

import (
	"strings"
	"testing"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
)

// TestCostGraph: a session that requests the costs of nodes every third run gets the nodes of all tasks with their times and sizes in those
// runs, and nothing in between.
func TestCostGraph(t *testing.T) {
	net := newNetwork(t, "a", "b", "c")
	c := openWith(t, net.node(taskName("a")), chain, &corepb.ConfigProto{GraphOptions: &corepb.GraphOptions{BuildCostModel: 3, BuildCostModelAfter: 1}})
	for run := range 8 {
		req := request(map[string]int64{"x:0": 4}, "w:0")
		result, err := c.session.Run(t.Context(), req)
		req.done()
		if err != nil {
			t.Fatal(err)
		}
		result.Release()
		md := result.Metadata
		if (md.GetCostGraph() != nil) != (run%3 == 0) {
			t.Fatalf("run %d: %v", run, md)
		}
		if md == nil {
			continue
		}
		if md.StepStats != nil {
			t.Error("nobody asked for statistics")
		}
		ran, devices := 0, map[string]bool{}
		for _, n := range md.CostGraph.Node {
			if n.ComputeCost == 0 {
				continue
			}
			ran++
			devices[n.Device] = true
			for _, o := range n.OutputInfo {
				if o.Size != 24 && !strings.HasPrefix(n.Name, "_") {
					t.Errorf("output of %d bytes of node %v", o.Size, n)
				}
			}
		}
		if ran < 3 || len(devices) < 2 {
			t.Errorf("%d nodes ran on %v: %v", ran, devices, md.CostGraph)
		}
	}
}
