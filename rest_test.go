package troupe

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

// No message that Send accepts is lost when an idle link is closed, not even at the moment of the close.
func TestNothingIsLostWhenALinkIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := simulated(t, 2, counters).tasks
		ref, err := all[0].Spawn(deadline(t), "counter", ActorAt(all[1].Task(), "c"), nil)
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

// What programs and actors learn of tasks are changes: each differs from the last one in the task's state or in its process, and only a task that is not
// up has a reason. A task that announces that it is leaving is up until it has left.
func TestTaskEventsAreChanges(t *testing.T) {
	ends := map[string]func(t *testing.T, sim *simulation){
		"it stops":   func(t *testing.T, sim *simulation) { stop(t, sim.tasks[2]) },
		"it crashes": func(_ *testing.T, sim *simulation) { sim.kill(2) },
		"it freezes": func(_ *testing.T, sim *simulation) {
			sim.host(2).Freeze(true)
			pass(20 * time.Second)
			sim.host(2).Freeze(false)
		},
		"it stops, and comes back": func(t *testing.T, sim *simulation) {
			stop(t, sim.tasks[2])
			sim.restart(t, 2)
		},
		"it crashes, and comes back": func(t *testing.T, sim *simulation) {
			sim.kill(2)
			sim.restart(t, 2)
		},
		"it crashes, and comes back later": func(t *testing.T, sim *simulation) {
			sim.kill(2)
			pass(time.Minute)
			sim.restart(t, 2)
		},
	}
	for what, end := range ends {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// listener checks what one listener hears. It is used on one goroutine at a time.
				listener := func(who string) (hears func(s TaskStatus), heard map[string]int) {
					last, heard := map[string]TaskStatus{}, map[string]int{}
					return func(s TaskStatus) {
						if before, ok := last[s.Task]; ok && before.State == s.State && before.Boot == s.Boot {
							t.Errorf("%s hears twice that %s is %s: %q, %q", who, s.Task, s.State, before.Reason, s.Reason)
						}
						if s.State == "up" && s.Reason != "" {
							t.Errorf("%s hears that %s is up: %s", who, s.Task, s.Reason)
						}
						last[s.Task] = s
						heard[s.Task]++
					}, heard
				}
				toActor, heardByActor := listener("an actor")
				sim := simulated(t, 3, counters, WithActor("listener", func(c *ActorContext, _ any) (Actor, error) {
					c.WatchTasks()
					return ActorFunc(func(_ *ActorContext, message any) {
						if s, ok := message.(TaskStatus); ok {
							toActor(s)
						}
					}), nil
				}))
				all := sim.tasks
				ref, err := all[0].Spawn(deadline(t), "listener", ActorAt("", ""), nil)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				var listeners sync.WaitGroup
				toProgram, heardByProgram := listener("a program")
				listeners.Go(func() {
					for s := range all[0].WatchTasks(ctx) {
						toProgram(s)
					}
				})
				listeners.Go(func() {
					for ctx.Err() == nil { // what a program hears that begins to listen now, and what it is told when it asks
						begins, stop := context.WithCancel(ctx)
						for s := range all[0].WatchTasks(begins) {
							if s.State == "up" && s.Reason != "" {
								t.Errorf("who begins to listen hears that %s is up: %s", s.Task, s.Reason)
							}
							if s.Task == all[0].Task() {
								break
							}
						}
						stop()
						for _, s := range all[0].Status() {
							if s.State == "up" && s.Reason != "" {
								t.Errorf("the status of %s is up: %s", s.Task, s.Reason)
							}
						}
						pass(5 * time.Millisecond)
					}
				})
				pass(3 * time.Second)
				end(t, sim)
				pass(30 * time.Second)
				if err := all[0].EndActor(deadline(t), ref); err != nil {
					t.Error(err)
				}
				cancel()
				listeners.Wait()
				for who, heard := range map[string]map[string]int{"the actor": heardByActor, "the program": heardByProgram} {
					if heard[all[0].Task()] != 1 || heard[all[1].Task()] != 1 || heard[all[2].Task()] < 2 {
						t.Errorf("%s has heard of %v", who, heard)
					}
				}
			})
		})
	}
}
