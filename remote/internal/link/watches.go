package link

import (
	"fmt"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
)

// watches are the actors of another task that actors of this one watch. Each watcher is notified when the link
// with the task breaks. A watch is removed when the task itself reports the actor's end.
type watches struct {
	mu  sync.Mutex
	all map[watched]struct{}
}

// watched identifies a watcher of this task and the actor that it watches.
type watched struct{ watcher, watchee string }

func (w *watches) add(watcher, watchee *actor.PID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[watched]struct{}{}
	}
	w.all[watched{watcher.GetId(), watchee.Id}] = struct{}{}
}

// remove removes a watch, and reports whether there was one.
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

// drain removes and returns all watches.
func (w *watches) drain() map[watched]struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return all
}

// hearSystem handles a message about watching that k's task has sent.
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
	// If the actor does not exist, dead letters answer a watch with Terminated.
	process, _ := system.ProcessRegistry.GetLocal(target.Id)
	process.SendSystemMessage(target, message)
}

// unwatched notifies the watchers of the task's actors that it cannot be reached.
func (k *link) unwatched() {
	for w := range k.watches.drain() {
		tellWatcher(k.links.config.System, w.watcher, actor.NewPID(k.task.Address, w.watchee), actor.TerminatedReason_AddressTerminated)
	}
}

func tellWatcher(system *actor.ActorSystem, watcher string, who *actor.PID, why actor.TerminatedReason) {
	if process, there := system.ProcessRegistry.GetLocal(watcher); there {
		process.SendSystemMessage(system.NewLocalPID(watcher), &actor.Terminated{Who: who, Why: why})
	}
}

// typeName returns a message's type, for the log.
func typeName(message any) string {
	if m, ok := message.(proto.Message); ok {
		return string(m.ProtoReflect().Descriptor().FullName())
	}
	return fmt.Sprintf("%T", message)
}
