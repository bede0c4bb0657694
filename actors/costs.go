package actors

import (
	costpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/cost_graph_go_proto"
	steppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/step_stats_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"

	"github.com/troupe-run/troupe/graph"
)

// costSchedule selects the runs of a plan in which a session measures what nodes cost: every build_cost_model-th run, counted from run
// build_cost_model_after on (GraphOptions). 0 means never.
type costSchedule struct{ every, after int64 }

func costsOf(o *corepb.GraphOptions) costSchedule {
	return costSchedule{o.GetBuildCostModel(), o.GetBuildCostModelAfter()}
}

// due counts a plan's next run and reports whether its costs are measured.
func (c costSchedule) due(p *plan) bool {
	return c.every > 0 && (p.runs.Add(1)-c.after)%c.every == 0
}

// costGraph returns what the nodes of a plan's graphs cost in a step: the time of each, and the sizes of its outputs. Nodes that did not
// run, because their results were known before or another node computes them, have no cost. See core/graph/costmodel.cc
// (AddToCostGraphDef).
func (p *plan) costGraph(stats *steppb.StepStats) *costpb.CostGraphDef {
	type key struct{ device, node string }
	ran := map[key]*steppb.NodeExecStats{}
	for _, d := range stats.GetDevStats() {
		for _, n := range d.NodeStats {
			if k := (key{d.Device, n.NodeName}); ran[k] == nil || ran[k].AllEndRelMicros < n.AllEndRelMicros {
				ran[k] = n
			}
		}
	}
	out := &costpb.CostGraphDef{}
	for _, g := range p.graphs {
		first := int32(len(out.Node)) // ids are the message's own
		id := func(n *graph.Node) int32 { return first + int32(n.ID) }
		for _, n := range g.Nodes {
			was := ran[key{n.Assigned, n.Name}]
			c := &costpb.CostGraphDef_Node{Name: n.Name, Device: n.Assigned, Id: id(n), IsFinal: n.Op == "_Send" || n.Op == "_HostSend"}
			if was != nil {
				c.ComputeCost = max(1, was.AllEndRelMicros)
			}
			for _, in := range n.Inputs {
				c.InputInfo = append(c.InputInfo, &costpb.CostGraphDef_Node_InputInfo{PrecedingNode: id(in.Node), PrecedingPort: int32(in.Index)})
			}
			for _, before := range n.Controls {
				c.ControlInput = append(c.ControlInput, id(before))
			}
			for _, dtype := range n.OutTypes {
				c.OutputInfo = append(c.OutputInfo, &costpb.CostGraphDef_Node_OutputInfo{Size: -1, AliasInputPort: -1, Dtype: dtype.Proto(), Shape: &shapepb.TensorShapeProto{UnknownRank: true}})
			}
			for _, o := range was.GetOutput() {
				if int(o.Slot) < len(c.OutputInfo) {
					t, info := o.TensorDescription, c.OutputInfo[o.Slot]
					info.Dtype, info.Shape, info.Size = t.Dtype, t.Shape, t.AllocationDescription.GetRequestedBytes()
				}
			}
			out.Node = append(out.Node, c)
		}
	}
	return out
}
