package troupe

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

// No message that Send accepts is lost when an idle link is closed, not even at the moment of the close.
func TestNothingIsLostWhenALinkIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := simulated(t, 2, counters).tasks
		ref, err := all[0].Spawn(deadline(t), "counter", ActorRef{all[1].Task(), "c"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		sent := int64(0)
		for gap := 59 * time.Second; gap < 62*time.Second; gap += 7 * time.Millisecond {
			if err := all[0].Send(t.Context(), ref, wrapperspb.Int64(1)); err != nil {
				t.Fatalf("after %v: %v", gap, err)
			}
			sent++
			pass(gap)
		}
		if got := sum(t, all[0], ref); got != sent {
			t.Errorf("%d of %d messages arrived", got, sent)
		}
	})
}

// A program that watches tasks learns of a crash at once. It learns when a process that was frozen is back, and why a process leaves.
func TestWatchTasksHearsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := simulated(t, 3, counters)
		all := sim.tasks
		type change struct {
			TaskStatus
			at time.Time
		}
		changes := make(chan change, 100)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for s := range all[0].WatchTasks(ctx) {
				changes <- change{s, time.Now()}
			}
			close(changes)
		}()
		expect := func(task, state string, since time.Time, within time.Duration) {
			t.Helper()
			for c := range changes {
				if c.Task != all[0].Task() && c.Task != task {
					t.Fatalf("%s is %s: %s", c.Task, c.State, c.Reason)
				}
				if c.Task == task && c.State == state {
					if d := c.at.Sub(since); d > within {
						t.Errorf("%s is %s after %v: %s", task, state, d, c.Reason)
					}
					break
				}
			}
			for _, s := range all[0].Status() {
				if s.Task == task && s.State != state {
					t.Errorf("the status of %s is %s", task, s.State)
				}
			}
		}
		pass(2 * time.Hour)
		for len(changes) > 0 {
			<-changes
		}
		start := time.Now()
		sim.host(1).Freeze(true)
		expect(all[1].Task(), "down", start, 5*time.Second)
		pass(time.Second) // gossip still considers it up
		start = time.Now()
		sim.host(1).Freeze(false)
		expect(all[1].Task(), "up", start, 4*time.Second)
		pass(time.Minute)
		start = time.Now()
		sim.kill(1)
		expect(all[1].Task(), "down", start, 10*time.Millisecond)
		start = time.Now()
		stop(t, all[2])
		expect(all[2].Task(), "down", start, time.Second)
		cancel()
		for range changes {
		}
	})
}
