package tensor

import (
	"testing"
)

// plot is device memory that records what was freed.
type plot struct{ freed []uint64 }

func (p *plot) Free(b *Buffer) { p.freed = append(p.freed, b.Address()) }

func TestDeviceTensors(t *testing.T) {
	home := &plot{}
	x, err := FromDevice(Float32, Shape{3, 2}, DeviceBuffer(home, 0x1000, 256))
	if err != nil {
		t.Fatal(err)
	}
	if x.OnHost() || x.Home() != home || x.Address() != 0x1000 || x.DataSize() != 24 || x.ByteSize() != 24 || !x.Exclusive() || Host.Holds(x) {
		t.Errorf("on host %v, at %x, %d bytes", x.OnHost(), x.Address(), x.DataSize())
	}
	rows, flat := x.Rows(1, 3), x.Reshaped(Shape{6})
	if rows.Address() != 0x1008 || rows.DataSize() != 16 || flat.Address() != 0x1000 || x.Exclusive() {
		t.Errorf("rows at %x, flat at %x", rows.Address(), flat.Address())
	}
	for name, read := range map[string]func(){
		"Data":  func() { x.Data() },
		"Of":    func() { Of[float32](x) },
		"Clone": func() { x.Clone(Host) },
		"proto": func() { x.Proto() },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("the host read a device's memory")
				}
			}()
			read()
		})
	}
	for _, r := range []*Tensor{x, flat, rows} {
		if len(home.freed) != 0 {
			t.Error("freed before the last release")
		}
		r.Release()
	}
	if len(home.freed) != 1 || home.freed[0] != 0x1000 {
		t.Errorf("freed %x", home.freed)
	}
	small := DeviceBuffer(home, 0x2000, 4)
	if _, err := FromDevice(Float32, Shape{2}, small); err == nil {
		t.Error("two floats lie in four bytes")
	}
	h := Scalar(Float32, float32(1))
	if !h.OnHost() || h.Home() != nil || !Host.Holds(h) {
		t.Error("a scalar lies on the host")
	}
	h.Release()
}
