package turns

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
		all := New(4)
		var busy []string
		leaves := map[string][]func(){}
		enter := func(ctx context.Context, who string) {
			go func() {
				if end, err := all.Enter(ctx, who); err == nil {
					busy, leaves[who] = append(busy, who), append(leaves[who], end)
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
			end := leaves[who][0]
			leaves[who] = leaves[who][1:]
			end() // the next one that enters changes both
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

// TestManyTakeTurns checks that few calls are in turn at the same time, that one client's do not keep those of another waiting, and that all have their
// turn or give up.
func TestManyTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, calls = 8, 50
		all := New(most)
		leave := make(chan struct{})
		entered, left := make(chan string, 10*calls), make(chan error, 10*calls)
		begin := func(ctx context.Context, client string) {
			go func() {
				end, err := all.Enter(ctx, client)
				if err == nil {
					entered <- client
					<-leave
					end()
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
		if got := len(entered); got != most/2 {
			t.Fatalf("%d calls of one client are in turn", got)
		}
		begin(t.Context(), "other")
		synctest.Wait()
		if got := len(entered); got != most/2+1 {
			t.Fatalf("the call of another client waits: %d are in turn", got)
		}
		for i := range calls {
			begin(t.Context(), fmt.Sprint("client ", i))
		}
		synctest.Wait()
		if got := len(entered); got != most {
			t.Errorf("%d calls are in turn", got)
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
		if all.busy != 0 || len(all.clients) != 0 {
			t.Errorf("%d calls are in turn, of %d clients", all.busy, len(all.clients))
		}
	})
}
