package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/troupe-run/troupe/devices/gpu"
	"github.com/troupe-run/troupe/graph/tensor"
)

// transfers measures copies between the host and the card, by the driver and by a device.
func transfers(_ context.Context, m *machine) error {
	m.head("bytes", "to the card, GB/s: pinned", "pageable", "a device's upload", "from the card, GB/s: pinned", "pageable", "a device's download")
	d, err := m.device("transfers")
	if err != nil {
		return err
	}
	for _, n := range pick(m, []int{4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20}, []int{4 << 10, 1 << 20}) {
		cells := make([]string, 7)
		cells[0] = fmt.Sprint(n)
		note := func(i int, what string, took time.Duration, err error) {
			if !m.failed(fmt.Sprintf("%s of %d bytes", what, n), err) {
				cells[i] = giga(rate(float64(n), took))
			}
		}
		err := m.bound(func(c gpu.Context) error { return m.copies(c, n, note) })
		m.failed(fmt.Sprintf("copies of %d bytes", n), err)
		took, err := m.upload(d, n)
		note(3, "an upload", took, err)
		took, err = m.download(d, n)
		note(6, "a download", took, err)
		m.row(cells...)
	}
	return d.Close()
}

// aligned returns page-aligned memory.
func aligned(n int) []byte {
	page := os.Getpagesize()
	raw := make([]byte, n+page)
	off := -int(uintptr(unsafe.Pointer(unsafe.SliceData(raw)))) & (page - 1)
	return raw[off : off+n]
}

// copies measures the driver's copies.
func (m *machine) copies(c gpu.Context, n int, note func(column int, what string, took time.Duration, err error)) error {
	addr, err := c.Alloc(int64(n))
	if err != nil {
		return err
	}
	s, err := c.NewStream()
	if err != nil {
		return errors.Join(err, c.Free(addr))
	}
	pinned, pageable := aligned(n), aligned(n)
	err = c.Pin(pinned)
	if err == nil {
		for i, host := range [][]byte{pinned, pageable} {
			what := []string{"a pinned copy", "a pageable copy"}[i]
			took, err := m.best(func() error { return errors.Join(s.CopyIn(addr, host), s.Synchronize()) })
			note(1+i, what+" to the card", took, err)
			took, err = m.best(func() error { return errors.Join(s.CopyOut(host, addr), s.Synchronize()) })
			note(4+i, what+" from the card", took, err)
		}
		err = c.Unpin(pinned)
	}
	return errors.Join(err, s.Close(), c.Free(addr))
}

// upload measures a device's copies of ordinary tensors, through its pinned memory.
func (m *machine) upload(d *gpu.Device, n int) (time.Duration, error) {
	host, err := tensor.New(tensor.Host, tensor.Uint8, tensor.Shape{int64(n)})
	if err != nil {
		return 0, err
	}
	defer host.Release()
	return m.best(func() error {
		step, ctx := newStep("upload")
		t, err := d.Upload(ctx, host)
		if err == nil {
			t.Release()
		}
		return errors.Join(err, settle(d, step))
	})
}

// download measures a device's copies into host tensors.
func (m *machine) download(d *gpu.Device, n int) (time.Duration, error) {
	t, err := d.Memory().New(tensor.Uint8, tensor.Shape{int64(n)})
	if err != nil {
		return 0, err
	}
	defer t.Release()
	return m.best(func() error {
		_, ctx := newStep("download")
		return fetch(ctx, d, t)
	})
}
