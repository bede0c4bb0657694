package devices

import (
	"time"

	"github.com/troupe-run/troupe/kernels"
)

// execution describes a kernel of the run that has run.
func (r *run) execution(t task, began, ended time.Time, size int64) kernels.Execution {
	return kernels.Execution{Step: r.step.ID, Node: t.n.graph, Device: r.p.device.Name(), Rights: r.p.device.Rights(), Began: began, Ended: ended,
		Tag: kernels.Tag{Frame: t.it.frame.tag, Iter: t.it.num}, Bytes: size}
}

// bytesOf returns the size of tensors. The contents of variables are not counted.
func bytesOf(values []kernels.Value) (size int64) {
	for i := range values {
		if t := values[i].Tensor; t != nil {
			size += int64(t.ByteSize())
		}
	}
	return size
}
