package member

import (
	"crypto/rand"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
)

// processID differs between any two processes, on any hosts: containers share pids.
var processID = rand.Text()

// process describes the process that serves the task. It takes about a tenth of a millisecond.
func (m *Member) process() *view.Process {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	host, err := os.Hostname()
	if err != nil {
		host = "" // Host is for people, who also have the address
	}
	p := &view.Process{Boot: strconv.FormatUint(m.boot, 16), Version: Version(), Host: host, Pid: int64(os.Getpid()), Process: processID, Started: m.started.UnixNano(),
		Clock: time.Now().UnixNano(), MemoryInUse: tensor.Process.Held(), MemoryLimit: tensor.Process.Limit(), Heap: int64(heap[0].Value.Uint64()),
		Goroutines: int64(runtime.NumGoroutine()), Processors: int64(runtime.GOMAXPROCS(0)), Secret: m.secret != nil}
	if k := m.config.Credentials; k != nil {
		v := k.Validity()
		p.CertificateFrom, p.CertificateUntil = v.From.UnixNano(), v.Until.UnixNano()
	}
	askSystem(p)
	return p
}
