package place

import (
	"slices"
	"strings"
	"testing"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// directory is a Home that keeps its claims, as the cluster's does.
type directory struct {
	homes map[string]string
	calls [][]string
}

func (d *directory) home(resources []Resource) ([]string, error) {
	if d.homes == nil {
		d.homes = map[string]string{}
	}
	var call, out []string
	for _, r := range resources {
		key := r.Kind + " " + r.Container + "/" + r.Name
		if d.homes[key] == "" {
			d.homes[key] = r.Default
		}
		call, out = append(call, key), append(out, d.homes[key])
	}
	d.calls = append(d.calls, call)
	return out, nil
}

// session places a graph as the master on a task would.
func (d *directory) session(t *testing.T, own string, soft bool, build func(s *sketch)) (*sketch, error) {
	t.Helper()
	s := &sketch{}
	build(s)
	devices := devicesOf(t, w0, w1, ps0, ps1, w1gpu0)
	for i := range devices {
		devices[i].Local = strings.HasPrefix(devices[i].Name, own)
	}
	return s, Place(s.graph(), s.nodes, Options{Devices: devices, SoftPlacement: soft, Supports: func(_ *graph.Node, kind string) bool {
		return kind == "CPU"
	}, Home: d.home})
}

func TestOneNameOneHome(t *testing.T) {
	program := func(s *sketch) {
		s.node("x", "VarHandleOp", named("", "x"))
		s.node("read", "Read", uses("x"))
		s.node("y", "VariableV2", named("box", ""))
		s.node("pinned", "VarHandleOp", named("", "z"), on("/job:ps"))
		s.node("q", "FIFOQueueV2")
		s.node("shared", "FIFOQueueV2", named("", "jobs"))
	}
	d := &directory{}
	a, err := d.session(t, "/job:worker/replica:0/task:1", false, program)
	check(t, err, "")
	b, err := d.session(t, "/job:worker/replica:0/task:0", false, program)
	check(t, err, "")
	for name, want := range map[string][2]string{
		"x": {w1, w1}, "read": {w1, w1}, "y": {w1, w1}, "pinned": {ps0, ps0}, "q": {w1, w0}, "shared": {w1, w1},
	} {
		if got := [2]string{a.byName[name].Assigned, b.byName[name].Assigned}; got != want {
			t.Errorf("%s is on %v, want %v", name, got, want)
		}
	}
	want := []string{"VarHandleOp /x", "Variable box/y", "Queue /jobs"}
	if len(d.calls) != 2 || !slices.Equal(d.calls[0], want) || !slices.Equal(d.calls[1], want) {
		t.Errorf("asked for %q, want %q in each session", d.calls, want)
	}
}

// TestFollowers checks that a colocated resource nobody has made yet goes to the home of the
// first of its group, and that one with another home is refused.
func TestFollowers(t *testing.T) {
	d := &directory{homes: map[string]string{"VarHandleOp /x": ps1}}
	program := func(s *sketch) {
		s.node("x", "VarHandleOp", named("", "x"))
		s.node("slot", "VarHandleOp", named("", "x/slot"), with("x"))
	}
	s, err := d.session(t, "/job:worker/replica:0/task:0", false, program)
	check(t, err, "")
	if s.byName["slot"].Assigned != ps1 || d.homes["VarHandleOp /x/slot"] != ps1 || len(d.calls) != 2 {
		t.Errorf("the slot is on %s, its home is %s, %d calls", s.byName["slot"].Assigned, d.homes["VarHandleOp /x/slot"], len(d.calls))
	}
	d.homes["VarHandleOp /x/slot"] = ps0
	for _, soft := range []bool{false, true} {
		_, err = d.session(t, "/job:worker/replica:0/task:0", soft, program)
		check(t, err, "Cannot assign a device for operation slot: {{node slot}} uses resource 'x/slot' of container '', which "+
			"lives on "+ps0+", where its group cannot be: Cannot merge devices with incompatible tasks: '"+ps0+"' and '"+ps1+
			"'\n\t [[slot]]")
	}
}

func TestHomeAgainstRequest(t *testing.T) {
	program := func(s *sketch) { s.node("x", "VarHandleOp", named("c", "x"), on("/cpu:0")) }
	d := &directory{homes: map[string]string{"VarHandleOp c/x": ps1}}
	s, err := d.session(t, "/job:worker/replica:0/task:0", false, program)
	check(t, err, "")
	if s.nodes[0].Assigned != ps1 {
		t.Errorf("x is on %s", s.nodes[0].Assigned)
	}

	program = func(s *sketch) { s.node("x", "VarHandleOp", named("c", "x"), on("/cpu:1")) }
	s, err = d.session(t, "/job:worker/replica:0/task:0", true, program)
	check(t, err, "")
	if s.nodes[0].Assigned != ps1 {
		t.Errorf("soft: x is on %s", s.nodes[0].Assigned)
	}
	_, err = d.session(t, "/job:worker/replica:0/task:0", false, program)
	check(t, err, "Cannot assign a device for operation x: {{node x}} was explicitly assigned to /cpu:1 but available devices are [ "+
		strings.Join([]string{ps0, ps1, w0, w1, w1gpu0}, ", ")+" ]. Make sure the device specification refers to a valid device.\n\t [[x]]")

	program = func(s *sketch) { s.node("x", "VarHandleOp", named("c", "x"), on("/device:CPU:*")) }
	d.homes["VarHandleOp c/x"] = w1gpu0
	_, err = d.session(t, "/job:worker/replica:0/task:0", false, program)
	check(t, err, "Cannot assign a device for operation x: {{node x}} uses resource 'x' of container 'c', which lives on "+w1gpu0+
		", where its group cannot be: Cannot merge devices with incompatible types: '"+w1gpu0+"' and '/device:CPU:*'\n\t [[x]]")

	gone := "/job:ps/replica:0/task:9/device:CPU:0"
	d.homes["VarHandleOp c/x"] = gone
	_, err = d.session(t, "/job:worker/replica:0/task:0", false, program)
	check(t, err, "Cannot assign a device for operation x: {{node x}} uses resource 'x' of container 'c', which lives on "+gone+
		", but available devices are [ "+strings.Join([]string{ps0, ps1, w0, w1, w1gpu0}, ", ")+
		" ]. Make sure that the session's device filters include it.\n\t [[x]]")
}

func TestHomeFaults(t *testing.T) {
	s := &sketch{}
	s.node("x", "VariableV2")
	o := Options{Devices: devicesOf(t, w0), Supports: supports}
	for _, c := range []struct {
		homes []string
		err   error
		code  status.Code
	}{
		{nil, nil, status.Internal},
		{[]string{"home"}, nil, status.Internal},
		{nil, status.Errorf(status.Unavailable, "no directory"), status.Unavailable},
	} {
		o.Home = func([]Resource) ([]string, error) { return c.homes, c.err }
		if err := Place(s.graph(), s.nodes, o); status.CodeOf(err) != c.code {
			t.Errorf("homes %v, error %v: got %v", c.homes, c.err, err)
		}
	}
}

// TestExtendAsksForNewResources checks that what is placed already is not asked for again.
func TestExtendAsksForNewResources(t *testing.T) {
	d := &directory{}
	s := &sketch{}
	s.node("x", "VarHandleOp", placedOn(ps1))
	s.node("slot", "VarHandleOp", with("x"))
	s.node("y", "VarHandleOp")
	err := Place(s.graph(), s.nodes[1:], Options{Devices: devicesOf(t, w0, ps1), Supports: supports, Home: d.home})
	check(t, err, "")
	if len(d.calls) != 1 || !slices.Equal(d.calls[0], []string{"VarHandleOp /y"}) || s.byName["slot"].Assigned != ps1 {
		t.Errorf("asked for %q; slot is on %s", d.calls, s.byName["slot"].Assigned)
	}
}

func TestResourceOf(t *testing.T) {
	for _, c := range []struct {
		op, shared, kind, name string
	}{
		{"VariableV2", "", "Variable", "n"},
		{"VarHandleOp", "v", "VarHandleOp", "v"},
		{"VarHandleOp", anonymousName, "", ""},
		{"FIFOQueueV2", "", "", ""},
		{"RandomShuffleQueueV2", "q", "Queue", "q"},
		{"PaddingFIFOQueue", "q", "Queue", "q"},
		{"MutableHashTableOfTensorsV2", "t", "Table", "t"},
		{"MutableDenseHashTableV2", "t", "Table", "t"},
		{"TextLineReaderV2", "r", "Reader", "r"},
		{"Barrier", "b", "Barrier", "b"},
		{"ResourceConditionalAccumulator", "a", "Accumulator", "a"},
		{"Unstage", "s", "Stage", "s"},
		{"OrderedMapUnstageNoKey", "s", "OrderedMapStage", "s"},
		{"MapPeek", "s", "MapStage", "s"},
		{"MutexV2", "", "Mutex", "n"},
		{"IteratorV2", "i", "Iterator", "i"},
		{"AddManySparseToTensorsMap", "m", "SparseTensorsMap", "m"},
	} {
		s := &sketch{}
		n := s.node("n", c.op, named("c", c.shared), makes(tensor.Resource))
		n.Def.IsStateful = true
		r, ok := resourceOf(n)
		if want := (Resource{Container: "c", Kind: c.kind, Name: c.name}); ok != (c.name != "") || ok && r != want {
			t.Errorf("%s shared as %q: %+v, %v; want %+v", c.op, c.shared, r, ok, want)
		}
	}
	s := &sketch{}
	n := s.node("n", "HashTableV2")
	n.Attrs["use_node_name_sharing"] = &attrpb.AttrValue{Value: &attrpb.AttrValue_B{B: true}}
	if r, ok := resourceOf(n); !ok || r.Name != "n" {
		t.Errorf("a table shared by its node's name: %+v, %v", r, ok)
	}
	if _, ok := resourceOf(s.node("c", "Const")); ok {
		t.Error("a constant owns a resource")
	}
	if _, ok := resourceOf(&graph.Node{Op: "VarHandleOp"}); ok {
		t.Error("a node without declaration owns a resource")
	}
}
