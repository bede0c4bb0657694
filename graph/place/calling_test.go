package place

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/tensor"
)

// haveFunctions returns devices of which those on the tasks of programs have functions, those on unknown tasks may have some, and others have
// none. The master's own are /job:worker/task:0's.
func haveFunctions(t *testing.T, programs, unknown string) []Device {
	t.Helper()
	all := devicesOf(t, w0, w1, ps0, ps1, w1gpu0)
	for i, d := range all {
		task := fmt.Sprintf("%s%d", strings.TrimSuffix(d.Spec.Job, "orker"), d.Spec.Task)
		switch {
		case d.Spec.Type == "GPU":
			all[i].Functions = device.NoFunctions
		case slices.Contains(strings.Fields(programs), task):
			all[i].Functions = device.HasFunctions
		case slices.Contains(strings.Fields(unknown), task):
			all[i].Functions = device.UnknownFunctions
		default:
			all[i].Functions = device.NoFunctions
		}
	}
	return all
}

// callsProgram reports whether the name of a node's op begins with Call, as those of a dataset and of a resource may, too.
func callsProgram(n *graph.Node) (bool, error) { return strings.HasPrefix(n.Op, "Call"), nil }

// A node that calls functions of a program is on a task that has some, whatever it is connected to.
func TestCallers(t *testing.T) {
	scalar := makes(tensor.Float32)
	alone := func(opts ...option) func(s *sketch) {
		return func(s *sketch) { s.node("f", "Call", append(opts, scalar)...) }
	}
	const noProgram = "Cannot assign a device for operation f: {{node f}} (Call) calls a function of the program that owns the server, and has to be on "
	for _, c := range []struct {
		name              string
		programs, unknown string // tasks: w0, w1, ps0, ps1
		soft              bool
		build             func(s *sketch)
		want              map[string]string
		err               string // a part
		warn              string // a part
	}{
		{name: "the master's own task comes first", programs: "ps0 w0 w1", build: alone(), want: map[string]string{"f": w0}},
		{name: "otherwise the first", programs: "ps1 w1", build: alone(), want: map[string]string{"f": ps1}},
		{name: "known ones before unknown ones", programs: "w1", unknown: "ps0", build: alone(), want: map[string]string{"f": w1}},
		{name: "unknown ones before those without", unknown: "ps1", build: alone(), want: map[string]string{"f": ps1}},
		{name: "nowhere: it fails when it runs", build: alone(), want: map[string]string{"f": w0}},
		{name: "nowhere, where its device says: it fails when it runs", build: alone(on("/job:ps/task:1")), want: map[string]string{"f": ps1}},
		{name: "all alike", programs: "w0 w1 ps0 ps1", build: alone(on("/job:ps/task:1")), want: map[string]string{"f": ps1}},
		{name: "a device of the master's own task", programs: "w1", build: alone(on("/cpu:0")), want: map[string]string{"f": w1}},
		{name: "a job that has some", programs: "w0 ps1", build: alone(on("/job:ps")), want: map[string]string{"f": ps1}},
		{name: "an unknown task that its device names", programs: "w0", unknown: "ps1", build: alone(on("/job:ps/task:1")), want: map[string]string{"f": ps1}},
		{
			name: "a task that has none", programs: "w0 w1", build: alone(on("/job:ps/task:1")),
			err: noProgram + "/job:ps/replica:0/task:1, which belongs to no program. Place it on a task of the program that has the function " +
				"(/job:worker/replica:0/task:0, /job:worker/replica:0/task:1), or start the server in that program (troupe.Server, troupe.run, WithFunction).",
		}, {
			name: "a job that has none", programs: "w0", build: alone(on("/job:ps")), soft: true,
			err: noProgram + "/job:ps/replica:0/task:0, /job:ps/replica:0/task:1, which belong to no program.",
		}, {
			name: "with a dataset on a task that has none", programs: "w0",
			build: func(s *sketch) {
				s.node("f", "CallDataset", makes(tensor.Variant), on("/job:ps/task:0"))
				s.node("batches", "BatchDataset", in("f"), makes(tensor.Variant))
			},
			err: "{{node f}} (CallDataset) calls a function of the program that owns the server, and has to be on " +
				"/job:ps/replica:0/task:0, which belongs to no program.",
		}, {
			name: "a source whose consumer is elsewhere", programs: "w0",
			build: func(s *sketch) {
				s.node("v", "VariableV2", on("/job:ps/task:0"))
				alone()(s)
				s.node("assign", "Assign", uses("v"), in("f"))
			},
			want: map[string]string{"v": ps0, "assign": ps0, "f": w0},
		}, {
			name: "a source whose consumer is on a task that has some", programs: "w0 ps0",
			build: func(s *sketch) {
				s.node("v", "VariableV2", on("/job:ps/task:0"))
				alone()(s)
				s.node("assign", "Assign", uses("v"), in("f"))
			},
			want: map[string]string{"f": ps0},
		}, {
			name: "what stays with it follows", programs: "w1",
			build: func(s *sketch) {
				s.node("x", "Placeholder")
				s.node("f", "Call", in("x"), scalar)
				s.node("same", "Identity", in("f"))
				s.node("other", "Add", in("same"))
			},
			want: map[string]string{"f": w1, "same": w1, "other": w0},
		}, {
			name: "what is colocated with it follows", programs: "w1",
			build: func(s *sketch) {
				s.node("a", "Placeholder")
				s.node("f", "Call", scalar, with("a"))
			},
			want: map[string]string{"f": w1, "a": w1},
		}, {
			name: "colocated with what is elsewhere", programs: "w1",
			build: func(s *sketch) {
				s.node("a", "Placeholder", on("/job:ps/task:0"))
				s.node("f", "Call", scalar, with("a"))
			},
			err: "Cannot colocate nodes {{colocation_node f}} and {{colocation_node a}}: {{node f}} (Call) calls a function of the program that owns the server, " +
				"and has to be on /job:ps/replica:0/task:0, which belongs to no program.",
		}, {
			name: "colocated with what is elsewhere, softly", programs: "w1", soft: true,
			build: func(s *sketch) {
				s.node("a", "Placeholder", on("/job:ps/task:0"))
				s.node("f", "Call", scalar, with("a"))
			},
			want: map[string]string{"f": w1, "a": ps0}, warn: "Ignoring request to colocate node 'f'",
		}, {
			name: "a resource of its own", programs: "w1",
			build: func(s *sketch) {
				s.node("f", "CallIterator", makes(tensor.Resource))
				s.node("next", "Next", uses("f"))
			},
			want: map[string]string{"f": w1, "next": w1},
		}, {
			name: "a dataset, and the iterator over what is made of it", programs: "w1",
			build: func(s *sketch) {
				s.node("f", "CallDataset", makes(tensor.Variant))
				s.node("batches", "BatchDataset", in("f"), makes(tensor.Variant))
				s.node("iterator", "IteratorV2", makes(tensor.Resource))
				s.node("make", "MakeIterator", in("batches"), uses("iterator"))
				s.node("next", "IteratorGetNext", uses("iterator"), scalar)
				s.node("other", "RangeDataset", makes(tensor.Variant))
				s.node("others", "AnonymousIterator", makes(tensor.Resource))
				s.node("makeOther", "MakeIterator", in("other"), uses("others"))
			},
			want: map[string]string{"f": w1, "batches": w1, "iterator": w1, "make": w1, "next": w1, "other": w0, "others": w0, "makeOther": w0},
		}, {
			name: "a dataset that was placed before", programs: "w1",
			build: func(s *sketch) {
				s.node("f", "CallDataset", makes(tensor.Variant), placedOn(w1))
				s.node("iterator", "IteratorV2", makes(tensor.Resource))
				s.node("make", "MakeIterator", in("f"), uses("iterator"))
			},
			want: map[string]string{"iterator": w1, "make": w1},
		}, {
			name: "an iterator elsewhere", programs: "w1",
			build: func(s *sketch) {
				s.node("f", "CallDataset", makes(tensor.Variant))
				s.node("iterator", "IteratorV2", makes(tensor.Resource), placedOn(ps0))
				s.node("make", "MakeIterator", in("f"), uses("iterator"))
			},
			err: "{{node f}} (CallDataset) calls a function of the program that owns the server, and has to be on /job:ps/replica:0/task:0",
		}, {
			name: "what was placed before stays", programs: "w1",
			build: func(s *sketch) {
				s.node("f", "Call", scalar, placedOn(ps0))
				s.node("g", "Call", in("f"), scalar)
			},
			want: map[string]string{"f": ps0, "g": w1},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &sketch{}
			c.build(s)
			var warnings []string
			fresh := slices.DeleteFunc(slices.Clone(s.nodes), func(n *graph.Node) bool { return n.Assigned != "" })
			err := Place(s.graph(), fresh, Options{Devices: haveFunctions(t, c.programs, c.unknown), SoftPlacement: c.soft, Supports: cpus,
				CallsProgram: callsProgram, Warn: func(m string) { warnings = append(warnings, m) }})
			if c.err == "" {
				check(t, err, "")
			} else if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Fatalf("got  %v\nwant %s", err, c.err)
			} else {
				check(t, err, err.Error())
			}
			if all := strings.Join(warnings, "\n"); !strings.Contains(all, c.warn) || c.warn == "" && all != "" {
				t.Errorf("warnings %q, want %q", all, c.warn)
			}
			for name, want := range c.want {
				if got := s.byName[name].Assigned; got != want {
					t.Errorf("%s is on %s, want %s", name, got, want)
				}
			}
		})
	}
}

func cpus(_ *graph.Node, kind string) bool { return kind == "CPU" }

// A resource that calls functions of a program has its home where these are. Where another session has made it elsewhere, the error says so.
func TestCallersHomes(t *testing.T) {
	for name, c := range map[string]struct{ lives, want, err string }{
		"new":       {"", w1, ""},
		"there":     {ps1, "", "{{node f}} uses resource 'rows' of container '', which lives on " + ps1 + ", but {{node f}} (CallIterator) calls a function"},
		"elsewhere": {w1, w1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sketch{}
			s.node("f", "CallIterator", makes(tensor.Resource), named("", "rows"))
			s.byName["f"].Def.IsStateful = true
			home := func(r []Resource) ([]string, error) {
				if c.lives != "" {
					return []string{c.lives}, nil
				}
				return []string{r[0].Default}, nil
			}
			err := Place(s.graph(), s.nodes, Options{Devices: haveFunctions(t, "w1", ""), Supports: cpus, CallsProgram: callsProgram, Home: home,
				Stable: []string{"/job:ps/replica:0/task:0", "/job:ps/replica:0/task:1"}})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got  %v\nwant %s", err, c.err)
				}
				return
			}
			check(t, err, "")
			if got := s.byName["f"].Assigned; got != c.want {
				t.Errorf("f is on %s, want %s", got, c.want)
			}
		})
	}
}
