package actors

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/proto"
)

// BenchmarkOpenAndClose opens and closes a session beside many others. Each has its own client connection, which is closed too.
func BenchmarkOpenAndClose(b *testing.B) {
	for _, beside := range []int{0, 1000, 10_000} {
		b.Run(fmt.Sprint(beside), func(b *testing.B) {
			system := actor.NewActorSystem()
			defer system.Shutdown()
			device := devices.NewCPU(system, alone{}.Self()+"/device:CPU:0", "local", 0)
			task, err := NewTask(Config{System: system, Cluster: alone{}, Devices: []devices.Device{device}})
			if err != nil {
				b.Fatal(err)
			}
			defer task.Stop(context.Background())
			conn := Connection(1)
			open := func() string {
				handle, err := task.CreateSession(context.Background(), conn, everything, &graphpb.GraphDef{}, nil)
				if err != nil {
					b.Fatal(err)
				}
				conn++
				return handle
			}
			for range beside {
				open()
			}
			b.ReportAllocs()
			for b.Loop() {
				handle := open()
				if err := task.CloseSession(context.Background(), handle); err != nil {
					b.Fatal(err)
				}
				task.ConnectionClosed(conn - 1)
			}
		})
	}
}

// Many tasks are asked concurrently, up to a bound; one failure cancels the others.
func TestParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		items := make([]int, 3*sideBySide)
		for i := range items {
			items[i] = i
		}
		var running, most, ended atomic.Int64
		visit := func(_ context.Context, _ int) error {
			now := running.Add(1)
			for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
			}
			<-time.After(time.Second)
			running.Add(-1)
			ended.Add(1)
			return nil
		}
		begun := time.Now()
		if err := parallel(t.Context(), items, visit); err != nil || time.Since(begun) != 3*time.Second || most.Load() != sideBySide || ended.Load() != int64(len(items)) {
			t.Errorf("%v after %v, %d at the same time, %d in all", err, time.Since(begun), most.Load(), ended.Load())
		}
		begun = time.Now()
		err := parallel(t.Context(), items, func(ctx context.Context, i int) error {
			if i == 5 {
				return status.New(status.Unavailable, "task 5 is gone")
			}
			<-ctx.Done()
			return status.From(ctx.Err())
		})
		wantError(t, err, status.Unavailable, "task 5 is gone")
		if d := time.Since(begun); d != 0 {
			t.Errorf("the failure was told %v later", d)
		}
		defer func() {
			if p := recover(); p == nil || !strings.Contains(p.(string), "out of range") {
				t.Errorf("the panic is %v", p)
			}
		}()
		_ = parallel(t.Context(), items, func(_ context.Context, i int) error {
			items[len(items)-1+i]++
			return nil
		})
	})
}

// A step costs one message to each other task that has a part and one back, however large the cluster and the session are. A task is
// watched as long as a session has parts on it.
func TestMessagesOfAStep(t *testing.T) {
	for _, tasks := range []int{4, 16, 64} {
		t.Run(fmt.Sprint(tasks), func(t *testing.T) {
			var jobs, parts []string
			var text strings.Builder
			for i := range tasks {
				job := "t" + string(rune('a'+i/26)) + string(rune('a'+i%26))
				jobs, parts = append(jobs, job), append(parts, "part_"+job)
				fmt.Fprintf(&text, "stay_%s = NoOp() @%s0\npart_%s = Const() value=1 @%s0\n", job, job, job, job)
			}
			fmt.Fprintf(&text, "sum = AddN(%s) N=%d @%s0\npair = AddN(%s, %s) N=2 @%s0\n", strings.Join(parts, ", "), tasks, jobs[0], parts[0], parts[1], jobs[0])
			net := newNetwork(t, jobs...)
			var sent atomic.Int64
			net.filter(func(_, _ string, _ proto.Message, _ func()) bool {
				sent.Add(1)
				return true
			})
			a := net.node(taskName(jobs[0]))
			c := open(t, a, text.String())
			var everywhere []string
			for _, job := range jobs {
				everywhere = append(everywhere, "!stay_"+job)
			}
			for _, step := range []struct {
				name    string
				req     func() *StepRequest
				results []int64
				want    int64
			}{
				{"two tasks", func() *StepRequest { return request(nil, "pair:0") }, []int64{2}, 2},
				{"no_op on all", func() *StepRequest { return request(nil, everywhere...) }, nil, 2 * int64(tasks-1)},
				{"a sum of all", func() *StepRequest { return request(nil, "sum:0") }, []int64{int64(tasks)}, 2 * int64(tasks-1)},
			} {
				c.run(step.req(), step.results...) // which builds the plan
				before := sent.Load()
				c.run(step.req(), step.results...)
				if n := sent.Load() - before; n != step.want {
					t.Errorf("%s: %d messages, not %d", step.name, n, step.want)
				}
			}
			last := taskName(jobs[tasks-1])
			if !a.task.Uses(last) || net.node(last).task.Uses(a.name) {
				t.Error("a master watches over those who have its parts, and they over nobody")
			}
			c.close()
			if a.task.Uses(last) {
				t.Error("a closed session is watched over")
			}
		})
	}
}
