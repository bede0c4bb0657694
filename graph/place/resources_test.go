package place

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// directory is a Home that records claims, as the cluster's does.
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
		s.node("python", "FIFOQueueV2", named("", "rows"), on("/device:CPU:*"))
	}
	d := &directory{}
	a, err := d.session(t, "/job:worker/replica:0/task:1", false, program)
	check(t, err, "")
	b, err := d.session(t, "/job:worker/replica:0/task:0", false, program)
	check(t, err, "")
	for name, want := range map[string][2]string{
		"x": {w1, w1}, "read": {w1, w1}, "y": {w1, w1}, "pinned": {ps0, ps0}, "q": {w1, w0}, "shared": {w1, w1}, "python": {w1, w1},
	} {
		if got := [2]string{a.byName[name].Assigned, b.byName[name].Assigned}; got != want {
			t.Errorf("%s is on %v, want %v", name, got, want)
		}
	}
	want := []string{"VarHandleOp /x", "Variable box/y", "Queue /jobs", "Queue /rows"}
	if len(d.calls) != 2 || !slices.Equal(d.calls[0], want) || !slices.Equal(d.calls[1], want) {
		t.Errorf("asked for %q, want %q in each session", d.calls, want)
	}
}

// TestFollowers checks that a colocated resource that does not exist yet goes to the home of the first of its group, and that one with
// another home is refused.
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

// TestHomeAgainstRequest: a request for a device with an index, or of another type than the CPU, means the master's own task, even if
// another task has a resource of that name. A resource whose group is pinned by another node is not looked up either.
func TestHomeAgainstRequest(t *testing.T) {
	for _, device := range []string{"/cpu:0", "/device:CPU:0", "/replica:0/device:CPU:0", "/replica:0/device:CPU:*"} {
		d := &directory{homes: map[string]string{"VarHandleOp c/x": ps1}}
		s, err := d.session(t, "/job:worker/replica:0/task:0", false, func(s *sketch) {
			s.node("x", "VarHandleOp", named("c", "x"), on(device))
			s.node("slot", "VarHandleOp", named("c", "slot"), with("x"))
		})
		check(t, err, "")
		if s.nodes[0].Assigned != w0 || s.byName["slot"].Assigned != w0 || len(d.calls) != 0 {
			t.Errorf("%s: x is on %s, its slot on %s, %d calls", device, s.nodes[0].Assigned, s.byName["slot"].Assigned, len(d.calls))
		}
	}
	d := &directory{homes: map[string]string{"VarHandleOp c/x": ps1}}
	program := func(s *sketch) { s.node("x", "VarHandleOp", named("c", "x"), on("/cpu:1")) }
	s, err := d.session(t, "/job:worker/replica:0/task:0", true, program)
	check(t, err, "")
	if s.nodes[0].Assigned != w0 {
		t.Errorf("soft: x is on %s", s.nodes[0].Assigned)
	}
	_, err = d.session(t, "/job:worker/replica:0/task:0", false, program)
	check(t, err, "Cannot assign a device for operation x: {{node x}} was explicitly assigned to /cpu:1 but available devices are [ "+
		strings.Join([]string{ps0, ps1, w0, w1, w1gpu0}, ", ")+" ]. Make sure the device specification refers to a valid device.\n\t [[x]]")

	gone := "/job:ps/replica:0/task:9/device:CPU:0"
	d.homes["VarHandleOp c/x"] = gone
	_, err = d.session(t, "/job:worker/replica:0/task:0", false, func(s *sketch) { s.node("x", "VarHandleOp", named("c", "x")) })
	check(t, err, "Cannot assign a device for operation x: {{node x}} uses resource 'x' of container 'c', which lives on "+gone+
		", but available devices are [ "+strings.Join([]string{ps0, ps1, w0, w1, w1gpu0}, ", ")+" ].\n\t [[x]]")
}

// TestStableHomes: an unclaimed resource is proposed to live on a stable task, which all masters choose alike by its name. Resources that
// work with files are not.
func TestStableHomes(t *testing.T) {
	program := func(s *sketch) {
		for i := range 20 {
			s.node(fmt.Sprint("x", i), "VarHandleOp")
		}
		s.node("reader", "WholeFileReaderV2", named("", "reader"))
		s.node("table", "HashTableV2", named("", "table"))
		s.node("iterator", "IteratorV2", named("", "iterator"))
	}
	var first []string
	for _, own := range []string{w0, w1} {
		s := &sketch{}
		program(s)
		devices := devicesOf(t, w0, w1, ps0, ps1)
		for i := range devices {
			devices[i].Local = devices[i].Name == own
		}
		d := &directory{}
		err := Place(s.graph(), s.nodes, Options{Devices: devices, Supports: supports, Home: d.home,
			Stable: []string{"/job:ps/replica:0/task:0", "/job:ps/replica:0/task:1"}})
		check(t, err, "")
		on := map[string]int{}
		var all []string
		for i := range 20 {
			on[s.nodes[i].Assigned]++
			all = append(all, s.nodes[i].Assigned)
		}
		if on[ps0] < 5 || on[ps1] < 5 || on[ps0]+on[ps1] != 20 {
			t.Errorf("through %s the variables are on %v", own, on)
		}
		if first == nil {
			first = all
		}
		if !slices.Equal(all, first) {
			t.Errorf("through %s the variables are on %v, and were on %v", own, all, first)
		}
		for _, name := range []string{"reader", "table", "iterator"} {
			if got := s.byName[name].Assigned; got != own {
				t.Errorf("through %s the %s is on %s", own, name, got)
			}
		}
	}
}

// TestHomesBehindFilters: a session whose filters hide the home of a resource has a private one.
func TestHomesBehindFilters(t *testing.T) {
	d := &directory{homes: map[string]string{"VarHandleOp /x": w1}}
	s := &sketch{}
	s.node("x", "VarHandleOp")
	warned := ""
	err := Place(s.graph(), s.nodes, Options{Devices: devicesOf(t, w0, ps1), Supports: supports, Home: d.home, Filtered: true,
		Warn: func(m string) { warned = m }})
	check(t, err, "")
	if s.nodes[0].Assigned == w1 || !strings.Contains(warned, "device filters hide "+w1) {
		t.Errorf("x is on %s: %q", s.nodes[0].Assigned, warned)
	}
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

// TestExtendAsksForNewResources checks that resources that are already placed are not looked up again.
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
		{"VarHandleOp", graph.AnonymousName, "", ""},
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

// TestRanksAreStable checks that ranks stay as they are: tasks of different versions must choose the same homes.
func TestRanksAreStable(t *testing.T) {
	for _, c := range []struct {
		task, container, name string
		want                  uint64
	}{
		{"/job:ps/replica:0/task:0", "", "x", 68391351788281110},
		{"", "", "", 4447574938238808065},
		{"a", "b", "c", 12854745044381933484},
	} {
		if got := rankOf(c.task, c.container, c.name); got != c.want {
			t.Errorf("the rank of %q for %q in %q is %d, not %d", c.task, c.name, c.container, got, c.want)
		}
	}
}
