package member

import (
	"context"

	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/actorservice/actorspb"
	"github.com/troupe-run/troupe/remote/internal/caller"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// Admissions are methods that clients call, with the actions of which a caller must be allowed one: others are refused before anything of
// their request is decoded, which may take long and much memory. What the request is about is judged where it is resolved. The first action is
// the one that a refusal names.
type Admissions map[string][]access.Action

// Add adds methods of a service.
func (a Admissions) Add(service string, methods []string, actions ...access.Action) {
	for _, m := range methods {
		a[service+m] = actions
	}
}

// admissions are those of the methods that every member serves.
func admissions() Admissions {
	all := Admissions{}
	all.Add("", []string{wire.OperatorStatus, wire.OperatorListActors, wire.OperatorSee, wire.OperatorGraph, wire.OperatorTrace}, access.ListState)
	all.Add("", []string{wire.OperatorCancelStep}, access.CancelSteps, access.OpenSessions)
	all.Add("", []string{wire.OperatorDrain}, access.DrainTasks)
	all.Add("", []string{actorspb.Ask, actorspb.Send, actorspb.Spawn, actorspb.End, actorspb.Publish, actorspb.Watch}, access.UseActors)
	return all
}

// Admissions returns those of the task's methods.
func (m *Member) Admissions() Admissions { return m.admissions }

// admitCall rejects a call by a client that may do nothing of what the method is for. Tasks of the cluster are judged by the methods.
func (m *Member) admitCall(ctx context.Context, method string) error {
	actions := m.admissions[method]
	if m.config.Guard == nil || len(actions) == 0 {
		return nil
	}
	who, err := caller.Of(ctx, m.config.Guard)
	if err != nil {
		return wire.ToGRPC(err)
	}
	if who.IsTask() {
		return nil
	}
	for _, a := range actions {
		if who.Rights().May(a) == nil {
			return nil
		}
	}
	return wire.ToGRPC(who.May(actions[0]))
}
