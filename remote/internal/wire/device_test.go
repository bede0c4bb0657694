package wire

import (
	"slices"
	"testing"

	"github.com/troupe-run/troupe/graph/device"
)

func TestDevices(t *testing.T) {
	cpu := device.Attributes{Name: "/job:w/replica:0/task:0/device:CPU:0", Type: "CPU", Incarnation: 1 << 63, Functions: device.HasFunctions}
	gpu := device.Attributes{Name: "/job:w/replica:0/task:0/device:GPU:0", Type: "GPU", MemoryLimit: 8 << 30, Incarnation: 7, Description: "device: 0, name: A", Functions: device.NoFunctions}
	id := &Identity{Devices: []*Device{DeviceOf(cpu), DeviceOf(gpu)}}
	if got := id.DeviceAttributes(); !slices.Equal(got, []device.Attributes{cpu, gpu}) {
		t.Errorf("got %+v", got)
	}
	gpu.Local = true
	if got := DeviceOf(gpu).Attributes(true); got != gpu {
		t.Errorf("got %+v", got)
	}
	if got := DeviceOf(device.Attributes{}).Attributes(false); got.Functions != device.UnknownFunctions {
		t.Errorf("got %+v", got)
	}
	if got := (&Device{Functions: 77}).Attributes(false); got.Functions != device.UnknownFunctions {
		t.Errorf("an unknown number: got %+v", got)
	}
	// A task without devices differs from one that was never reached, whose devices are nil.
	if got := (&Identity{}).DeviceAttributes(); got == nil || len(got) != 0 {
		t.Errorf("got %#v", got)
	}
}
