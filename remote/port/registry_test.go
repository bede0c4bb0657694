package port

import (
	"fmt"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
)

// Actors from before and after the registry was made smaller are found, and those that stop are not.
func TestShrinkRegistry(t *testing.T) {
	system := actor.NewActorSystem()
	defer system.Shutdown()
	idle := actor.PropsFromFunc(func(actor.Context) {})
	const actors = 100
	var pids []*actor.PID
	spawn := func() {
		for range actors {
			pid, err := system.Root.SpawnNamed(idle, fmt.Sprintf("actor/%d", len(pids)))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	spawn()
	shrinkRegistry(system)
	spawn()
	shrinkRegistry(system)
	if n := len(system.ProcessRegistry.LocalPIDs.LocalPIDs); n != registryMaps {
		t.Errorf("the registry has %d maps", n)
	}
	for _, pid := range pids {
		if _, ok := system.ProcessRegistry.Get(pid); !ok {
			t.Errorf("%s is not found", pid.Id)
		}
		if err := system.Root.StopFuture(pid).Wait(); err != nil {
			t.Errorf("%s does not stop: %v", pid.Id, err)
		}
		if _, ok := system.ProcessRegistry.Get(pid); ok {
			t.Errorf("%s is found after its end", pid.Id)
		}
	}
	fresh := actor.NewActorSystem()
	defer fresh.Shutdown()
	shrinkRegistry(fresh)
	if held, own := entries(system), entries(fresh); held != own {
		t.Errorf("it holds %d entries, a new system %d", held, own)
	}
}

func entries(system *actor.ActorSystem) (n int) {
	for _, m := range system.ProcessRegistry.LocalPIDs.LocalPIDs {
		n += m.Count()
	}
	return n
}
