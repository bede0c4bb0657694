package actors

import (
	"context"
	"fmt"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"github.com/troupe-run/troupe/devices"
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
