// Package kernelstest runs kernels one at a time on a device of its own and compares their results with
// expected tensors. It checks memory, too: every case runs once with inputs that the kernel must leave alone
// and once with inputs that it may take over, and at the end of a test everything that came from the device's
// pool must have been returned.
package kernelstest

import (
	"testing"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// Device is a CPU device for tests, with a memory pool and containers of its own.
type Device struct {
	t         testing.TB
	pool      *tensor.Pool
	resources *containers.Manager
	// accelerator is what runs the ops that have a row for it; nil for none.
	accelerator kernels.Accelerator
}

// DeviceName is the full name of every Device.
const DeviceName = "/job:test/replica:0/task:0/device:CPU:0"

// NewDevice makes a device. When the test ends its containers are cleared and its pool must
// have all memory back.
func NewDevice(t testing.TB) *Device {
	d := &Device{t: t, pool: tensor.NewPool("test", 1<<28), resources: NewManager(t)}
	t.Cleanup(func() {
		if err := d.resources.Close(); err != nil {
			t.Errorf("closing the containers: %v", err)
		}
		if n := d.pool.Stats().InUse; n != 0 {
			t.Errorf("%d bytes of the device's pool were not released", n)
		}
	})
	if Accelerate != nil && !isCPUOnly(t.Name()) {
		d.accelerator = Accelerate(t, DeviceName, d.resources)
	}
	return d
}

// Name is DeviceName.
func (d *Device) Name() string { return DeviceName }

// Type is CPU.
func (d *Device) Type() string { return "CPU" }

// Pool is the device's memory.
func (d *Device) Pool() *tensor.Pool { return d.pool }

// Memory is the pool: host memory.
func (d *Device) Memory() tensor.Memory { return d.pool }

// Resources are the device's containers.
func (d *Device) Resources() kernels.Resources { return d.resources }

// Parallel calls body for parts of grain elements, one after the other, so that a kernel that
// gets the borders between parts wrong fails with inputs of few elements.
func (d *Device) Parallel(n, grain int, body func(lo, hi int)) {
	grain = max(grain, 1)
	for lo := 0; lo < n; lo += grain {
		body(lo, min(lo+grain, n))
	}
}
