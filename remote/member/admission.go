package member

import (
	"context"

	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/actorservice/actorspb"
	"github.com/troupe-run/troupe/remote/internal/caller"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// admissions are the methods that clients call, with the actions of which a caller must be allowed one: others are refused before anything of
// their request is decoded, which may take long and much memory. What the request is about is judged where it is resolved. The first action is
// the one that a refusal names.
var admissions = func() map[string][]access.Action {
	all := map[string][]access.Action{}
	add := func(service string, methods []string, actions ...access.Action) {
		for _, m := range methods {
			all[service+m] = actions
		}
	}
	const master, contexts, worker = "/tensorflow.MasterService/", "/tensorflow.eager.EagerService/", "/tensorflow.WorkerService/"
	add(master, []string{"CreateSession"}, access.OpenSessions)
	add(master, []string{"ExtendSession", "PartialRunSetup", "RunStep", "CloseSession", "MakeCallable", "RunCallable", "ReleaseCallable"}, access.OpenSessions, access.OtherSessions)
	add(master, []string{"ListDevices"}, access.ListState, access.OpenSessions, access.OtherSessions)
	add(master, []string{"Reset"}, access.ResetCluster)
	add(contexts, []string{"CreateContext"}, access.OpenSessions)
	add(contexts, []string{"UpdateContext", "Enqueue", "StreamingEnqueue", "WaitQueueDone", "RunComponentFunction", "KeepAlive", "CloseContext"}, access.OpenSessions, access.OtherSessions)
	add(worker, []string{"GetStatus"}, access.ListState, access.OpenSessions)
	add(worker, []string{"RecvTensor", "MarkRecvFinished"}, access.OpenSessions)
	add("/tensorflow.CoordinationService/", []string{"RegisterTask", "Heartbeat", "GetTaskState", "ResetTask", "ShutdownTask"}, access.OpenSessions)
	add("", []string{wire.OperatorStatus, wire.OperatorListActors, wire.OperatorSee, wire.OperatorGraph, wire.OperatorTrace}, access.ListState)
	add("", []string{wire.OperatorCancelStep}, access.CancelSteps, access.OpenSessions)
	add("", []string{wire.OperatorDrain}, access.DrainTasks)
	add("/tensorflow.ProfilerService/", []string{"Profile", "Terminate", "Monitor"}, access.ListState)
	add("", []string{actorspb.Ask, actorspb.Send, actorspb.Spawn, actorspb.End, actorspb.Publish, actorspb.Watch}, access.UseActors)
	return all
}()

// admitCall rejects a call by a client that may do nothing of what the method is for. Tasks of the cluster are judged by the methods.
func (m *Member) admitCall(ctx context.Context, method string) error {
	actions := admissions[method]
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
