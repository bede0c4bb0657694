package link

import (
	"fmt"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
)

// watches are the actors of a task that actors of this one watch. Each watcher is told when the link
// with the task breaks; who is told of an end by the task itself is forgotten.
type watches struct {
	mu  sync.Mutex
	all map[watched]struct{}
}

// watched names a watcher of this task and the actor that it watches.
type watched struct{ watcher, watchee string }

func (w *watches) add(watcher, watchee *actor.PID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[watched]struct{}{}
	}
	w.all[watched{watcher.GetId(), watchee.Id}] = struct{}{}
}

// remove forgets a watch, and tells whether there was one.
func (w *watches) remove(watcher, watchee *actor.PID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := watched{watcher.GetId(), watchee.GetId()}
	_, there := w.all[key]
	delete(w.all, key)
	return there
}

func (w *watches) none() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all) == 0
}

// take gives all watches, and forgets them.
func (w *watches) take() map[watched]struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return all
}

// hearSystem takes a message about watching that k's task has sent.
func (k *link) hearSystem(target *actor.PID, message actor.SystemMessage) {
	system := k.links.config.System
	var watcher *actor.PID
	switch m := message.(type) {
	case *actor.Terminated:
		if k.watches.remove(target, m.GetWho()) {
			tellWatcher(system, target.Id, m.GetWho(), m.GetWhy())
		}
		return
	case *actor.Watch:
		watcher = m.GetWatcher()
	case *actor.Unwatch:
		watcher = m.GetWatcher()
	}
	if watcher.GetAddress() != k.task.Address {
		k.links.refuseSystem(target.Id, typeName(message), k.task.Name())
		return
	}
	// Where the actor is not, dead letters answer a watch with Terminated.
	process, _ := system.ProcessRegistry.GetLocal(target.Id)
	process.SendSystemMessage(target, message)
}

// unwatched tells the watchers of the task's actors that it is out of reach.
func (k *link) unwatched() {
	for w := range k.watches.take() {
		tellWatcher(k.links.config.System, w.watcher, actor.NewPID(k.task.Address, w.watchee), actor.TerminatedReason_AddressTerminated)
	}
}

func tellWatcher(system *actor.ActorSystem, watcher string, who *actor.PID, why actor.TerminatedReason) {
	if process, there := system.ProcessRegistry.GetLocal(watcher); there {
		process.SendSystemMessage(system.NewLocalPID(watcher), &actor.Terminated{Who: who, Why: why})
	}
}

// typeName is a message's type, for the log.
func typeName(message any) string {
	if m, ok := message.(proto.Message); ok {
		return string(m.ProtoReflect().Descriptor().FullName())
	}
	return fmt.Sprintf("%T", message)
}
