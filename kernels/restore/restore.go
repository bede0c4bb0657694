// Package restore brings back the resources that a task has kept on disk, or that another task has sent.
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

// Decode returns the resource whose state from has, with its tensors in memory, as a resource of m. If from is a cell, the resource is durable.
// Damage is DATA_LOSS.
func Decode(m *containers.Manager, memory *tensor.Pool, from durable.Source, at durable.Place, about []byte) (containers.Resource, error) {
	decode, known := decoders[at.Kind]
	if !known {
		return nil, status.Errorf(status.FailedPrecondition, "this version of Troupe does not know resources of kind %s: a later one has written it", at.Kind)
	}
	return decode(m, memory, from, at, about)
}

// Kinds returns the sorted kinds of resources that can be durable, or move to another task.
func Kinds() []string { return slices.Sorted(maps.Keys(decoders)) }

type decoder func(m *containers.Manager, memory *tensor.Pool, from durable.Source, at durable.Place, about []byte) (containers.Resource, error)

var decoders = map[string]decoder{
	kernels.KindVariable:    variable,
	kernels.KindRefVariable: variable,
	kernels.KindQueue: func(m *containers.Manager, memory *tensor.Pool, from durable.Source, _ durable.Place, about []byte) (containers.Resource, error) {
		return queues.Restore(m.System(), from, about, memory, philox.Numbers)
	},
	kernels.KindAccumulator: plain(func(from durable.Source, about []byte, memory *tensor.Pool) (*accumulator.Accumulator, error) {
		return accumulator.Restore(from, about, memory, update.Arithmetic)
	}),
	kernels.KindBarrier:    plain(barrier.Restore),
	kernels.KindBuffer:     plain(staging.RestoreBuffer),
	kernels.KindMap:        plain(staging.RestoreMap),
	kernels.KindOrderedMap: plain(staging.RestoreMap),
	table.ResourceKind:     plain(table.Restore),
}

func variable(m *containers.Manager, memory *tensor.Pool, from durable.Source, at durable.Place, about []byte) (containers.Resource, error) {
	return m.RestoreVariable(from, at.Container, about, memory)
}

// plain adapts a function that needs no more than the resource's state.
func plain[R containers.Resource](restore func(durable.Source, []byte, *tensor.Pool) (R, error)) decoder {
	return func(_ *containers.Manager, memory *tensor.Pool, from durable.Source, _ durable.Place, about []byte) (containers.Resource, error) {
		r, err := restore(from, about, memory)
		if err != nil {
			return nil, err
		}
		return r, nil
	}
}
