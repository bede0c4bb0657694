package distance

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// ends waits for the end of a context, and returns how long that took since then.
func ends(ctx context.Context, since time.Time) (time.Duration, error) {
	<-ctx.Done()
	return time.Since(since), ctx.Err()
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		name         string
		took         []time.Duration
		inner, outer time.Duration // how long the contexts last
	}{
		{"near", []time.Duration{time.Millisecond}, 1510 * time.Millisecond, 4510 * time.Millisecond},
		{"far", []time.Duration{400 * time.Millisecond}, 5500 * time.Millisecond, 8500 * time.Millisecond},
		{"the longest counts", []time.Duration{100 * time.Millisecond, 20 * time.Millisecond}, 2500 * time.Millisecond, 5500 * time.Millisecond},
		{"a first packet lost", []time.Duration{1400 * time.Millisecond}, 6500 * time.Millisecond, 9500 * time.Millisecond},
		{"never connected", nil, 1500 * time.Millisecond, 4500 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				outer, cancel := Within(t.Context(), 4500*time.Millisecond)
				defer cancel()
				inner, stop := Within(outer, 1500*time.Millisecond)
				defer stop()
				below, end := context.WithCancel(inner)
				defer end()
				for _, d := range c.took {
					Connected(below, d)
				}
				if d, _ := below.Deadline(); d.Sub(began) != c.inner {
					t.Errorf("the deadline is after %v", d.Sub(began))
				}
				for _, x := range []struct {
					ctx  context.Context
					want time.Duration
				}{{below, c.inner}, {inner, c.inner}, {outer, c.outer}} {
					if took, err := ends(x.ctx, began); took != x.want || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("it ended after %v, %v, not after %v", took, err, x.want)
					}
				}
			})
		})
	}
}

// The caller's cancellation or earlier deadline ends the context, and so does cancel.
func TestCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		callers, cancelCallers := context.WithTimeout(t.Context(), time.Second)
		defer cancelCallers()
		ctx, cancel := Within(callers, 2*time.Second)
		Connected(ctx, time.Second)
		if d, _ := ctx.Deadline(); d.Sub(began) != time.Second {
			t.Errorf("the deadline is after %v", d.Sub(began))
		}
		if took, err := ends(ctx, began); took != time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ended after %v, %v", took, err)
		}
		cancel()
		ctx, cancel = Within(t.Context(), time.Second)
		cancel()
		cancel()
		if took, err := ends(ctx, time.Now()); took != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("it ended after %v, %v", took, err)
		}
		Connected(ctx, time.Second)
	})
}
