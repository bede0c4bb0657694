package kernels

import (
	"math"
	"unsafe"

	"github.com/troupe-run/troupe/graph/status"
)

// Meter counts memory that a kernel takes beside its outputs' buffers, such as tables of its own and the bytes of the
// strings that it makes, against the limits of the step, the session, the device and the process. It is for one
// goroutine. Small amounts cost nothing: memory is counted in units of meterUnit, from the second one on.
type Meter struct {
	device  Device
	counted int64
	left    int64 // of what is counted, and the first unit
}

// meterUnit is what a Meter counts at once, at least, in bytes.
const meterUnit = 64 << 10

// Meter begins to count. Done has to be called when the memory is not needed any more, or counts as an output's.
func (c *Context) Meter() Meter { return Meter{device: c.Device, left: meterUnit} }

// Take counts n bytes before they are taken. It fails with RESOURCE_EXHAUSTED if they are not there.
func (m *Meter) Take(n int) error { return m.TakeMany(1, n) }

// TakeMany is Take for count times n bytes, whose product may be too large for an int.
func (m *Meter) TakeMany(count, n int) error {
	switch {
	case count < 0 || n < 0:
		return status.Internalf("A kernel asks for %d times %d bytes", count, n)
	case n > 0 && count > math.MaxInt64/2/n:
		return status.Errorf(status.ResourceExhausted, "OOM when allocating %d times %d bytes", count, n)
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

// Give takes back n bytes that were counted and turned out not to be needed.
func (m *Meter) Give(n int) { m.left += int64(n) }

// Done ends the count.
func (m *Meter) Done() {
	if m.counted > 0 {
		m.device.Pool().Unreserve(m.counted)
	}
	m.counted, m.left = 0, 0
}

// Scratch makes a zeroed list of n elements that are counted by m.
func Scratch[T any](m *Meter, n int) ([]T, error) {
	var zero T
	if err := m.TakeMany(n, int(unsafe.Sizeof(zero))); err != nil {
		return nil, err
	}
	return make([]T, n), nil
}
