package actors

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	allocpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/allocation_description_go_proto"
	steppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/step_stats_go_proto"
	descpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_description_go_proto"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/kernels"
)

// allocatorName is TensorFlow's name for the allocator of host memory.
const allocatorName = "cpu"

// trace makes the step record when its kernels ran and what they produced.
func (st *stepPart) trace() {
	st.stats = &stepStats{devices: map[string]*steppb.DeviceStepStats{}}
	st.Tracer = st.stats
}

// stepStats collects the StepStats of a step's RunMetadata.
type stepStats struct {
	mu      sync.Mutex // guards devices: kernels record on the goroutines that run them
	devices map[string]*steppb.DeviceStepStats
}

// Ran records a kernel.
func (s *stepStats) Ran(n *graph.Node, device string, outputs []kernels.Value, begun, ended time.Time) {
	took := ended.Sub(begun)
	ns := &steppb.NodeExecStats{
		NodeName: n.Name, TimelineLabel: timelineLabel(n),
		AllStartMicros: begun.UnixMicro(), OpEndRelMicros: took.Microseconds(), AllEndRelMicros: took.Microseconds(),
		AllStartNanos: begun.UnixNano(), OpEndRelNanos: took.Nanoseconds(), AllEndRelNanos: took.Nanoseconds(),
		ScheduledMicros: begun.UnixMicro(), ScheduledNanos: begun.UnixNano(),
	}
	made := int64(0)
	for i, v := range outputs {
		t := v.Tensor
		if v.Ref != nil {
			if t = v.Ref.Read(); t != nil {
				defer t.Release()
			}
		}
		if t == nil {
			continue
		}
		size := int64(t.ByteSize())
		if v.Ref == nil && t.Exclusive() { // a tensor that was only passed on has other holders
			made += size
		}
		ns.Output = append(ns.Output, &steppb.NodeOutput{Slot: int32(i), TensorDescription: &descpb.TensorDescription{
			Dtype: t.DType().Proto(), Shape: t.Shape().Proto(),
			AllocationDescription: &allocpb.AllocationDescription{RequestedBytes: size, AllocatedBytes: size, AllocatorName: allocatorName},
		}})
	}
	if made > 0 {
		ns.Memory = []*steppb.AllocatorMemoryUsed{{AllocatorName: allocatorName, TotalBytes: made, PeakBytes: made}}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.devices[device]
	if d == nil {
		d = &steppb.DeviceStepStats{Device: device}
		s.devices[device] = d
	}
	d.NodeStats = append(d.NodeStats, ns)
}

// timelineLabel returns a node in the form that TensorFlow's timeline parses: "name = op(input, input)"; for a transfer, the edge and the
// device at its other end are in place of the inputs.
func timelineLabel(n *graph.Node) string {
	var b strings.Builder
	b.WriteString(n.Name + " = " + n.Op + "(")
	if edge, ok := n.Attrs["tensor_name"]; ok && (n.Op == "_Send" || n.Op == "_HostSend") {
		b.WriteString(string(edge.GetS()) + " @" + string(n.Attrs["recv_device"].GetS()))
	} else if ok && (n.Op == "_Recv" || n.Op == "_HostRecv") {
		b.WriteString(string(edge.GetS()) + " @" + string(n.Attrs["send_device"].GetS()))
	} else {
		separator := ""
		for _, in := range n.Inputs {
			b.WriteString(separator + in.Node.Name)
			if in.Index > 0 {
				b.WriteString(":" + strconv.Itoa(in.Index))
			}
			separator = ", "
		}
		for _, c := range n.Controls {
			b.WriteString(separator + "^" + c.Name)
			separator = ", "
		}
	}
	b.WriteString(")")
	return b.String()
}

// proto returns what was collected, in the order of the devices' names and of the times at which nodes began.
func (s *stepStats) proto() *steppb.StepStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &steppb.StepStats{}
	for _, d := range s.devices {
		slices.SortStableFunc(d.NodeStats, func(a, b *steppb.NodeExecStats) int { return cmp.Compare(a.AllStartNanos, b.AllStartNanos) })
		out.DevStats = append(out.DevStats, d)
	}
	slices.SortFunc(out.DevStats, func(a, b *steppb.DeviceStepStats) int { return cmp.Compare(a.Device, b.Device) })
	return out
}
