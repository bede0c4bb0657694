package gpu

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
)

// TestFetch sends tensors around between three devices, in all directions at once.
func TestFetch(t *testing.T) {
	for seed := range uint64(5) {
		m := newMachine(2, 1<<20)
		if seed > 0 {
			m.chance = rand.New(rand.NewPCG(seed, 1))
		}
		var all []*testDevice
		for i, name := range []string{"a", "b", "c"} {
			all = append(all, open(t, m.cards[i/2], func(o *Options) { o.Name, o.MemoryLimit = name, 256<<10 }))
		}
		var wg sync.WaitGroup
		for first := range all {
			wg.Go(func() {
				step := newStep()
				ctx := inStep(step, "n")
				x := upload(t, all[first], ctx, 3000, 1)
				last := all[first]
				for i := range 30 {
					d := all[(first+i*(first+1))%len(all)]
					if d != last {
						y, err := d.Fetch(ctx, x)
						if err != nil {
							t.Error(err)
							break
						}
						x.Release()
						x, last = y, d
					}
					y := device(t, d, 3000)
					d.Launch(ctx, add(y, x, 2))
					x.Release()
					x = y
				}
				if got, err := fetch(t, last, ctx, x); err != nil || got[2999] != 61 {
					t.Errorf("got %v, want 61: %v", got[:1], err)
				}
				x.Release()
				for _, d := range all {
					if err := settle(t, d, step); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}
}

func TestReaches(t *testing.T) {
	m := newMachine(2, 1<<20)
	a := open(t, m.cards[0], func(o *Options) { o.Name = "a" })
	b := open(t, m.cards[1], func(o *Options) { o.Name = "b" })
	if !a.Reaches("b") || !b.Reaches("a") || a.Reaches("c") {
		t.Error("devices of one task do not reach each other")
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if a.Reaches("b") {
		t.Error("a device that is closed is reached")
	}
}

// TestFetchFromALostDevice checks that a copy in progress from a card that is reset breaks the other card, too, and that both serve again.
func TestFetchFromALostDevice(t *testing.T) {
	m := newMachine(2, 1<<20)
	a := open(t, m.cards[0], func(o *Options) { o.Name = "a" })
	b := open(t, m.cards[1], func(o *Options) { o.Name = "b" })
	m.shut("fault", true)
	step := newStep()
	ctx := inStep(step, "n")
	x := upload(t, a, ctx, 10, 1)
	a.Launch(inStep(newStep(), "culprit"), kernels.Launch{Function: "fault"})
	y, err := b.Fetch(ctx, x)
	if err != nil {
		t.Fatal(err)
	}
	begun := &departure{known: make(chan struct{}), life: a.life.Load()}
	if err := a.enqueue(command{kind: departCommand, leave: begun, life: begun.life}, nil, nil); err != nil {
		t.Fatal(err)
	}
	<-begun.known
	begun.end()
	m.shut("fault", false)
	wantError(t, settle(t, a, step), status.Unavailable, "a was lost")
	a.told(t, startedAnew)
	wantError(t, settle(t, b, step), status.Unavailable, "b was lost")
	b.told(t, startedAnew)
	x.Release()
	y.Release()
	works(t, a)
	works(t, b)
}

func TestFetchFromADeviceOutOfService(t *testing.T) {
	m := newMachine(2, 1<<20)
	a := open(t, m.cards[0], func(o *Options) { o.Name = "a" })
	b := open(t, m.cards[1], func(o *Options) { o.Name = "b" })
	x := upload(t, a, nil, 10, 1)
	m.mu.Lock()
	m.cards[0].refuse = func(call string) error {
		if call == "Open" {
			return errors.New("gone")
		}
		return nil
	}
	m.mu.Unlock()
	a.Launch(nil, kernels.Launch{Function: "fault"})
	if _, err := fetch(t, a, nil, x); status.CodeOf(err) != status.Unavailable {
		t.Errorf("got %v", err)
	}
	a.told(t, notStarted)
	_, err := b.Fetch(nil, x)
	wantError(t, err, status.Unavailable, "gone")
	x.Release()
	works(t, b)
	m.mu.Lock()
	m.cards[0].refuse = nil
	m.mu.Unlock()
	a.revive(t)
	works(t, a)
}
