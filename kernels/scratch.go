package kernels

import (
	"math"
	"unsafe"

	"github.com/troupe-run/troupe/graph/status"
)

// Meter counts memory that a kernel takes besides its outputs' buffers, such as its own tables and the bytes of the strings that it makes,
// against the limits of the step, the session, the device and the process. It must be used by one goroutine only. Memory is counted in
// units of meterUnit, and the first unit is free.
type Meter struct {
	device  Device
	step    *Step
	counted int64
	left    int64 // of what is counted plus the first unit
}

// meterUnit is the minimum amount that a Meter reserves, in bytes.
const meterUnit = 64 << 10

// Meter returns a new Meter. Done must be called when the memory is no longer needed or is counted as an output's.
func (c *Context) Meter() Meter { return Meter{device: c.Device, step: c.Step, left: meterUnit} }

// Take reserves n bytes; it is called before they are allocated. It fails with RESOURCE_EXHAUSTED if they are not available, and with the
// step's error once that has ended.
func (m *Meter) Take(n int) error { return m.TakeMany(1, n) }

// TakeMany is like Take for count times n bytes, whose product may overflow an int.
func (m *Meter) TakeMany(count, n int) error {
	switch {
	case count < 0 || n < 0:
		return status.Internalf("A kernel asks for %d times %d bytes", count, n)
	case n > 0 && count > math.MaxInt64/2/n:
		return status.Errorf(status.ResourceExhausted, "OOM when allocating %d times %d bytes", count, n)
	}
	if err := m.step.Ended(); err != nil {
		return err
	}
	bytes := int64(count) * int64(n)
	if bytes > m.left {
		more := max(bytes-m.left, meterUnit)
		if err := m.device.Pool().Reserve(more); err != nil {
			return err
		}
		m.counted += more
		m.left += more
	}
	m.left -= bytes
	return nil
}

// Give returns n counted bytes that turned out not to be needed.
func (m *Meter) Give(n int) { m.left += int64(n) }

// Done releases everything counted.
func (m *Meter) Done() {
	if m.counted > 0 {
		m.device.Pool().Unreserve(m.counted)
	}
	m.counted, m.left = 0, 0
}

// Scratch allocates a zeroed slice of n elements, counted by m.
func Scratch[T any](m *Meter, n int) ([]T, error) {
	var zero T
	if err := m.TakeMany(n, int(unsafe.Sizeof(zero))); err != nil {
		return nil, err
	}
	return make([]T, n), nil
}
