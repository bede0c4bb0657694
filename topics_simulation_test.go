package troupe

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/network/simnet"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestFirstMessageToATopic checks that a message to a topic reaches a task that has subscribed, though the publisher's task does not know it
// yet: gossip is still on its way when the tasks have started. A task that is absent delays the first message alone.
func TestFirstMessageToATopic(t *testing.T) {
	const tasks = 4
	for _, delay := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond} {
		for by := range tasks {
			t.Run(fmt.Sprintf("%v/task %d", delay, by), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sim := &simulation{net: simnet.New(1), options: func(int) []Option { return []Option{counters} }, cluster: ClusterSpec{"w": nil}}
					for i := range tasks {
						sim.cluster["w"] = append(sim.cluster["w"], fmt.Sprintf("10.0.0.%d:2222", i+1))
					}
					sim.net.Delay(delay)
					sim.startAll(t)
					absent := (by + 2) % tasks
					sim.kill(absent)
					var all []<-chan any
					for i, task := range sim.tasks {
						if i == absent {
							continue
						}
						messages, err := task.Subscribe(t.Context(), "topic")
						if err != nil {
							t.Fatal(err)
						}
						all = append(all, messages)
					}
					for n := range int64(2) {
						began := time.Now()
						if err := sim.tasks[by].Publish(t.Context(), "topic", wrapperspb.Int64(n)); err != nil {
							t.Fatal(err)
						}
						if d := time.Since(began); d > 11*time.Second || n > 0 && d > 0 {
							t.Errorf("message %d took %v", n, d)
						}
						for i, messages := range all {
							select {
							case m := <-messages:
								if got := m.(*wrapperspb.Int64Value).Value; got != n {
									t.Errorf("message %d has arrived, not %d", got, n)
								}
							case <-time.After(2 * time.Second):
								t.Errorf("message %d has not arrived at subscriber %d", n, i)
							}
						}
					}
				})
			})
		}
	}
}
