package actors

import (
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/partition"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

// TestGraphsForGPUs takes graphs through a session's passes on tasks with GPUs, with the kernels that exist: every node gets a device that
// has a kernel for it, and its inputs are in the memory that the kernel wants.
func TestGraphsForGPUs(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		feeds  []string
		fetch  string
		onGPU  []string // must be there
		onCPU  []string
		copies int // within GPUs
	}{
		"a loop whose condition is computed on the host": {
			text: `
				zero = Const() value=0
				one = Const() value=1
				five = Const() value=5
				e = Enter(zero) frame_name="l"
				m = Merge(e, next)
				lim = Enter(five) frame_name="l" is_constant=true
				less = Less(m, lim) @a0
				cond = LoopCond(less) @a0
				s = Switch(m, cond)
				x = Exit(s)
				body = Identity(s:1)
				next = NextIteration(body)
				y = Identity(x)
			`,
			fetch: "y:0", onGPU: []string{"m", "s", "body", "next", "x"}, onCPU: []string{"less", "cond"},
		},
		"a variable that is fed and read": {
			text: `
				v = VarHandleOp() dtype=float shared_name="v"
				x = Placeholder() dtype=float
				set = AssignVariableOp(v, x) dtype=float
				read = ReadVariableOp(v, ^set) dtype=float
				shape = Shape(read) T=float out_type=int32
				again = Reshape(read, shape) T=float Tshape=int32
			`,
			feeds: []string{"x:0"}, fetch: "again:0", onGPU: []string{"v", "set", "read", "shape", "again"},
		},
		"a shape that is computed on the device": {
			text: `
				x = Placeholder() dtype=int64
				a = Identity(x)
				b = Identity(a)
				again = Reshape(b, a) T=int64 Tshape=int64
			`,
			feeds: []string{"x:0"}, fetch: "again:0", onGPU: []string{"b", "again"}, copies: 1,
		},
		"a control edge over devices": {
			text: `
				x = Placeholder() dtype=float
				a = Identity(x) T=float
				wait = NoOp(^a) @a0
				b = Identity(a, ^wait) T=float
			`,
			feeds: []string{"x:0"}, fetch: "b:0", onGPU: []string{"a", "b"}, onCPU: []string{"wait"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := graph.Build(kernelstest.GraphDef(t, c.text))
			if err != nil {
				t.Fatal(err)
			}
			const cpu, gpu = "/job:a/replica:0/task:0/device:CPU:0", "/job:a/replica:0/task:0/device:GPU:0"
			var all []place.Device
			for _, name := range []string{cpu, gpu} {
				d, err := place.NewDevice(name, true)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, d)
			}
			if err := place.Place(g, g.Nodes, place.Options{Devices: all, Supports: supports}); err != nil {
				t.Fatal(err)
			}
			pruned, err := graph.Prune(g, graph.Signature{Feeds: c.feeds, Fetches: []string{c.fetch}}, cpu)
			if err != nil {
				t.Fatal(err)
			}
			parts, err := partition.Split(pruned.Graph, partition.Options{MemoryTypes: kernels.MemoryTypes, Supports: supports})
			if err != nil {
				t.Fatal(err)
			}
			for device, want := range map[string][]string{gpu: c.onGPU, cpu: c.onCPU} {
				for _, n := range want {
					if parts.ByDevice[device] == nil || parts.ByDevice[device].Lookup(n) == nil {
						t.Errorf("%s is not on %s", n, device)
					}
				}
			}
			copies := 0
			for _, tr := range parts.Transfers {
				if tr.Src == tr.Dst {
					copies++
				}
			}
			if copies != c.copies {
				t.Errorf("%d copies within the GPU, want %d", copies, c.copies)
			}
			for _, n := range parts.ByDevice[gpu].Nodes {
				checkMemory(t, n)
			}
		})
	}
}

// checkMemory checks a node of a GPU's part against its kernel.
func checkMemory(t *testing.T, n *graph.Node) {
	t.Helper()
	if _, err := kernels.Find(n, "GPU"); err != nil {
		t.Errorf("%s is on a GPU: %v", n.Name, err)
	}
	wanted, _ := kernels.MemoryTypes(n, "GPU")
	for i, in := range n.Inputs {
		_, given := kernels.MemoryTypes(in.Node, "GPU")
		if (wanted != nil && wanted[i]) != (given != nil && given[in.Index]) && !n.InTypes[i].IsRef() {
			t.Errorf("input %d of %s (%s) comes from %s (%s) in the other memory", i, n.Name, n.Op, in.Node.Name, in.Node.Op)
		}
	}
	// Nodes that stand for control edges and iterations cost the device nothing.
	if strings.Contains(n.Name, "/_") && n.Op != "_Send" && n.Op != "_Recv" {
		for _, given := range n.OutTypes {
			if _, host := kernels.MemoryTypes(n, "GPU"); host == nil {
				t.Errorf("%s (%s) has its %v in the memory of the device", n.Name, n.Op, given)
			}
		}
	}
}
