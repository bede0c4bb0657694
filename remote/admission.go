package remote

import (
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/member"
)

// admissions are those of the methods that a server has beyond a member's: the services of TensorFlow.
func admissions() member.Admissions {
	const master, contexts, worker = "/tensorflow.MasterService/", "/tensorflow.eager.EagerService/", "/tensorflow.WorkerService/"
	all := member.Admissions{}
	all.Add(master, []string{"CreateSession"}, access.OpenSessions)
	all.Add(master, []string{"ExtendSession", "PartialRunSetup", "RunStep", "CloseSession", "MakeCallable", "RunCallable", "ReleaseCallable"}, access.OpenSessions, access.OtherSessions)
	all.Add(master, []string{"ListDevices"}, access.ListState, access.OpenSessions, access.OtherSessions)
	all.Add(master, []string{"Reset"}, access.ResetCluster)
	all.Add(contexts, []string{"CreateContext"}, access.OpenSessions)
	all.Add(contexts, []string{"UpdateContext", "Enqueue", "StreamingEnqueue", "WaitQueueDone", "RunComponentFunction", "KeepAlive", "CloseContext"}, access.OpenSessions, access.OtherSessions)
	all.Add(worker, []string{"GetStatus"}, access.ListState, access.OpenSessions)
	all.Add(worker, []string{"RecvTensor", "MarkRecvFinished"}, access.OpenSessions)
	all.Add("/tensorflow.CoordinationService/", []string{"RegisterTask", "Heartbeat", "GetTaskState", "ResetTask", "ShutdownTask"}, access.OpenSessions)
	all.Add("/tensorflow.ProfilerService/", []string{"Profile", "Terminate", "Monitor"}, access.ListState)
	return all
}
