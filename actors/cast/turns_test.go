package cast

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/troupe-run/troupe/graph/status"
)

// TestTurns checks that a client which has much to do takes half of what can be done at a time, that clients that wait take turns, and that a call
// that has given up gets none.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := turns{most: 4}
		var busy []string
		enter := func(ctx context.Context, who string) {
			go func() {
				if err := all.enter(ForClient(ctx, who)); err == nil {
					busy = append(busy, who)
				} else if status.CodeOf(err) != status.Cancelled {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		want := func(who ...string) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(busy, who) {
				t.Errorf("turns of %v, want %v", busy, who)
			}
		}
		leave := func(who string) {
			t.Helper()
			i := slices.Index(busy, who)
			busy = slices.Delete(busy, i, i+1)
			all.leave(ForClient(t.Context(), who))
			synctest.Wait()
		}
		for range 10 {
			enter(t.Context(), "greedy")
		}
		want("greedy", "greedy")
		enter(t.Context(), "a")
		enter(t.Context(), "b")
		want("greedy", "greedy", "a", "b")
		leaving, leave1 := context.WithCancel(t.Context())
		enter(leaving, "c")
		enter(t.Context(), "c")
		enter(t.Context(), "")
		leave1()
		leave("greedy") // the client that waited first is first
		want("greedy", "a", "b", "greedy")
		leave("greedy")
		want("a", "b", "greedy", "c")
		leave("a")
		want("b", "greedy", "c", "")
		leave("b")
		want("greedy", "c", "", "greedy")
		for len(busy) > 0 {
			leave(busy[0])
		}
		if len(all.clients) != 0 || len(all.next) != 0 || all.busy != 0 {
			t.Errorf("%v are left", fmt.Sprint(all.clients, all.next, all.busy))
		}
	})
}
