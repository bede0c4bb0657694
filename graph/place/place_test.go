package place

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// ruleCase is a graph, and where its nodes go or why they cannot be placed.
type ruleCase struct {
	name    string
	devices []string // default: w0, w1, ps0, ps1
	soft    bool
	build   func(s *sketch)
	want    map[string]string // node to device
	err     string            // a prefix if it ends in ...
	warn    string            // a part of a warning
}

func runRules(t *testing.T, cases []ruleCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := &sketch{}
			c.build(s)
			if c.devices == nil {
				c.devices = []string{w0, w1, ps0, ps1}
			}
			var warnings []string
			fresh := slices.DeleteFunc(slices.Clone(s.nodes), func(n *graph.Node) bool { return n.Assigned != "" })
			err := Place(s.graph(), fresh, Options{Devices: devicesOf(t, c.devices...), SoftPlacement: c.soft,
				Supports: supports, Warn: func(m string) { warnings = append(warnings, m) }})
			if prefix, cut := strings.CutSuffix(c.err, "..."); cut && err != nil && strings.HasPrefix(err.Error(), prefix) {
				check(t, err, err.Error())
			} else {
				check(t, err, c.err)
			}
			if !strings.Contains(strings.Join(warnings, "\n"), c.warn) || c.warn == "" && warnings != nil {
				t.Errorf("warnings %q, want %q", warnings, c.warn)
			}
			for _, n := range fresh {
				if err != nil && n.Assigned != "" {
					t.Errorf("%s is placed on %s in spite of the error", n.Name, n.Assigned)
				}
			}
			for name, want := range c.want {
				if got := s.byName[name].Assigned; got != want {
					t.Errorf("%s is on %s, want %s", name, got, want)
				}
			}
		})
	}
}

func TestRequestedDevice(t *testing.T) {
	runRules(t, []ruleCase{
		{
			name:  "nothing asked: the master's own CPU",
			build: func(s *sketch) { s.node("n", "Placeholder") },
			want:  map[string]string{"n": w0},
		}, {
			name:    "a remote GPU is better than the own CPU",
			devices: []string{w0, w1, w1gpu1, w1gpu0},
			build: func(s *sketch) {
				s.node("a", "Const")
				s.node("b", "Placeholder")
			},
			want: map[string]string{"a": w1gpu0, "b": w0},
		}, {
			name:  "a partial device leaves the choice",
			build: func(s *sketch) { s.node("n", "Add", on("/job:ps")); s.node("m", "Add", on("/task:1/cpu:*")) },
			want:  map[string]string{"n": ps0, "m": ps1},
		}, {
			name:  "a task that is not there",
			build: func(s *sketch) { s.node("n", "Add", on("/job:ps/task:7")) },
			err: "Cannot assign a device for operation n: {{node n}} was explicitly assigned to /job:ps/task:7 but available " +
				"devices are [ " + ps0 + ", " + ps1 + ", " + w0 + ", " + w1 + " ]. Make sure the device specification refers " +
				"to a valid device.\n\t [[n]]",
		}, {
			name:  "soft placement does not move to another task",
			soft:  true,
			build: func(s *sketch) { s.node("n", "Add", on("/job:ps/task:7/gpu:0")) },
			err:   "Cannot assign a device for operation n: {{node n}} was explicitly assigned to /job:ps/task:7/gpu:0 but...",
		}, {
			name:  "no GPU anywhere",
			build: func(s *sketch) { s.node("n", "Add", on("/gpu:0")) },
			err: "Cannot assign a device for operation n: {{node n}} was explicitly assigned to /gpu:0 but available " +
				"devices are [ " + ps0 + ", " + ps1 + ", " + w0 + ", " + w1 + " ]. Make sure the device specification refers " +
				"to a valid device. The requested device appears to be a GPU, but CUDA is not enabled.\n\t [[n]]",
		}, {
			name:  "soft placement gives up type and index",
			soft:  true,
			build: func(s *sketch) { s.node("n", "Add", on("/job:ps/task:1/gpu:3")) },
			want:  map[string]string{"n": ps1},
		}, {
			name:    "no kernel for the device asked for",
			devices: []string{w0, w1gpu0},
			build:   func(s *sketch) { s.node("n", "Placeholder", on("/gpu:0")) },
			err: "Cannot assign a device for operation n: Could not satisfy explicit device specification '/gpu:0' because no " +
				"supported kernel for GPU devices is available.\nColocation Debug Info:...",
		}, {
			name:    "soft placement finds the kernel",
			soft:    true,
			devices: []string{w0, w1, w1gpu0},
			build:   func(s *sketch) { s.node("n", "Placeholder", on("/task:1/gpu:0")) },
			want:    map[string]string{"n": w1},
		}, {
			name:  "only a kernel for devices that are not there",
			build: func(s *sketch) { s.node("n", "OnlyGPU"); s.node("m", "OnlyGPU", on("/job:ps")) },
			want:  map[string]string{"n": w0, "m": ps0}, // as without any kernel
		}, {
			name: "malformed",
			build: func(s *sketch) {
				s.node("a", "Add")
				s.node("n", "Add", on("ps:0"))
			},
			err: "Malformed device specification 'ps:0' in node: {{node n}}\n\t [[n]]",
		}, {
			name:    "an op without kernels goes where a CPU is, or where it is told",
			devices: []string{w0, w1, w1gpu0},
			build: func(s *sketch) {
				s.node("n", "NoKernel")
				s.node("m", "NoKernel", on("/gpu:0"))
				s.node("k", "Placeholder", with("n"), on("/task:1"))
			},
			want: map[string]string{"n": w1, "m": w1gpu0, "k": w1},
		},
	})
}

func TestEdges(t *testing.T) {
	runRules(t, []ruleCase{
		{
			name: "users of references and handles follow them",
			build: func(s *sketch) {
				s.node("v", "VariableV2", on("/job:ps/task:1"))
				s.node("c", "Const")
				s.node("assign", "Assign", uses("v"), in("c"))
				s.node("id", "Identity", uses("assign"))
				s.node("h", "VarHandleOp", on("/job:ps"))
				s.node("read", "Read", uses("h"))
				s.node("sum", "Add", in("read", "id"))
			},
			want: map[string]string{"v": ps1, "assign": ps1, "id": ps1, "c": ps1, "h": ps0, "read": ps0, "sum": w0},
		}, {
			name: "the user's own device yields",
			build: func(s *sketch) {
				s.node("v", "VarHandleOp", on("/job:ps/task:1"))
				s.node("r", "Read", uses("v"), on("/job:worker/task:1"))
			},
			want: map[string]string{"v": ps1, "r": ps1},
			warn: "Ignoring device specification /job:worker/task:1 for node 'r' because the input edge from 'v'",
		}, {
			name: "a user that agrees narrows the group",
			build: func(s *sketch) {
				s.node("v", "VariableV2", on("/job:ps"))
				s.node("r", "Assign", uses("v"), on("/task:1"))
			},
			want: map[string]string{"v": ps1, "r": ps1},
		}, {
			name: "two resources on different tasks in one op",
			build: func(s *sketch) {
				s.node("a", "VarHandleOp", on("/job:ps/task:0"))
				s.node("b", "VarHandleOp", on("/job:ps/task:1"))
				s.node("both", "Read", uses("a", "b"))
			},
			err: "Cannot place the graph because a reference or resource edge connects colocation groups with incompatible " +
				"resource devices: /job:ps/task:1 vs /job:ps/task:0. The edge src node is name='b' (op='VarHandleOp'), and " +
				"the dst node is name='both' (op='Read').",
		}, {
			name: "function calls may take resources of several tasks",
			build: func(s *sketch) {
				s.node("a", "VarHandleOp", on("/job:ps/task:0"))
				s.node("b", "VarHandleOp", on("/job:ps/task:1"))
				s.node("call", "StatefulPartitionedCall", uses("a", "b"))
				s.node("pinned", "PartitionedCall", uses("a"), on("/job:worker/task:1"))
				s.node("while", "While", uses("b", "a"))
				s.node("if", "If", uses("b"))
			},
			want: map[string]string{"call": w0, "pinned": w1, "while": ps1, "if": ps1},
			warn: "incompatible resource devices: /job:ps/task:0 vs /job:ps/task:1",
		}, {
			name:    "no device for a resource and its user",
			devices: []string{w0, w1gpu0},
			build: func(s *sketch) {
				s.node("h", "OnlyGPU", makes(tensor.Resource))
				s.node("r", "Placeholder", uses("h"))
			},
			err: "Nodes were connected by a reference or resource connection (requiring them to be on the same device), but the " +
				"two nodes were assigned two different devices: Cannot colocate nodes {{colocation_node h}} and " +
				"{{colocation_node r}} because no device type supports both of those nodes and the other nodes colocated with " +
				"them.\nColocation Debug Info:...",
		}, {
			name: "datasets stay together",
			build: func(s *sketch) {
				s.node("d", "RangeDataset", makes(tensor.Variant), on("/job:ps"))
				s.node("e", "BatchDatasetV2", makes(tensor.Variant), uses("d"))
				s.node("v", "Other", makes(tensor.Variant), uses("e"))
			},
			want: map[string]string{"d": ps0, "e": ps0, "v": w0},
		}, {
			name: "datasets that call functions leave handles alone",
			build: func(s *sketch) {
				s.node("h", "VarHandleOp", on("/job:ps"))
				s.node("m", "ParallelMapDatasetV2", makes(tensor.Variant), uses("h"))
				s.node("b", "BatchDataset", makes(tensor.Variant), uses("h"))
			},
			want: map[string]string{"m": w0, "b": ps0},
		},
	})
}

func TestClasses(t *testing.T) {
	runRules(t, []ruleCase{
		{
			name: "with a node, before and after it",
			build: func(s *sketch) {
				s.node("early", "Placeholder", with("a"))
				s.node("a", "Placeholder", on("/job:ps/task:1"))
				s.node("late", "Add", with("a", "b"))
				s.node("b", "Add")
			},
			want: map[string]string{"early": ps1, "late": ps1, "b": ps1},
		}, {
			name: "by a name that no node bears",
			build: func(s *sketch) {
				s.node("a", "Placeholder", with("group"))
				s.node("b", "Placeholder", with("group"), on("/job:ps"))
			},
			want: map[string]string{"a": ps0, "b": ps0},
		}, {
			name: "partial devices add up",
			build: func(s *sketch) {
				s.node("a", "Add", on("/job:ps"))
				s.node("b", "Add", on("/task:1"), with("a"))
				s.node("c", "Add", on("/cpu:0"), with("b"))
			},
			want: map[string]string{"a": ps1, "b": ps1, "c": ps1},
		}, {
			name: "a conflict",
			build: func(s *sketch) {
				s.node("a", "Add", on("/job:ps"))
				s.node("b", "Add", on("/job:worker"), with("a"))
			},
			err: "Cannot colocate nodes {{colocation_node b}} and {{colocation_node a}}: Cannot merge devices with " +
				"incompatible jobs: '/job:worker' and '/job:ps'\n\t [[{{node b}}]]",
		}, {
			name: "a conflict, soft",
			soft: true,
			build: func(s *sketch) {
				s.node("a", "Add", on("/job:ps"))
				s.node("b", "Add", on("/job:worker"), with("a"))
			},
			want: map[string]string{"a": ps0, "b": w0},
			warn: "Ignoring request to colocate node 'b' with nodes in colocation group 'a' because soft placement is on",
		}, {
			name:    "a conflict of types",
			devices: []string{w0, w1, w1gpu0},
			build: func(s *sketch) {
				s.node("a", "Add", on("/task:1/gpu:0"))
				s.node("b", "Add", on("/cpu:0"), with("a"))
			},
			err: "Cannot colocate nodes {{colocation_node b}} and {{colocation_node a}}: Cannot merge devices with " +
				"incompatible types: '/task:1/device:CPU:0' and '/task:1/device:GPU:0'\n\t [[{{node b}}]]",
		}, {
			name:    "a conflict of types, soft",
			devices: []string{w0, w1, w1gpu0},
			soft:    true,
			build: func(s *sketch) {
				s.node("a", "Placeholder", on("/task:1/gpu:0"))
				s.node("b", "Add", on("/cpu:0"), with("a"))
			},
			want: map[string]string{"a": w1, "b": w1},
		}, {
			name:    "no kernels in common",
			devices: []string{w0, w1gpu0},
			build: func(s *sketch) {
				s.node("a", "Placeholder")
				s.node("b", "OnlyGPU", with("a"))
			},
			err: `Cannot colocate nodes {{colocation_node b}} and {{colocation_node a}} because no device type supports both of ` +
				"those nodes and the other nodes colocated with them.\nColocation Debug Info:\nColocation group had the following " +
				"types and supported devices: \nRoot Member(requested_device_name_='' assigned_device_name_='' " +
				"resource_device_name_='' supported_device_types_=[GPU])\nOnlyGPU: GPU\n\nColocation members, user-requested " +
				"devices, and framework assigned devices, if any:\n  b (OnlyGPU) \n\nColocation Debug Info:...",
		}, {
			name: "incompatible with the rest of its group",
			build: func(s *sketch) {
				s.node("a", "Add", on("/job:ps"))
				s.node("b", "Add", on("/task:7"), with("a"))
			},
			err: "Cannot assign a device for operation a: Could not satisfy explicit device specification '/job:ps' because the " +
				"node {{colocation_node a}} was colocated with a group of nodes that required incompatible device " +
				"'/job:ps/task:7'. All available devices [" + ps0 + ", " + ps1 + ", " + w0 + ", " + w1 + "]. ...",
		},
	})
}

func TestHeuristics(t *testing.T) {
	runRules(t, []ruleCase{
		{
			name: "sources go to their consumers if these agree",
			build: func(s *sketch) {
				s.node("c", "Const")
				s.node("d", "Const")
				s.node("e", "Const", on("/job:ps"))
				s.node("x", "Add", in("c", "d", "e"), on("/job:worker/task:1"))
				s.node("y", "Add", in("d"))
			},
			want: map[string]string{"c": w1, "d": w0, "e": ps0},
		}, {
			name: "control edges count as consumers",
			build: func(s *sketch) {
				s.node("c", "Const")
				s.node("x", "Add", in("c"), on("/job:worker/task:1"))
				s.node("y", "Add", after("c"), on("/job:ps"))
			},
			want: map[string]string{"c": w0},
		}, {
			name: "metadata stays with its input",
			build: func(s *sketch) {
				s.node("c", "Const")
				s.node("x", "Add", in("c"), on("/job:ps/task:1"))
				s.node("shape", "Shape", in("x"))
				s.node("pinned", "Shape", in("x"), on("/job:worker"))
			},
			want: map[string]string{"shape": ps1, "pinned": w0},
		}, {
			name: "a lone Identity stays with its input",
			build: func(s *sketch) {
				s.node("c", "Const")
				s.node("x", "Add", in("c"), on("/job:ps/task:1"))
				s.node("alone", "Identity", in("x"))
				s.node("between", "Identity", in("x"))
				s.node("y", "Add", in("between"), on("/job:ps/task:1"))
				s.node("z", "Add", in("x"), on("/task:1/job:worker"))
				s.node("twice", "Identity", in("x"))
				s.node("u", "Add", in("twice"), after("twice"), on("/job:ps/task:1"))
				s.node("waits", "Identity", in("x"), after("z"))
				s.node("v", "Add", in("waits"), on("/job:ps/task:1"))
			},
			want: map[string]string{"alone": w0, "between": ps1, "twice": w0, "waits": w0},
		}, {
			name: "an Identity that nothing reads stays where its unpinned input went",
			build: func(s *sketch) {
				s.node("a", "Add", on("/job:ps/task:1"))
				s.node("x", "Add", in("a"), with("a"))
				s.node("i", "Identity", in("x"))
			},
			want: map[string]string{"i": ps1},
		},
	})
}

func TestStickiness(t *testing.T) {
	runRules(t, []ruleCase{
		{
			name: "what was placed stays, and holds what comes",
			build: func(s *sketch) {
				s.node("v", "VarHandleOp", placedOn(ps1))
				s.node("a", "Add", placedOn(w1))
				s.node("read", "Read", uses("v"), on("/job:ps"))
				s.node("b", "Add", with("a"))
				s.node("c", "Add", with("a", "new"))
				s.node("d", "Add", with("new"))
			},
			want: map[string]string{"v": ps1, "a": w1, "read": ps1, "b": w1, "c": w1, "d": w1},
		}, {
			name: "a conflict with it",
			build: func(s *sketch) {
				s.node("a", "Add", placedOn(w1))
				s.node("b", "Add", with("a"), on("/job:ps"))
			},
			err: "Cannot colocate nodes {{colocation_node b}} and {{colocation_node a}}: Cannot merge devices with " +
				"incompatible jobs: '/job:ps' and '" + w1 + "'\n\t [[{{node b}}]]",
		}, {
			name: "soft placement does not move off a task either",
			soft: true,
			build: func(s *sketch) {
				s.node("v", "VarHandleOp", placedOn(ps1))
				s.node("w", "VarHandleOp", placedOn(w1))
				s.node("b", "Read", uses("v", "w"))
			},
			err: "Cannot place the graph because a reference or resource edge connects colocation groups with incompatible " +
				"assigned devices: " + w1 + " vs " + ps1 + ". The edge src node is name='w' (op='VarHandleOp'), and the dst node " +
				"is name='b' (op='Read').",
		}, {
			name: "a group that no node gave its name to",
			build: func(s *sketch) {
				s.node("a", "Add", with("group", "later"), placedOn(ps1))
				s.node("b", "Add", with("group"))
				s.node("later", "Placeholder")
			},
			want: map[string]string{"b": ps1, "later": ps1},
		},
	})
}

// TestColocations checks that a session that remembers the open names places nodes like one that searches for them.
func TestColocations(t *testing.T) {
	s := &sketch{}
	s.node("a", "Add", with("group", "later"), on("/job:ps/task:1"))
	o := Options{Devices: devicesOf(t, w0, ps1), Supports: supports, Colocations: &Colocations{}}
	if err := Place(s.graph(), s.nodes, o); err != nil {
		t.Fatal(err)
	}
	s.node("b", "Add", with("group"))
	s.node("later", "Placeholder")
	s.node("c", "Placeholder", with("bad"), on("/job:none"))
	if err := Place(s.graph(), s.nodes[1:], o); err == nil || len(o.Colocations.byName) != 2 {
		t.Fatalf("error %v, %d open names; want an error and 2", err, len(o.Colocations.byName))
	}
	s.nodes = s.nodes[:3]
	if err := Place(s.graph(), s.nodes[1:], o); err != nil {
		t.Fatal(err)
	}
	for _, n := range s.nodes {
		if n.Assigned != ps1 {
			t.Errorf("%s is on %s", n.Name, n.Assigned)
		}
	}
	if len(o.Colocations.byName) != 1 {
		t.Errorf("%d open names, want 1", len(o.Colocations.byName))
	}
}

func TestPlaceFaults(t *testing.T) {
	s := &sketch{}
	s.node("a", "VarHandleOp")
	s.node("b", "Read", uses("a"))
	o := Options{Devices: devicesOf(t, w0), Supports: supports}
	if err := Place(s.graph(), s.nodes[1:], o); status.CodeOf(err) != status.Internal {
		t.Errorf("an input that is nowhere: %v", err)
	}
	s.nodes[0].Assigned = ps0
	if err := Place(s.graph(), s.nodes[1:], o); status.CodeOf(err) != status.Internal {
		t.Errorf("an input on a device that is gone: %v", err)
	}
	o.Devices = nil
	if err := Place(s.graph(), s.nodes[1:], o); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("no devices: %v", err)
	}
	if err := Place(s.graph(), nil, Options{Devices: devicesOf(t, w0), Supports: supports}); err != nil {
		t.Errorf("no nodes: %v", err)
	}
}

func TestLog(t *testing.T) {
	s := &sketch{}
	s.node("c", "Const")
	s.node("x", "Add", in("c"))
	var got []string
	o := Options{Devices: devicesOf(t, w0), Supports: supports, Log: func(n *graph.Node) {
		got = append(got, fmt.Sprintf("%s: (%s): %s", n.Name, n.Op, n.Assigned))
	}}
	if err := Place(s.graph(), s.nodes, o); err != nil {
		t.Fatal(err)
	}
	if want := []string{"c: (Const): " + w0, "x: (Add): " + w0}; !slices.Equal(got, want) {
		t.Errorf("log %q, want %q", got, want)
	}
}
