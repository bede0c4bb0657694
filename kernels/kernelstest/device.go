// Package kernelstest runs single kernels on a test device and compares their results with expected tensors. It also checks memory: every
// case runs once with inputs that the kernel must not change and once with inputs that it may take over, and at the end of a test
// everything allocated from the device's pool must have been returned.
package kernelstest

import (
	"testing"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/rights"
	"github.com/troupe-run/troupe/kernels"
)

// Device is a CPU device for tests, with its own memory pool and containers.
type Device struct {
	t         testing.TB
	pool      *tensor.Pool
	limited   *tensor.Pool // over pool, or nil
	resources *containers.Manager
	// accelerator, if not nil, runs the ops that have a row for it.
	accelerator kernels.Accelerator
	rights      *rights.Session
	// BeforePart, if not nil, is called before each part of Parallel.
	BeforePart func()
}

// DeviceName is the full name of every Device.
const DeviceName = "/job:test/replica:0/task:0/device:CPU:0"

// NewDevice returns a device. When the test ends, the device's containers are cleared, and all memory must have been returned to its pool.
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

// Limit puts the memory of what is made from now on under a quota, as a session's is.
func (d *Device) Limit(q *tensor.Quota) { d.limited = d.pool.Under(q) }

// Name returns DeviceName.
func (d *Device) Name() string { return DeviceName }

// Type returns "CPU".
func (d *Device) Type() string { return "CPU" }

// Pool returns the device's memory pool.
func (d *Device) Pool() *tensor.Pool {
	if d.limited != nil {
		return d.limited
	}
	return d.pool
}

// Memory returns the pool, which is host memory.
func (d *Device) Memory() tensor.Memory { return d.Pool() }

// Resources returns the device's containers.
func (d *Device) Resources() kernels.Resources { return d.resources }

// Rights returns the rights set with For, or nil, which allows everything.
func (d *Device) Rights() *rights.Session { return d.rights }

// For returns the same device for a session with the given rights.
func (d *Device) For(r *rights.Session) *Device {
	c := *d
	c.rights, c.resources = r, d.resources.For(r)
	if d.accelerator != nil {
		c.accelerator = sessionAccelerator{d.accelerator, r, c.resources}
	}
	return &c
}

// sessionAccelerator is an accelerator for a session with particular rights.
type sessionAccelerator struct {
	kernels.Accelerator
	rights    *rights.Session
	resources *containers.Manager
}

func (a sessionAccelerator) Rights() *rights.Session        { return a.rights }
func (a sessionAccelerator) Resources() *containers.Manager { return a.resources }

// Parallel calls body for parts of grain elements, one after the other. Kernels that handle part boundaries incorrectly therefore fail even
// with small inputs.
func (d *Device) Parallel(n, grain int, body func(lo, hi int)) {
	grain = max(grain, 1)
	for lo := 0; lo < n; lo += grain {
		if d.BeforePart != nil {
			d.BeforePart()
		}
		body(lo, min(lo+grain, n))
	}
}
