// Package restore brings back the resources that a task has kept on disk.
package restore

import (
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/containers/table"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/philox"
	"github.com/troupe-run/troupe/queues"
)

// Resource puts what cell holds back into the containers of its device, with its tensors in memory. It must be called before the device is
// used. Damage is DATA_LOSS.
func Resource(containersOf *containers.Manager, memory *tensor.Pool, cell *durable.Cell, at durable.Place, about []byte) error {
	r, err := Decode(containersOf, memory, cell, at, about)
	if err != nil {
		return status.Errorf(status.CodeOf(err), "the %s %s of the container %s cannot be restored: %v", at.Kind, at.Name, at.Container, err)
	}
	return containersOf.Restore(cell, at.Container, at.Kind, at.Name, r)
}

// Decode returns the resource that cell holds, with its tensors in memory, as a resource of m. Damage is DATA_LOSS.
func Decode(m *containers.Manager, memory *tensor.Pool, cell *durable.Cell, at durable.Place, about []byte) (containers.Resource, error) {
	switch at.Kind {
	case kernels.KindVariable, kernels.KindRefVariable:
		return m.RestoreVariable(cell, at.Container, about, memory)
	case table.ResourceKind:
		return table.Restore(cell, about, memory)
	case kernels.KindQueue:
		return queues.Restore(m.System(), cell, about, memory, philox.Numbers)
	}
	return nil, status.Errorf(status.FailedPrecondition, "this version of Troupe does not know resources of kind %s: a later one has written it", at.Kind)
}
