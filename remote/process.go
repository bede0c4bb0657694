package remote

import (
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
)

// process tells of the process that serves the task. It takes a tenth of a millisecond or so.
func (n *Node) process() *view.Process {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	host, err := os.Hostname()
	if err != nil {
		host = "" // it is for people, who have the address
	}
	p := &view.Process{Boot: strconv.FormatUint(n.boot, 16), Version: Version(), Host: host, Pid: int64(os.Getpid()), Started: n.started.UnixNano(),
		Clock: time.Now().UnixNano(), MemoryInUse: tensor.Process.Held(), MemoryLimit: tensor.Process.Limit(), Heap: int64(heap[0].Value.Uint64()),
		Goroutines: int64(runtime.NumGoroutine()), Processors: int64(runtime.GOMAXPROCS(0))}
	askSystem(p)
	return p
}
