package actors

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

// A task's part on two devices is two programs. The one that ends first leaves other tasks nothing to wait for, while the other one waits
// for their results.
func TestProgramThatEndsFirst(t *testing.T) {
	net := newNetwork(t)
	net.more = func(n *node, job string) []devices.Device {
		return []devices.Device{devices.NewCPU(n.system, n.name+"/device:CPU:1", job, 0)}
	}
	for _, job := range []string{"a", "b"} {
		net.tasks = append(net.tasks, taskName(job))
	}
	net.start("a")
	net.start("b")
	def := kernelstest.GraphDef(t, `
		x = Placeholder() @a0
		first = Neg(x) @b0
		asked = Neg(first) @a0
		other = Neg(asked) @b0
		answer = Neg(other) @a0
		last = AddV2(first, answer) @b0
		end = Identity(last) @a0
	`)
	for _, n := range def.Node {
		if n.Name == "other" {
			n.Device = strings.Replace(n.Device, "CPU:0", "CPU:1", 1)
		}
	}
	a := net.node(taskName("a"))
	handle, err := a.task.CreateSession(t.Context(), 0, everything, def, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.task.Session(handle, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t, a, s}
	defer c.close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range 20 {
		got, err := c.try(ctx, request(map[string]int64{"x:0": 3}, "end:0"))
		if err != nil || got[0] != 0 {
			t.Fatalf("%v, %v", got, err)
		}
	}
}
