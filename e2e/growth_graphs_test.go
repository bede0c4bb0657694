//go:build unix

package e2e

import (
	"fmt"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
)

func onTask(n *nodepb.NodeDef, job string, index int) *nodepb.NodeDef {
	return on(n, fmt.Sprintf("/job:%s/task:%d", job, index))
}

func sumOf(name string, inputs ...string) *nodepb.NodeDef {
	n := node(name, "AddN", float, inputs...)
	n.Attr["N"] = &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: int64(len(inputs))}}
	return n
}

// wideGraph returns a graph with the NoOp stay_i and the constant part_i for each task, the sum of all parts on task 0, and pair, the sum
// of those of tasks 0 and 1.
func wideGraph(job string, tasks int) (g *graphpb.GraphDef, everywhere []string) {
	var nodes []*nodepb.NodeDef
	var parts []string
	for i := range tasks {
		stay, part := fmt.Sprintf("stay_%d", i), fmt.Sprintf("part_%d", i)
		nodes = append(nodes, onTask(node(stay, "NoOp", 0), job, i), onTask(constant(part, float, floats(nil, 1)), job, i))
		everywhere, parts = append(everywhere, stay), append(parts, part)
	}
	nodes = append(nodes, onTask(sumOf("sum", parts...), job, 0), onTask(sumOf("pair", parts[:2]...), job, 0))
	return graphOf(nodes...), everywhere
}

// chains returns a graph of at least the given number of nodes, and a few more: one chain on each task, whose ends are summed on task 0.
func chains(job string, tasks, nodes int) *graphpb.GraphDef {
	all := make([]*nodepb.NodeDef, 0, nodes+tasks+1)
	var ends []string
	for i := range tasks {
		last := fmt.Sprintf("chain_%d/begin", i)
		all = append(all, onTask(constant(last, float, floats(nil, 1)), job, i))
		for k := range nodes/tasks - 1 {
			name := fmt.Sprintf("chain_%d/link_%d", i, k)
			all = append(all, onTask(node(name, "Identity", float, last), job, i))
			last = name
		}
		ends = append(ends, last)
	}
	return graphOf(append(all, onTask(sumOf("sum", ends...), job, 0))...)
}

// woven returns a graph of the given number of nodes in layers, whose nodes are on the tasks in turn, so that nearly every edge joins two
// tasks. A group at the end waits for all of them.
func woven(job string, tasks, nodes int) *graphpb.GraphDef {
	const width = 64
	all := make([]*nodepb.NodeDef, 0, nodes+1)
	group := node("group", "NoOp", 0)
	for k := range nodes {
		name := fmt.Sprintf("layer_%d/node_%d", k/width, k%width)
		n := constant(name, float, floats(nil, 1))
		if before := k/width - 1; before >= 0 {
			n = node(name, "Maximum", float, fmt.Sprintf("layer_%d/node_%d", before, k%width), fmt.Sprintf("layer_%d/node_%d", before, (k+1)%width))
		}
		all = append(all, onTask(n, job, k%tasks))
		group.Input = append(group.Input, "^"+name)
	}
	return graphOf(append(all, onTask(group, job, 0))...)
}

// model returns a graph of about the given number of nodes, as in a training program: named variables, some of them unpinned, their initial
// values and updates, and a group of all initializers.
func model(job string, tasks, nodes int) *graphpb.GraphDef {
	all := make([]*nodepb.NodeDef, 0, nodes+8)
	group := node("init", "NoOp", 0)
	shape := &attrpb.AttrValue{Value: &attrpb.AttrValue_Shape{Shape: floats(nil).TensorShape}}
	for i := 0; len(all) < nodes; i++ {
		layer := fmt.Sprintf("layer_%d/", i)
		w := with(with(with(with(node(layer+"w", "VariableV2", 0), "dtype", dtypeAttr(float)), "shape", shape),
			"container", textAttr("")), "shared_name", textAttr(""))
		if i%2 == 0 {
			onTask(w, job, i/2%tasks)
		}
		like := &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: &attrpb.AttrValue_ListValue{S: [][]byte{[]byte("loc:@" + w.Name)}}}}
		all = append(all, w, constant(layer+"value", float, floats(nil, 1)),
			with(node(layer+"assign", "Assign", float, w.Name, layer+"value"), "_class", like),
			with(node(layer+"read", "Identity", float, w.Name), "_class", like),
			onTask(node(layer+"twice", "AddV2", float, layer+"read", layer+"read"), job, i%tasks),
			with(node(layer+"update", "AssignAdd", float, w.Name, layer+"twice"), "_class", like))
		group.Input = append(group.Input, "^"+layer+"assign")
	}
	return graphOf(append(all, onTask(group, job, 0))...)
}

func textAttr(s string) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_S{S: []byte(s)}}
}
