package gpu

import (
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
)

// BenchmarkLaunch measures giving and launching a kernel, without the driver's own work.
func BenchmarkLaunch(b *testing.B) {
	m := newMachine(1, 1<<20)
	d := open(b, m.cards[0], nil)
	m.cards[0].idle = true
	x := device(b, d, 256)
	defer x.Release()
	step := newStep()
	ctx := inStep(step, "n")
	k := add(x, x, 1)
	b.ReportAllocs()
	for b.Loop() {
		d.Launch(ctx, k)
	}
	if err := settle(b, d, step); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkStep measures a step that uploads a number to the card, computes three times in new memory, and downloads the result.
func BenchmarkStep(b *testing.B) {
	m := newMachine(1, 1<<20)
	d := open(b, m.cards[0], nil)
	host := bytesOf(b, 256, 1)
	defer host.Release()
	done := make(chan error, 1)
	b.ReportAllocs()
	for b.Loop() {
		step := newStep()
		ctx := inStep(step, "n")
		x, err := d.Upload(ctx, host)
		if err != nil {
			b.Fatal(err)
		}
		for range 3 {
			y := device(b, d, 256)
			d.Launch(ctx, add(y, x, 1))
			x.Release()
			x = y
		}
		d.Download(ctx, x, func(t *tensor.Tensor, err error) {
			if err == nil {
				t.Release()
			}
			done <- err
		})
		x.Release()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		d.Settle(step, func(err error) { done <- err })
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}
