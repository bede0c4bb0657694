package actors

import (
	"time"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/containers/table"
	"github.com/troupe-run/troupe/kernels"
)

// homeKind returns the kind in a home of a resource with that kind in its container, or "" if such resources can neither be durable nor move.
func homeKind(kind string) string { return homeKinds[kind] }

// kindOfHome is the reverse of homeKind.
func kindOfHome(home string) string {
	for kind, h := range homeKinds {
		if h == home {
			return kind
		}
	}
	return ""
}

// homeKinds maps the kinds of restore.Kinds, in a container, to their kinds in a home: see place.Resource.
var homeKinds = map[string]string{kernels.KindVariable: "VarHandleOp", kernels.KindRefVariable: "Variable", kernels.KindQueue: "Queue", table.ResourceKind: "Table", kernels.KindBarrier: "Barrier",
	kernels.KindAccumulator: "Accumulator", kernels.KindBuffer: "Stage", kernels.KindMap: "MapStage", kernels.KindOrderedMap: "OrderedMapStage"}

// noteRestored tells the task's directory of the durable resources that an earlier process has left: their homes are here.
func (t *Task) noteRestored() error {
	note := &wire.Note{}
	for _, d := range t.Devices {
		list, err := d.Resources().List()
		if err != nil {
			return err
		}
		for _, e := range list {
			kind := homeKind(e.Kind)
			if kind == "" || !d.Resources().IsDurable(e.Container) {
				continue
			}
			container := e.Container
			if container == d.Resources().DefaultContainer() {
				container = ""
			}
			note.Resources = append(note.Resources, &wire.Resource{Container: container, Kind: kind, Name: e.Name, Device: d.Name(), Claimer: t.name})
		}
	}
	if len(note.Resources) > 0 {
		t.directory.Send(note)
	}
	return nil
}

// keep finishes the part when what it has done to durable resources is on disk, so that nothing of a step that is answered can be lost.
// A part that fails keeps its changes, too: they are in memory.
func (st *stepPart) keep(err error) {
	if st.Changes == nil {
		st.finish(err)
	} else {
		st.keepChanges(err)
	}
}

func (st *stepPart) keepChanges(err error) {
	waits := st.Changes.Changed()
	if waits {
		st.keeping.Store(time.Now().UnixNano())
	}
	st.Changes.End(func(lost error) {
		st.keeping.Store(0)
		if err == nil && lost != nil {
			err = lost
		}
		if !waits {
			st.finish(err)
			return
		}
		st.task.pool.Schedule(func() { st.finish(err) })
	})
}
