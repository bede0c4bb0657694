package port

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"
)

// registryMaps is in how many maps, each with its own locks, a system keeps its actors.
const registryMaps = 8

// shrinkRegistry makes a new system's registry small: the library makes 1024 concurrent maps for the
// actors, which take 2.8 MiB before there is one. Nothing must use the system yet.
func shrinkRegistry(system *actor.ActorSystem) {
	registry := system.ProcessRegistry
	all := registry.LocalPIDs.LocalPIDs
	if len(all) <= registryMaps {
		return
	}
	few := &actor.SliceMap{LocalPIDs: slices.Clone(all[:registryMaps])}
	for _, m := range all {
		if m.Count() == 0 {
			continue
		}
		for id, process := range m.Items() {
			m.Remove(id)
			few.GetBucket(id).Set(id, process)
		}
	}
	registry.LocalPIDs = few
}
