package remote

import (
	"context"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/remote/internal/link"
	"github.com/troupe-run/troupe/remote/internal/membership"
)

// ways takes the mail of programs' actors over the node's links.
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
	p, err := w.node.links.Ensure(ctx, task)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Watch tells of lost tasks as long as the links live.
func (w ways) Watch(down func(task string, err error)) { w.node.links.Watch(down) }

// programs gives what others send to the program's actors to the cast, once it is there.
type programs struct{ node *Node }

var _ link.Programs = programs{}

// Receive takes messages of a task.
func (p programs) Receive(task string, boot uint64, letters []cast.Letter) {
	if c := p.node.performing.Load(); c != nil {
		c.Receive(task, boot, letters)
	}
}

// ReceiveOutside takes messages of a process outside the cluster.
func (p programs) ReceiveOutside(ctx context.Context, address string, letters []cast.Letter) {
	if c := p.node.performing.Load(); c != nil {
		c.ReceiveOutside(ctx, address, letters)
	}
}

// newCast makes the program's actors' place on this task. A guest has none: programs know the clusters
// that they are started for.
func (n *Node) newCast() *cast.Cast {
	kinds := n.config.Actors
	if n.config.lent != nil {
		kinds = nil
	}
	return cast.New(cast.Config{System: n.port.System(), Self: n.self.Name(), Tasks: n.taskNames(), Boot: n.boot, Transport: ways{n},
		Kinds: kinds, Present: n.present, Outsiders: n.config.Outsiders, Address: n.self.Address, Refused: n.links.RefuseSystem, Log: n.log})
}

func (n *Node) taskNames() []string {
	var names []string
	for _, t := range n.spec.Tasks() {
		names = append(names, t.Name())
	}
	return names
}

// present is what is known of the tasks that were seen; while the node starts those are none.
func (n *Node) present() []cast.TaskChange {
	var all []cast.TaskChange
	gossip := n.gossiping.Load()
	if gossip == nil {
		return nil
	}
	for _, m := range gossip.View() {
		if m.Health != membership.NeverSeen {
			all = append(all, taskChange(n.gossipStatus(m)))
		}
	}
	return all
}

func taskChange(s TaskStatus) cast.TaskChange { return cast.TaskChange{Task: s.Task, What: s} }

// Cast is the place of the program's actors.
func (n *Node) Cast() *cast.Cast { return n.cast }
