package remote

import (
	"slices"
	"testing"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// landingDevice counts the tensors that land in its own memory.
type landingDevice struct {
	*devices.CPU
	memory *tensor.Pool
}

func (d landingDevice) Land(dtype tensor.DType, shape tensor.Shape) (*tensor.Tensor, error) {
	return tensor.New(d.memory, dtype, shape)
}

// TestSinkOfDevices checks that a pushed tensor is in the memory of its device if the device provides memory, and otherwise in the task's.
func TestSinkOfDevices(t *testing.T) {
	const cpu, card = "/job:w/replica:0/task:0/device:CPU:0", "/job:w/replica:0/task:0/device:GPU:0"
	d := landingDevice{devices.NewCPU(nil, card, "w", 0), tensor.NewPool("pinned", 0)}
	s := newSink([]devices.Device{devices.NewCPU(nil, cpu, "w", 0), d})
	var got *tensor.Tensor
	s.deliver = func(step uint64, key kernels.Key, v *tensor.Tensor) {
		if step != 7 || key.Edge != "x:0" || key.Tag.Iter != 3 {
			t.Errorf("%v of step %d arrived", key, step)
		}
		got = v
	}
	v, err := tensor.New(tensor.NewPool("test", 0), tensor.Float32, tensor.Shape{3, 5})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	for name, pinned := range map[string]int64{card: 1, cpu: 0, "": 0, "/job:w/replica:0/task:0/device:GPU:1": 0} {
		header := pushHeader(actors.Push{Step: 7, Key: kernels.Key{Edge: "x:0", Tag: kernels.Tag{Iter: 3}}, Tensor: v, Device: name})
		dst, done, err := s.Begin("/job:ps/replica:0/task:0", 1, 7, header, len(v.Data()))
		if err != nil || len(dst) != len(v.Data()) {
			t.Fatalf("for %q: %d bytes, %v", name, len(dst), err)
		}
		copy(dst, v.Data())
		done(nil)
		if held := d.memory.Stats().InUse; (held > 0) != (pinned > 0) {
			t.Errorf("for %q: %d bytes of the card's memory", name, held)
		}
		if !slices.Equal(got.Shape(), v.Shape()) {
			t.Errorf("a tensor of shape %v arrived", got.Shape())
		}
		got.Release()
	}
}

// TestPushHeaders checks that headers without a device are read, and that truncated ones are rejected.
func TestPushHeaders(t *testing.T) {
	v, err := tensor.New(tensor.NewPool("test", 0), tensor.Int64, tensor.Shape{2})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	whole := pushHeader(actors.Push{Key: kernels.Key{Edge: "edge"}, Tensor: v, Device: "d"})
	key, dtype, shape, device, err := readPushHeader(whole)
	if err != nil || key.Edge != "edge" || dtype != tensor.Int64 || !slices.Equal(shape, v.Shape()) || string(device) != "d" {
		t.Errorf("read %v, %v, %v, %q: %v", key, dtype, shape, device, err)
	}
	if _, _, _, device, err := readPushHeader(whole[:len(whole)-2]); err != nil || device != nil {
		t.Errorf("without a device: %q, %v", device, err)
	}
	for cut := range len(whole) {
		if _, _, _, _, err := readPushHeader(whole[:cut]); err == nil != (cut == len(whole)-2) || err != nil && status.CodeOf(err) != status.DataLoss {
			t.Errorf("of a header cut off after %d bytes: %v", cut, err)
		}
	}
}
