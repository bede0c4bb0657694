package troupe

import (
	"slices"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/harness"
	"github.com/troupe-run/troupe/internal/network"
)

func init() {
	harness.Place = func(n network.Network, job string, task int) any { return withPlace(n, job, task) }
	harness.TensorMemory = func(server any) int64 { return server.(*Server).tensorMemory() }
}

// withPlace is the option of package troupetest that says where and which task a server is.
func withPlace(n network.Network, job string, task int) Option {
	return func(o *options) {
		for _, name := range []string{"WithJob", "WithTask", "WithBind", "WithStart"} {
			if o.err == nil && slices.Contains(o.given, name) {
				o.err = status.InvalidArgumentf("%s does not apply to a cluster of troupetest, which gives each task its own", name)
			}
		}
		o.job, o.task, o.start, o.network, o.private = &job, &task, false, n, true
	}
}

// threads returns the number of threads that a kernel uses; 0 means all processors. Time may be simulated on a network other than the
// machine's. It would not pass while helpers of kernels poll for work, so there is one thread there unless the config asks for more.
func (o *options) threads(config *corepb.ConfigProto) int {
	if n := int(config.GetIntraOpParallelismThreads()); n > 0 || o.network == nil {
		return n
	}
	return 1
}

// tensorMemory returns the number of bytes that tensors take on the server's devices.
func (s *Server) tensorMemory() (bytes int64) {
	if task := s.server.Task(); task != nil {
		for _, d := range task.Devices {
			bytes += d.MemoryStats().InUse
		}
	}
	return bytes
}
