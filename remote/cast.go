package remote

import (
	"context"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/internal/link"
	"github.com/troupe-run/troupe/remote/internal/membership"
	"github.com/troupe-run/troupe/remote/internal/tracing"
)

// ways carries messages between programs' actors over the node's links.
type ways struct{ node *Node }

var _ cast.Transport = ways{}

// Reach opens the link to a task, or a connection to a process outside the cluster.
func (w ways) Reach(ctx context.Context, task string) (cast.Way, error) {
	if cast.Outside(task) {
		o, err := w.node.links.Outside(ctx, task)
		if err != nil {
			return nil, err
		}
		return o, nil
	}
	return w.node.links.Reach(view.Await(ctx, "messages of the program's actors"), task)
}

// Watch reports lost tasks for as long as the links live.
func (w ways) Watch(down func(task string, err error)) { w.node.links.Watch(down) }

// Break breaks the links that a task has opened.
func (w ways) Break(task, why string) { w.node.links.Break(task, why) }

// programs passes messages for the program's actors to the cast once the cast exists.
type programs struct{ node *Node }

var _ link.Programs = programs{}

// Receive takes messages from a task.
func (p programs) Receive(task string, boot uint64, letters []cast.Letter) {
	if c := p.node.performing.Load(); c != nil {
		c.Receive(task, boot, letters)
	}
}

// ReceiveOutside takes messages from a process outside the cluster.
func (p programs) ReceiveOutside(ctx context.Context, address string, letters []cast.Letter) {
	if c := p.node.performing.Load(); c != nil {
		c.ReceiveOutside(ctx, address, letters)
	}
}

// newCast creates the place of the program's actors on this task. A guest gets no actor kinds: programs know only the clusters that they
// are started for.
func (n *Node) newCast() *cast.Cast {
	kinds := n.config.Actors
	if n.config.lent != nil {
		kinds = nil
	}
	find := func(ctx context.Context, task string) error { return n.find(ctx, task, true) }
	return cast.New(cast.Config{System: n.port.System(), Self: n.self.Name(), Tasks: n.taskNames(), Boot: n.boot, Transport: ways{n},
		Kinds: kinds, MaxActors: n.config.ActorLimit, Present: n.present, Find: find, Watched: n.presence.watch, Outsiders: n.config.Outsiders, Address: n.self.Address, Refused: n.links.RefuseSystem,
		Tracer: tracing.Messages(n.config.Traces), Panicked: n.actorPanicked, Log: n.log})
}

// actorPanicked records an event for a panic of one of the program's actors.
func (n *Node) actorPanicked(name, kind string, err error) {
	n.events.AddSome("actor panicked", name, cast.KindPrefix+kind+": "+view.Line(err.Error()))
}

func (n *Node) taskNames() []string {
	var names []string
	for _, t := range n.spec.Tasks() {
		names = append(names, t.Name())
	}
	return names
}

// present returns what is known of the tasks that have been seen; none while the node starts.
func (n *Node) present() []cast.TaskChange {
	var all []cast.TaskChange
	for _, s := range n.Status() {
		if s.State != membership.NeverSeen.String() {
			all = append(all, cast.TaskChange{Task: s.Task, Up: s.State == stateUp, Boot: s.Boot, What: s})
		}
	}
	return all
}

// Cast returns the place of the program's actors.
func (n *Node) Cast() *cast.Cast { return n.cast }
