package iterator

import (
	"github.com/troupe-run/troupe/internal/view"
)

// Show adds the stages of the iterator's pipeline to a listing, and the memory that they hold.
func (r *Resource) Show(v *view.Resource) {
	stages := r.Stages()
	depths := make([]int64, len(stages))
	for i, s := range stages {
		if s.Parent >= 0 {
			depths[i] = depths[s.Parent] + 1
		}
		v.Bytes += s.Bytes
		v.Stages = append(v.Stages, &view.Stage{Name: s.Name, Node: s.Node, Depth: depths[i], Elements: s.Elements, Parallelism: s.Parallelism, Running: s.Running,
			Buffered: s.Buffered, Buffer: s.BufferSize, WaitedForInput: s.ConsumerWait.Nanoseconds(), WaitedForOutput: s.ProducerWait.Nanoseconds(),
			Bytes: s.Bytes, Tuned: s.Tuned})
	}
}
