package partition

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
)

// The language of testdata has one node per line,
//
//	name = Op(input, input:1, &reference, ^control) outtype,outtype @device key=value ...
//
// where device w1.2 is CPU 2 of task 1 of job w, w1 its CPU 0, and w1g2 its GPU 2. An input has the type of the output it names, without
// its reference form unless it is written with &. The key "loop" is frame_name, "invariant" a constant Enter, "parallel"
// parallel_iterations, "n" the value of a Const, and "wire" graph.WireType.

var nodeLine = regexp.MustCompile(`^(\S+) = (\S+)\((.*?)\)\s*([a-z0-9_,]*)\s*(?:@(\S+))?((?:\s+\S+=\S+)*)$`)

var dtypeNames = func() map[string]tensor.DType {
	m := map[string]tensor.DType{}
	for d := tensor.Float32; d <= tensor.Uint64; d++ {
		m[d.String()], m[d.Ref().String()] = d, d.Ref()
	}
	return m
}()

var shortDevice = regexp.MustCompile(`^([a-z]+)(\d+)(?:([.g])(\d+))?$`)

func longName(short string) string {
	m := shortDevice.FindStringSubmatch(short)
	if m == nil {
		return short
	}
	kind := "CPU"
	if m[3] == "g" {
		kind = "GPU"
	}
	if m[4] == "" {
		m[4] = "0"
	}
	return fmt.Sprintf("/job:%s/replica:0/task:%s/device:%s:%s", m[1], m[2], kind, m[4])
}

var longDevice = regexp.MustCompile(`/job:([a-z]+)/replica:0/task:(\d+)/device:([CG])PU:(\d+)`)

// shorten replaces all device names in s with their short form.
func shorten(s string) string {
	return longDevice.ReplaceAllStringFunc(s, func(name string) string {
		m := longDevice.FindStringSubmatch(name)
		switch {
		case m[3] == "G":
			return m[1] + m[2] + "g" + m[4]
		case m[4] == "0":
			return m[1] + m[2]
		}
		return m[1] + m[2] + "." + m[4]
	})
}

func parseGraph(t testing.TB, text string) *graph.Graph {
	t.Helper()
	type line struct {
		node   *graph.Node
		inputs string
	}
	var lines []line
	var nodes []*graph.Node
	byName := map[string]*graph.Node{}
	for _, l := range strings.Split(text, "\n") {
		if l = strings.TrimSpace(l); l == "" || l[0] == '#' {
			continue
		}
		m := nodeLine.FindStringSubmatch(l)
		if m == nil {
			t.Fatalf("not a node: %s", l)
		}
		n := &graph.Node{Name: m[1], Op: m[2], Attrs: graph.Attrs{}}
		if m[5] != "" {
			n.Assigned = longName(m[5])
		}
		for _, d := range strings.FieldsFunc(m[4], func(r rune) bool { return r == ',' }) {
			dtype, ok := dtypeNames[d]
			if !ok {
				t.Fatalf("not a type: %s in %s", d, l)
			}
			n.OutTypes = append(n.OutTypes, dtype)
		}
		for _, kv := range strings.Fields(m[6]) {
			setAttr(t, n, kv)
		}
		if def, err := graph.LookupOp(n.Op); err == nil {
			n.Def = def
		}
		nodes, byName[n.Name] = append(nodes, n), n
		lines = append(lines, line{n, m[3]})
	}
	for _, l := range lines {
		for _, in := range strings.Split(l.inputs, ",") {
			if in = strings.TrimSpace(in); in == "" {
				continue
			}
			bare, isControl := strings.CutPrefix(in, "^")
			bare, isRef := strings.CutPrefix(bare, "&")
			name, index, _ := strings.Cut(bare, ":")
			from := byName[name]
			if from == nil {
				t.Fatalf("no node %s", in)
			}
			if isControl {
				l.node.Controls = append(l.node.Controls, from)
				continue
			}
			i, _ := strconv.Atoi(index)
			dtype := tensor.Float32
			if i < len(from.OutTypes) {
				dtype = from.OutTypes[i].Base()
			}
			if isRef {
				dtype = dtype.Ref()
			}
			l.node.Inputs = append(l.node.Inputs, graph.Output{Node: from, Index: i})
			l.node.InTypes = append(l.node.InTypes, dtype)
		}
	}
	return graph.New(nodes, nil, 0)
}

func setAttr(t testing.TB, n *graph.Node, kv string) {
	key, value, _ := strings.Cut(kv, "=")
	switch key {
	case "loop":
		n.Attrs["frame_name"], n.Attrs["parallel_iterations"] = stringAttr(value), intAttr(10)
	case "invariant":
		n.Attrs["is_constant"] = boolAttr(value == "true")
	case "wire":
		n.Attrs[graph.WireType] = typeAttr(dtypeNames[value])
	case "parallel", "n":
		i, err := strconv.Atoi(value)
		if err != nil {
			t.Fatal(err)
		}
		n.Attrs[map[string]string{"parallel": "parallel_iterations", "n": "n"}[key]] = intAttr(int64(i))
	default:
		t.Fatalf("no attribute %s", key)
	}
}

func formatGraph(g *graph.Graph, b *strings.Builder) {
	for _, n := range g.Nodes {
		var in, out []string
		for i, o := range n.Inputs {
			s := o.Node.Name
			if o.Index > 0 {
				s += ":" + strconv.Itoa(o.Index)
			}
			if n.InTypes[i].IsRef() {
				s = "&" + s
			}
			in = append(in, s)
		}
		for _, c := range n.Controls {
			in = append(in, "^"+c.Name)
		}
		for _, d := range n.OutTypes {
			out = append(out, d.String())
		}
		fmt.Fprintf(b, "  %s = %s(%s)", n.Name, n.Op, strings.Join(in, ", "))
		if len(out) > 0 {
			b.WriteString(" " + strings.Join(out, ","))
		}
		b.WriteString(formatAttrs(n) + "\n")
	}
}

func formatAttrs(n *graph.Node) string {
	str := func(name string) string { return string(n.Attrs[name].GetS()) }
	s := ""
	switch KindOf(n.Op) {
	case Enter:
		s += " loop=" + str("frame_name")
		if p := n.Attrs["parallel_iterations"].GetI(); p != 10 {
			s += fmt.Sprintf(" parallel=%d", p)
		}
		if constantEnter(n) {
			s += " invariant=true"
		}
	case Send:
		s += " edge=" + str("tensor_name") + " to=" + shorten(str("recv_device"))
	case Recv:
		s += " edge=" + str("tensor_name") + " from=" + shorten(str("send_device"))
	}
	if user := str(UserNode); user != "" {
		s += " for=" + user
	}
	return s
}

func formatParts(p *Parts) string {
	var b strings.Builder
	for _, d := range p.Devices {
		b.WriteString(shorten(d) + ":\n")
		formatGraph(p.ByDevice[d], &b)
	}
	for i, t := range p.Transfers {
		if i == 0 {
			b.WriteString("transfers:\n")
		}
		fmt.Fprintf(&b, "  %s %s -> %s %v", t.Edge, shorten(t.Src), shorten(t.Dst), t.DType)
		if t.Control {
			b.WriteString(" control")
		}
		if t.Frame != "" {
			b.WriteString(" loop=" + t.Frame)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func formatTasks(p *Parts) string {
	var b strings.Builder
	edges := func(ts []Transfer) string {
		s := ""
		for _, t := range ts {
			s += " " + t.Edge
		}
		return s
	}
	for _, t := range p.Tasks() {
		fmt.Fprintf(&b, "%s: devices %s\n  receives%s\n  sends%s\n", t.Task, shorten(strings.Join(t.Devices, " ")), edges(t.Receives), edges(t.Sends))
	}
	return b.String()
}

func formatFrames(g *graph.Graph, info *FrameInfo) string {
	var b strings.Builder
	for f, frame := range info.Frames {
		var names []string
		for id, n := range g.Nodes {
			if info.Of[id] == int32(f) {
				names = append(names, n.Name)
			}
		}
		slices.Sort(names)
		fmt.Fprintf(&b, "%q in %q: %s", frame.Name, info.Frames[frame.Parent].Name, strings.Join(names, " "))
		if frame.LoopCond != nil {
			b.WriteString("; decided by " + frame.LoopCond.Name)
		}
		b.WriteString("\n")
	}
	return b.String()
}
