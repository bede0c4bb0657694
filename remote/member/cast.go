package member

import (
	"context"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/internal/link"
	"github.com/troupe-run/troupe/remote/internal/membership"
	"github.com/troupe-run/troupe/remote/internal/spans"
)

// ways carries messages between programs' actors over the member's links.
type ways struct{ member *Member }

var _ cast.Transport = ways{}

// Reach opens the link to a task, or a connection to a process outside the cluster.
func (w ways) Reach(ctx context.Context, task string) (cast.Way, error) {
	if cast.Outside(task) {
		o, err := w.member.links.Outside(ctx, task)
		if err != nil {
			return nil, err
		}
		return o, nil
	}
	return w.member.links.Reach(view.Await(ctx, "messages of the program's actors"), task)
}

// Watch reports lost tasks for as long as the links live.
func (w ways) Watch(down func(task string, err error)) { w.member.links.Watch(down) }

// Break breaks the links that a task has opened.
func (w ways) Break(task, why string) { w.member.links.Break(task, why) }

// programs passes messages for the program's actors to the cast once the cast exists.
type programs struct{ member *Member }

var _ link.Programs = programs{}

// Receive takes messages from a task.
func (p programs) Receive(task string, boot uint64, letters []cast.Letter) {
	if c := p.member.performing.Load(); c != nil {
		c.Receive(task, boot, letters)
	}
}

// ReceiveOutside takes messages from a process outside the cluster.
func (p programs) ReceiveOutside(ctx context.Context, address string, letters []cast.Letter) {
	if c := p.member.performing.Load(); c != nil {
		c.ReceiveOutside(ctx, address, letters)
	}
}

// newCast creates the place of the program's actors on this task. A guest gets no actor kinds: programs know only the clusters that they
// are started for.
func (m *Member) newCast() *cast.Cast {
	kinds := m.config.Actors
	if m.config.Guest {
		kinds = nil
	}
	find := func(ctx context.Context, task string) error { return m.Find(ctx, task, true) }
	return cast.New(cast.Config{System: m.port.System(), Self: m.self.Name(), Tasks: m.taskNames(), Boot: m.boot, Transport: ways{m},
		Kinds: kinds, MaxActors: m.config.ActorLimit, Present: m.present, Find: find, Watched: m.presence.watch, Outsiders: m.config.Outsiders, Address: m.self.Address, Refused: m.links.RefuseSystem,
		Tracer: spans.Messages(m.config.Traces), Panicked: m.actorPanicked, Log: m.log})
}

// actorPanicked records an event for a panic of one of the program's actors.
func (m *Member) actorPanicked(name, kind string, err error) {
	m.events.AddSome("actor panicked", name, cast.KindPrefix+kind+": "+view.Line(err.Error()))
}

func (m *Member) taskNames() []string {
	var names []string
	for _, t := range m.spec.Tasks() {
		names = append(names, t.Name())
	}
	return names
}

// present returns what is known of the tasks that have been seen; none while the member starts.
func (m *Member) present() []cast.TaskChange {
	var all []cast.TaskChange
	for _, s := range m.Status() {
		if s.State != membership.NeverSeen.String() {
			all = append(all, cast.TaskChange{Task: s.Task, Up: s.State == stateUp, Boot: s.Boot, What: s})
		}
	}
	return all
}
