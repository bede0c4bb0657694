package actors

import (
	"cmp"
	"context"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// maxHandedOver bounds the bytes of the variables that a leaving task hands over to one other task.
const maxHandedOver = 32 << 20

// variableKinds maps the kind of a variable in a home, its op, to its kind in a container.
var variableKinds = map[string]string{"Variable": kernels.KindRefVariable, "VarHandleOp": kernels.KindVariable}

// handOver moves the variables that have their home on this task, but not by a client's choice, to other tasks, with their values: the task
// leaves, and other sessions may need them. Its other resources get new homes and lose their contents.
func (t *Task) handOver(ctx context.Context) {
	if slices.Contains(t.stable(), t.name) {
		return // it comes back, or its cluster ends with it
	}
	parcels := map[string]*wire.Parcel{}
	bytes := map[string]int64{}
	for _, r := range t.shared.all() {
		to := t.successor(r)
		value := t.valueOf(r)
		if value == nil {
			t.logLost(r)
			continue
		}
		size := int64(value.ByteSize())
		if to == "" || bytes[to]+size > maxHandedOver {
			value.Release()
			if to != "" {
				t.Log.Warn("a variable that other sessions share is lost with this task: it is too large to be handed over", "variable", r.Name, "bytes", size, "limit", maxHandedOver)
			}
			continue
		}
		if parcels[to] == nil {
			parcels[to] = &wire.Parcel{Message: &wire.Adopt{}}
		}
		p := parcels[to]
		m := p.Message.(*wire.Adopt)
		m.Resources = append(m.Resources, r)
		p.Tensors = append(p.Tensors, value)
		bytes[to] += size
	}
	err := parallel(ctx, sortedKeys(parcels), func(ctx context.Context, to string) error {
		all := parcels[to].Message.(*wire.Adopt).Resources
		homes, err := ask[*wire.Homes](ctx, t, to, workerName, parcels[to])
		if err == nil {
			err = failed(homes.Failure)
		}
		if err != nil {
			t.Log.Warn("variables that other sessions share are lost with this task: they could not be handed over", "to", to, "variables", len(all), "error", err)
			return nil
		}
		t.Log.Info("variables that other sessions share were handed over", "to", to, "variables", len(homes.Resources))
		note := &wire.Note{Resources: homes.Resources}
		at := map[string]*wire.Note{}
		for _, task := range t.Cluster.Tasks() {
			if task != t.name {
				at[task] = note
			}
		}
		t.noteTo(at)
		return nil
	})
	if err != nil {
		t.Log.Warn("variables were not handed over", "error", err)
	}
}

// logLost logs that a resource other than a variable's value is lost with this task, if it is here and is not durable.
func (t *Task) logLost(r *wire.Resource) {
	for _, d := range t.Devices {
		if d.Name() != r.Device || d.Resources().IsDurable(r.Container) {
			continue
		}
		for kind, home := range durableKinds {
			if home != r.Kind {
				continue
			}
			if found, err := d.Resources().Lookup(r.Container, kind, r.Name); err == nil {
				t.Log.Warn("a resource that other sessions share is lost with this task: only variables are handed over", "kind", r.Kind, "name", r.Name, "holds", containers.Describe(found))
			}
		}
	}
}

// successor returns the task that a resource moves to: the first in its name's order that is up; "" if there is none.
func (t *Task) successor(r *wire.Resource) string {
	return place.First(t.Cluster.Tasks(), r.Container, r.Name, func(task string) bool {
		return task != t.name && !t.Cluster.Down(task) && t.Cluster.Known(task) != nil
	})
}

// valueOf returns the value of a variable in host memory that lives on this task, with a reference for the caller; nil if there is none.
func (t *Task) valueOf(r *wire.Resource) *tensor.Tensor {
	kind := variableKinds[r.Kind]
	for _, d := range t.Devices {
		if d.Name() != r.Device || d.Type() != "CPU" || kind == "" || d.Resources().IsDurable(r.Container) {
			continue // what is durable stays with its disk
		}
		found, err := d.Resources().Lookup(r.Container, kind, r.Name)
		if v, ok := found.(*containers.Variable); err == nil && ok {
			return v.Read()
		}
	}
	return nil
}

// adopt takes over the variables of a leaving task, except those that exist here already, and answers with their homes.
func (w *worker) adopt(m *wire.Adopt, values []*tensor.Tensor, sender *actor.PID) {
	t := w.task
	device := t.Devices[0]
	homes := &wire.Homes{}
	if len(m.Resources) != len(values) {
		homes.Failure = failure(status.InvalidArgumentf("%d variables came with %d values", len(m.Resources), len(values)))
		m = &wire.Adopt{}
	}
	for i, r := range m.Resources {
		kind, value := variableKinds[r.Kind], values[i]
		values[i] = nil
		if kind == "" {
			value.Release()
			continue
		}
		made := false
		found, err := device.Resources().LookupOrCreate(r.Container, kind, r.Name, func() (containers.Resource, error) {
			made = true
			v := containers.NewVariable(r.Name, value.DType())
			v.Assign(value)
			return v, nil
		})
		if !made {
			value.Release()
		}
		if _, ok := found.(*containers.Variable); err != nil || !ok {
			homes.Failure = cmp.Or(homes.Failure, failure(cmp.Or(err, status.Internalf("%s is not a variable", r.Name))))
			continue
		}
		homes.Resources = append(homes.Resources, &wire.Resource{Container: r.Container, Kind: r.Kind, Name: r.Name, Device: device.Name(), Claimer: r.Claimer})
	}
	for _, v := range values {
		if v != nil {
			v.Release()
		}
	}
	t.directory.Send(&wire.Note{Resources: homes.Resources})
	t.System.Root.Send(sender, homes)
}
