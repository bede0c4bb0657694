package remote

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
)

// TestLooksTakeTurns checks that few calls look at tasks at the same time, that one client's do not keep those of another waiting, and that all have
// their turn or give up.
func TestLooksTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooks()
		const calls = 50
		leave := make(chan struct{})
		looking, left := make(chan string, 10*calls), make(chan error, 10*calls)
		begin := func(ctx context.Context, client string) {
			go func() {
				leaves, err := l.enterAs(ctx, client)
				if err == nil {
					looking <- client
					<-leave
					leaves()
				}
				left <- err
			}()
		}
		for range calls {
			begin(t.Context(), "greedy")
		}
		impatient, cancel := context.WithCancel(t.Context())
		for range calls {
			begin(impatient, "greedy")
		}
		synctest.Wait()
		if got := len(looking); got != maxClientLooks {
			t.Fatalf("%d calls of one client look", got)
		}
		begin(t.Context(), "other")
		synctest.Wait()
		if got := len(looking); got != maxClientLooks+1 {
			t.Fatalf("the call of another client waits: %d look", got)
		}
		for i := range calls {
			begin(t.Context(), fmt.Sprint("client ", i))
		}
		synctest.Wait()
		if got := len(looking); got != maxLooks {
			t.Errorf("%d calls look", got)
		}
		cancel()
		synctest.Wait()
		given := 0
		for range len(left) {
			if <-left != nil {
				given++
			}
		}
		if given == 0 {
			t.Error("no call gives up")
		}
		close(leave)
		for range 3*calls + 1 - given {
			<-left
		}
		if len(l.all) != 0 || len(l.of) != 0 {
			t.Errorf("%d calls look, of %d clients", len(l.all), len(l.of))
		}
	})
}
