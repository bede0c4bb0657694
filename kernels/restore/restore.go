// Package restore brings back the resources that a task has kept on disk.
package restore

import (
	"maps"
	"slices"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/containers/accumulator"
	"github.com/troupe-run/troupe/containers/barrier"
	"github.com/troupe-run/troupe/containers/staging"
	"github.com/troupe-run/troupe/containers/table"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/philox"
	"github.com/troupe-run/troupe/kernels/internal/update"
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
	decode, known := decoders[at.Kind]
	if !known {
		return nil, status.Errorf(status.FailedPrecondition, "this version of Troupe does not know resources of kind %s: a later one has written it", at.Kind)
	}
	return decode(m, memory, cell, at, about)
}

// Kinds returns the sorted kinds of resources that can be durable.
func Kinds() []string { return slices.Sorted(maps.Keys(decoders)) }

type decoder func(m *containers.Manager, memory *tensor.Pool, cell *durable.Cell, at durable.Place, about []byte) (containers.Resource, error)

var decoders = map[string]decoder{
	kernels.KindVariable:    variable,
	kernels.KindRefVariable: variable,
	kernels.KindQueue: func(m *containers.Manager, memory *tensor.Pool, cell *durable.Cell, _ durable.Place, about []byte) (containers.Resource, error) {
		return queues.Restore(m.System(), cell, about, memory, philox.Numbers)
	},
	kernels.KindAccumulator: plain(func(cell *durable.Cell, about []byte, memory *tensor.Pool) (*accumulator.Accumulator, error) {
		return accumulator.Restore(cell, about, memory, update.Arithmetic)
	}),
	kernels.KindBarrier:    plain(barrier.Restore),
	kernels.KindBuffer:     plain(staging.RestoreBuffer),
	kernels.KindMap:        plain(staging.RestoreMap),
	kernels.KindOrderedMap: plain(staging.RestoreMap),
	table.ResourceKind:     plain(table.Restore),
}

func variable(m *containers.Manager, memory *tensor.Pool, cell *durable.Cell, at durable.Place, about []byte) (containers.Resource, error) {
	return m.RestoreVariable(cell, at.Container, about, memory)
}

// plain adapts a function that needs no more than what is on disk.
func plain[R containers.Resource](restore func(*durable.Cell, []byte, *tensor.Pool) (R, error)) decoder {
	return func(_ *containers.Manager, memory *tensor.Pool, cell *durable.Cell, _ durable.Place, about []byte) (containers.Resource, error) {
		r, err := restore(cell, about, memory)
		if err != nil {
			return nil, err
		}
		return r, nil
	}
}
