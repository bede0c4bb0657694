package place

import (
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
)

// onGPU is a kernel table like that of a build with CUDA: all ops run on CPUs, and all run on GPUs except those named here and library
// functions.
func onGPU(n *graph.Node, kind string) bool {
	switch n.Op {
	case "Placeholder", "FIFOQueueV2", "StatefulPartitionedCall", "While", "ScatterOnCPU":
		return kind == "CPU"
	case "OnlyGPU":
		return kind == "GPU"
	}
	return kind == "CPU" || kind == "GPU"
}

const (
	w0gpu0 = "/job:worker/replica:0/task:0/device:GPU:0"
	w0gpu1 = "/job:worker/replica:0/task:0/device:GPU:1"
)

// TestGPUPlacement checks TensorFlow's behaviour on machines with GPUs, by the rules that its placer_test.cc tests.
func TestGPUPlacement(t *testing.T) {
	for _, c := range []struct {
		name  string
		soft  bool
		build func(s *sketch)
		want  map[string]string
		err   string
	}{
		{
			name: "a GPU is preferred, the first of the own task",
			build: func(s *sketch) {
				s.node("feed", "Placeholder")
				s.node("relu", "Relu", in("feed"), makes(tensor.Float32))
			},
			want: map[string]string{"feed": w0, "relu": w0gpu0},
		}, {
			name: "a constant goes to its consumers",
			build: func(s *sketch) {
				s.node("c", "Const")
				s.node("q", "FIFOQueueV2")
				s.node("d", "Const")
				s.node("put", "Placeholder", in("c"))
				s.node("mul", "Mul", in("d"), makes(tensor.Float32))
			},
			want: map[string]string{"c": w0, "d": w0gpu0, "q": w0, "mul": w0gpu0},
		}, {
			name: "a constant with consumers on both is placed by itself",
			build: func(s *sketch) {
				s.node("c", "Const")
				s.node("put", "Placeholder", in("c"))
				s.node("mul", "Mul", in("c"), makes(tensor.Float32))
			},
			want: map[string]string{"c": w0gpu0},
		}, {
			name: "a source that cannot follow",
			build: func(s *sketch) {
				s.node("c", "OnlyGPU", makes(tensor.Float32))
				s.node("put", "Placeholder", in("c"))
			},
			want: map[string]string{"c": w0gpu0, "put": w0},
		}, {
			name: "metadata is read where the data is",
			build: func(s *sketch) {
				s.node("feed", "Placeholder")
				s.node("data", "Read", in("feed"), on("/cpu:0"))
				s.node("cpu", "Shape", in("data"))
				s.node("relu", "Relu", in("data"), makes(tensor.Float32), on("/gpu:1"))
				s.node("gpu", "Shape", in("relu"))
			},
			want: map[string]string{"cpu": w0, "gpu": w0gpu1},
		}, {
			name: "an Identity between nodes that ask for the same stays with its input",
			build: func(s *sketch) {
				s.node("feed", "Placeholder")
				s.node("a", "ScatterOnCPU", in("feed"), makes(tensor.Float32))
				s.node("i", "Identity", in("a"))
				s.node("b", "Relu", in("i"), makes(tensor.Float32))
				s.node("j", "Identity", in("a"))
				s.node("k", "Relu", in("j"), makes(tensor.Float32), on("/cpu:0"))
			},
			want: map[string]string{"i": w0, "b": w0gpu0, "j": w0gpu0, "k": w0},
		}, {
			name: "one op without a GPU kernel keeps a variable on the CPU",
			build: func(s *sketch) {
				s.node("v", "VariableV2")
				s.node("set", "Assign", uses("v"), in("v"))
				s.node("scatter", "ScatterOnCPU", uses("v"))
				s.node("w", "VariableV2")
				s.node("wset", "Assign", uses("w"))
			},
			want: map[string]string{"v": w0, "set": w0, "scatter": w0, "w": w0gpu0, "wset": w0gpu0},
		}, {
			name: "a colocation group with such an op",
			build: func(s *sketch) {
				s.node("q", "Placeholder", with("group"))
				s.node("a", "Relu", makes(tensor.Float32), with("group"))
			},
			want: map[string]string{"a": w0},
		}, {
			name: "no soft placement: the device asked for has no kernel",
			build: func(s *sketch) {
				s.node("n", "Placeholder", on("/gpu:0"))
			},
			err: "Cannot assign a device for operation n: Could not satisfy explicit device specification '/gpu:0' because no supported " +
				"kernel for GPU devices is available.",
		}, {
			name:  "soft placement: the CPU of the same task",
			soft:  true,
			build: func(s *sketch) { s.node("n", "Placeholder", on("/job:worker/task:1/gpu:0")) },
			want:  map[string]string{"n": w1},
		}, {
			name:  "soft placement: an index that is not there",
			soft:  true,
			build: func(s *sketch) { s.node("n", "Relu", makes(tensor.Float32), on("/gpu:7")) },
			want:  map[string]string{"n": w0gpu0},
		}, {
			name:  "an index that is not there",
			build: func(s *sketch) { s.node("n", "Relu", makes(tensor.Float32), on("/gpu:7")) },
			err:   "Cannot assign a device for operation n: {{node n}} was explicitly assigned to /gpu:7 but available devices are [ ",
		}, {
			name: "a variable that a function takes is where functions run",
			build: func(s *sketch) {
				s.node("v", "VarHandleOp")
				s.node("w", "VarHandleOp")
				s.node("init", "AssignVariableOp", uses("v"))
				s.node("call", "StatefulPartitionedCall", uses("v"), makes(tensor.Float32))
				s.node("loop", "While", uses("w"), makes(tensor.Float32))
				s.node("x", "VarHandleOp")
			},
			want: map[string]string{"v": w0, "w": w0, "init": w0, "call": w0, "loop": w0, "x": w0gpu0},
		}, {
			name: "a function's variable that has to be on a GPU",
			build: func(s *sketch) {
				s.node("v", "VarHandleOp", on("/gpu:0"))
				s.node("call", "StatefulPartitionedCall", uses("v"), makes(tensor.Float32))
			},
			err: "Cannot assign a device for operation v: Could not satisfy explicit device specification '/gpu:0' because no supported " +
				"kernel for GPU devices is available.",
		}, {
			name: "a function on a GPU",
			build: func(s *sketch) {
				s.node("call", "StatefulPartitionedCall", on("/gpu:0"), makes(tensor.Float32))
			},
			err: "Cannot assign a device for operation call: Could not satisfy explicit device specification '/gpu:0' because no supported " +
				"kernel for GPU devices is available.",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &sketch{}
			c.build(s)
			err := Place(s.graph(), s.nodes, Options{Devices: devicesOf(t, w0, w0gpu1, w0gpu0, w1, w1gpu0, ps0), SoftPlacement: c.soft, Supports: onGPU})
			if c.err == "" {
				check(t, err, "")
			} else if err == nil || !strings.HasPrefix(err.Error(), c.err) {
				t.Fatalf("got  %v\nwant %s", err, c.err)
			}
			for name, want := range c.want {
				if got := s.byName[name].Assigned; got != want {
					t.Errorf("%s is on %s, want %s", name, got, want)
				}
			}
		})
	}
}

// TestLateFunction: a session already has a variable on a GPU, and then passes it to a function.
func TestLateFunction(t *testing.T) {
	s := &sketch{}
	s.node("v", "VarHandleOp", placedOn(w0gpu0))
	s.node("call", "StatefulPartitionedCall", uses("v"), makes(tensor.Float32))
	err := Place(s.graph(), s.nodes[1:], Options{Devices: devicesOf(t, w0, w0gpu0), SoftPlacement: true, Supports: onGPU})
	check(t, err, "Cannot pass the resource of {{node v}} (VarHandleOp), which is for GPU devices, to the function that {{node call}} "+
		"(StatefulPartitionedCall) calls: it runs on CPU devices. Place the resource there.\n\t [[call]]")
}

// TestHomesOnGPUs: clients that use one name share the resource on the first client's device, or get an error that explains why not.
func TestHomesOnGPUs(t *testing.T) {
	d := &directory{}
	place := func(local string, build func(s *sketch)) (*sketch, error) {
		s := &sketch{}
		build(s)
		devices := devicesOf(t, w0, w0gpu0, w1, w1gpu0)
		for i := range devices {
			devices[i].Local = strings.HasPrefix(devices[i].Name, local)
		}
		return s, Place(s.graph(), s.nodes, Options{Devices: devices, SoftPlacement: true, Supports: onGPU, Home: d.home})
	}
	plain := func(s *sketch) {
		s.node("x", "VarHandleOp", named("", "x"))
		s.node("set", "AssignVariableOp", uses("x"))
	}
	scatters := func(s *sketch) { plain(s); s.node("scatter", "ScatterOnCPU", uses("x")) }
	for _, local := range []string{"/job:worker/replica:0/task:1", "/job:worker/replica:0/task:0"} {
		s, err := place(local, plain)
		check(t, err, "")
		if s.byName["x"].Assigned != w1gpu0 || s.byName["set"].Assigned != w1gpu0 {
			t.Errorf("x is on %s, its op on %s", s.byName["x"].Assigned, s.byName["set"].Assigned)
		}
	}
	if _, err := place("/job:worker/replica:0/task:0", scatters); err == nil || !strings.HasPrefix(err.Error(),
		"Cannot assign a device for operation x: {{node x}} uses resource 'x' of container '', which lives on "+w1gpu0+
			", but not all ops that use it have kernels for GPU devices.\nColocation Debug Info:") {
		t.Errorf("got %v", err)
	}
	// The first client has an op for CPUs only, and decides for the others.
	d.homes = nil
	for _, build := range []func(*sketch){scatters, plain} {
		s, err := place("/job:worker/replica:0/task:0", build)
		check(t, err, "")
		if got := s.byName["x"].Assigned; got != w0 {
			t.Errorf("x is on %s", got)
		}
	}
}
