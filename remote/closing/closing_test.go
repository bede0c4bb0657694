package closing

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := New()
		failure := errors.New("no")
		calls := 0
		if err := o.Do(t.Context(), func(context.Context) error { calls++; return failure }); !errors.Is(err, failure) {
			t.Fatal(err)
		}
		release, first, second := make(chan struct{}), make(chan error, 1), make(chan error, 1)
		go func() {
			first <- o.Do(t.Context(), func(context.Context) error {
				calls++
				<-release
				return nil
			})
		}()
		synctest.Wait()
		impatient, cancel := context.WithCancel(t.Context())
		go func() { second <- o.Do(impatient, func(context.Context) error { calls++; return nil }) }()
		synctest.Wait()
		cancel()
		if err := <-second; !errors.Is(err, context.Canceled) {
			t.Errorf("the second call gave %v", err)
		}
		close(release)
		if err := <-first; err != nil {
			t.Error(err)
		}
		// An ended context does not matter if there is nothing to wait for.
		if err := o.Do(impatient, func(context.Context) error { calls++; return failure }); err != nil || calls != 2 {
			t.Errorf("%d calls, %v", calls, err)
		}
	})
}
