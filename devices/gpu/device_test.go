package gpu

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
)

// TestOrder runs steps that compute chains over tensors whose memory is released and reused at once, while uploads and downloads run in
// their own streams. Whatever order chance picks, each step must see its own values.
func TestOrder(t *testing.T) {
	for seed := range uint64(20) {
		m := newMachine(1, 1<<20)
		if seed > 0 {
			m.chance = rand.New(rand.NewPCG(seed, 1))
		}
		d := open(t, m.cards[0], nil)
		chance := rand.New(rand.NewPCG(seed, 2))
		type want struct {
			value byte
			got   chan *tensor.Tensor
		}
		var wants []want
		step := newStep()
		ctx := inStep(step, "n")
		for range 60 {
			n, value := 1+chance.IntN(5000), byte(chance.IntN(256))
			x := upload(t, d, ctx, n, value)
			for range chance.IntN(4) {
				y := device(t, d, n)
				by := byte(chance.IntN(256))
				d.Launch(ctx, add(y, x, by))
				value += by
				x.Release()
				x = y
			}
			switch chance.IntN(4) {
			case 0:
				y := device(t, d, n)
				d.Copy(ctx, y, x)
				x.Release()
				x = y
			case 1:
				d.Fill(ctx, x, 9)
				value = 9
			}
			w := want{value, make(chan *tensor.Tensor, 1)}
			d.Download(ctx, x, func(host *tensor.Tensor, err error) {
				if err != nil {
					t.Error(err)
				}
				w.got <- host
			})
			x.Release()
			wants = append(wants, w)
		}
		if err := settle(t, d, step); err != nil {
			t.Fatal(err)
		}
		for i, w := range wants {
			host := <-w.got
			if host == nil {
				t.FailNow()
			}
			if !bytes.Equal(host.Data(), bytes.Repeat([]byte{w.value}, host.Len())) {
				t.Fatalf("seed %d, chain %d: got %v…, want %d", seed, i, host.Data()[:min(8, host.Len())], w.value)
			}
			host.Release()
		}
	}
}

func TestLargeUpload(t *testing.T) {
	for _, limit := range []int64{0, 3 * piece / 2, 1} { // enough pinned memory, some, none
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			m := newMachine(1, 64<<20)
			m.chance = rand.New(rand.NewPCG(1, 1))
			d := open(t, m.cards[0], func(o *Options) { o.HostLimit = limit })
			host := bytesOf(t, 2*piece+1000, 1)
			defer host.Release()
			copy(host.Data()[piece:], bytes.Repeat([]byte{2}, piece))
			x, err := d.Upload(nil, host)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Release()
			got, err := fetch(t, d, nil, x)
			if err != nil || !bytes.Equal(got, host.Data()) {
				t.Errorf("what came back is not what was sent: %v", err)
			}
		})
	}
}

// TestLanding checks that data received into memory allocated by the device is uploaded without another copy through pinned memory.
func TestLanding(t *testing.T) {
	m := newMachine(1, 64<<20)
	d := open(t, m.cards[0], nil)
	landed, err := d.Land(tensor.Uint8, tensor.Shape{2*piece + 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer landed.Release()
	copy(landed.Data(), bytes.Repeat([]byte{7}, len(landed.Data())))
	before := d.Stats().PinnedUsed
	x, err := d.Upload(nil, landed)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Release()
	if used := d.Stats().PinnedUsed; before < int64(len(landed.Data())) || used != before {
		t.Errorf("%d bytes of pinned memory were in use before the upload, %d after it", before, used)
	}
	if got, err := fetch(t, d, nil, x); err != nil || !bytes.Equal(got, landed.Data()) {
		t.Errorf("what came back is not what was sent: %v", err)
	}
}

// TestLandingWithoutRoom checks that Land uses ordinary memory if there is no pinned memory.
func TestLandingWithoutRoom(t *testing.T) {
	d := open(t, newMachine(1, 64<<20).cards[0], func(o *Options) { o.HostLimit = 1 })
	landed, err := d.Land(tensor.Float32, tensor.Shape{100, 200})
	if err != nil {
		t.Fatal(err)
	}
	defer landed.Release()
	if used := d.Stats().PinnedUsed; used != 0 || landed.Len() != 20000 {
		t.Errorf("%d bytes of pinned memory for a tensor of %d", used, landed.Len())
	}
}
