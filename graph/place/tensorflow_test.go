package place

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
)

// recorded is a graph placed by TensorFlow 2.21 on /job:worker with two tasks and /job:ps with one, each with two CPUs; the session's
// master was /job:worker/task:0.
type recorded struct {
	Soft  bool
	Nodes []struct {
		Name, Op, Device        string
		Inputs, Controls, Class []string
	}
	// Placed is the device of each node; Error is the first line of the error if placement failed.
	Placed      map[string]string
	Code, Error string
}

func (r *recorded) sketch() *sketch {
	s := &sketch{}
	for _, n := range r.Nodes {
		opts := []option{on(n.Device), after(n.Controls...)}
		switch n.Op {
		case "AddV2", "ReadVariableOp":
			opts = append(opts, makes(tensor.Float32))
		case "Shape":
			opts = append(opts, makes(tensor.Int32))
		}
		for i, name := range n.Inputs {
			take := in(name)
			if i == 0 && (strings.HasPrefix(n.Op, "Assign") || n.Op == "ReadVariableOp") {
				take = uses(name)
			}
			opts = append(opts, take)
		}
		if n.Class != nil {
			opts = append(opts, with(n.Class...))
		}
		s.node(n.Name, n.Op, opts...)
	}
	return s
}

// TestAsTensorFlow compares placements and messages with those of TensorFlow's own server. The records are made by testdata/record.py.
func TestAsTensorFlow(t *testing.T) {
	file, err := os.ReadFile("testdata/tensorflow.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, task := range []string{"/job:worker/task:0", "/job:worker/task:1", "/job:ps/task:0"} {
		for _, d := range []string{"/cpu:0", "/cpu:1"} {
			full, err := Canonical(task+d, "/job:worker/replica:0/task:0/device:CPU:0")
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, full)
		}
	}
	cpuOnly := func(_ *graph.Node, kind string) bool { return kind == "CPU" }
	lines := bufio.NewScanner(bytes.NewReader(file))
	for line := 1; lines.Scan(); line++ {
		var r recorded
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("line %d: %v", line, err)
		}
		s := r.sketch()
		err := Place(s.graph(), s.nodes, Options{Devices: devicesOf(t, names...), SoftPlacement: r.Soft, Supports: cpuOnly})
		got := ""
		if err != nil {
			got, _, _ = strings.Cut(err.Error(), "\n")
		}
		if inOrder(got) != inOrder(r.Error) {
			t.Errorf("line %d: error %q\nTensorFlow's: %q", line, got, r.Error)
		}
		for name, want := range r.Placed {
			if got := s.byName[name].Assigned; got != want {
				t.Errorf("line %d: %s is on %q, TensorFlow placed it on %q", line, name, got, want)
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

// inOrder sorts the list of all devices in a message, which TensorFlow orders by when their tasks answered.
func inOrder(message string) string {
	before, list, found := strings.Cut(message, "All available devices [")
	if !found {
		return message
	}
	list, after, _ := strings.Cut(list, "]")
	devices := strings.Split(list, ", ")
	slices.Sort(devices)
	return before + strings.Join(devices, ", ") + after
}
