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
)

// BenchmarkOpenAndClose opens and closes a session beside many others, each with a client's
// connection of its own, which ends too.
func BenchmarkOpenAndClose(b *testing.B) {
	for _, beside := range []int{0, 1000, 10_000} {
		b.Run(fmt.Sprint(beside), func(b *testing.B) {
			system := actor.NewActorSystem()
			defer system.Shutdown()
			device := devices.NewCPU(system, alone{}.Self()+"/device:CPU:0", "local", 0)
			task, err := NewTask(Config{System: system, Cluster: alone{}, Devices: []*devices.CPU{device}})
			if err != nil {
				b.Fatal(err)
			}
			defer task.Stop(context.Background())
			conn := Connection(1)
			open := func() string {
				handle, err := task.CreateSession(context.Background(), conn, &graphpb.GraphDef{}, nil)
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

// What is asked of many tasks is asked of all at the same time, up to a bound; one failure ends it.
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
