package place

import (
	"slices"
	"sync"
	"testing"
)

func names(devices []Device) (out []string) {
	for _, d := range devices {
		out = append(out, d.Name)
	}
	return out
}

func TestDeviceOrder(t *testing.T) {
	w2 := "/job:worker/replica:0/task:2/device:CPU:0"
	w10 := "/job:worker/replica:0/task:10/device:CPU:0"
	s, err := newDeviceSet(devicesOf(t, w2, w10, w1, ps0, w1gpu1, w0, w1gpu0))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{w1gpu0, w1gpu1, w0, ps0, w1, w10, w2}
	if got := names(s.devices); !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestFilterDevices(t *testing.T) {
	all := devicesOf(t, w0, w1, w1gpu0, ps0, ps1)
	for _, c := range []struct {
		filters []string
		want    []string
	}{
		{nil, []string{w0, w1, w1gpu0, ps0, ps1}},
		{[]string{"/job:ps"}, []string{w0, ps0, ps1}},
		{[]string{"/job:ps/task:1", "/gpu:0"}, []string{w0, w1gpu0, ps1}},
		{[]string{"/job:other"}, []string{w0}},
		{[]string{""}, []string{w0, w1, w1gpu0, ps0, ps1}},
	} {
		got, err := FilterDevices(all, c.filters, "/job:worker/replica:0/task:0")
		if err != nil || !slices.Equal(names(got), c.want) {
			t.Errorf("filters %q: %v, %v; want %v", c.filters, names(got), err, c.want)
		}
	}
	_, err := FilterDevices(all, []string{"ps"}, w0)
	check(t, err, "Invalid device filter 'ps'")
	if _, err := FilterDevices(all, []string{"/job:ps"}, "own"); err == nil {
		t.Error("a malformed own task is accepted")
	}
	if _, err := NewDevice("/job:a/cpu:0", false); err == nil {
		t.Error("a device with a partial name is accepted")
	}
}

// TestPrepared: users that share prepared devices place concurrently, as if each had its own, and their caches are bounded.
func TestPrepared(t *testing.T) {
	devices := devicesOf(t, w0, w1, ps0, w1gpu0)
	p, err := Prepare(devices)
	if err != nil {
		t.Fatal(err)
	}
	var users sync.WaitGroup
	for range 4 {
		mine := p.Share()
		users.Go(func() {
			for range 10 {
				s := &sketch{}
				s.node("there", "Add", on("/job:worker/task:1/device:CPU:0"))
				s.node("anywhere", "Add")
				err := Place(s.graph(), s.nodes, Options{Prepared: mine, Supports: supports})
				if err != nil || s.nodes[0].Assigned != w1 || s.nodes[1].Assigned == w1 {
					t.Errorf("placed on %q and %q, %v", s.nodes[0].Assigned, s.nodes[1].Assigned, err)
				}
			}
		})
	}
	users.Wait()
	for i := range 2 * maxFound {
		p.set.candidates(Spec{Job: "worker", Replica: -1, Task: i, Index: -1}, 1, false)
	}
	if n := len(p.set.found); n > maxFound {
		t.Errorf("%d answers are remembered", n)
	}
	if _, err := Prepare(nil); err == nil {
		t.Error("no devices are enough")
	}
}
