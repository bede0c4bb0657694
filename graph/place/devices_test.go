package place

import (
	"slices"
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
