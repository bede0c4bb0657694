package workerservice

import (
	"context"
	"fmt"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/gateway"
	"github.com/troupe-run/troupe/remote/internal/http2"
)

// coordination is the service by which a client that has configured a coordination service learns which tasks of its cluster it has lost:
// context.context().get_task_states. TensorFlow's tasks send heartbeats to the leader's service. Here, the leader asks the tasks whether they
// still have the client's context (actors.Task.EagerStates), so that the answer is not older than the question, and the client's own heartbeats
// only have to find out whether the leader was restarted.
const coordination = "tensorflow.CoordinationService"

func (s *service) coordination() http2.Service {
	all := http2.Service{Name: coordination, Methods: map[string]http2.Handler{}}
	unary(s, all, "RegisterTask", s.registerTask)
	unary(s, all, "Heartbeat", s.heartbeat)
	unary(s, all, "GetTaskState", s.getTaskState)
	unary(s, all, "ResetTask", s.resetTask)
	unary(s, all, "ShutdownTask", s.shutdownTask)
	err := func(method string) error {
		return status.Unimplementedf("%s/%s is not supported: it serves collectives and notices of preemption", coordination, method)
	}
	for _, method := range []string{"WaitForAllTasks", "ReportErrorToTask", "ReportErrorToService", "WatchJobState", "InsertKeyValue", "GetKeyValue", "TryGetKeyValue",
		"GetKeyValueDir", "DeleteKeyValue", "Barrier", "CancelBarrier", "GetAliveTasks", "PollForError"} {
		all.Methods[method] = always(err(method))
	}
	return all
}

// incarnation returns a number that is new at each start of the task.
func (s *service) incarnation() uint64 { return s.Task.Describe()[0].Incarnation }

func (s *service) registerTask(context.Context, *gateway.Caller, *corepb.RegisterTaskRequest) (*corepb.RegisterTaskResponse, error) {
	return &corepb.RegisterTaskResponse{LeaderIncarnation: s.incarnation()}, nil
}

func (s *service) heartbeat(context.Context, *gateway.Caller, *corepb.HeartbeatRequest) (*corepb.HeartbeatResponse, error) {
	return &corepb.HeartbeatResponse{LeaderIncarnation: s.incarnation()}, nil
}

// resetTask and shutdownTask have nothing to forget.
func (s *service) resetTask(context.Context, *gateway.Caller, *corepb.ResetTaskRequest) (*corepb.ResetTaskResponse, error) {
	return &corepb.ResetTaskResponse{}, nil
}

func (s *service) shutdownTask(context.Context, *gateway.Caller, *corepb.ShutdownTaskRequest) (*corepb.ShutdownTaskResponse, error) {
	return &corepb.ShutdownTaskResponse{}, nil
}

// Values and field numbers of tsl/protobuf/coordination_service.proto, which is newer than the messages that this module has.
const (
	maxStates = 1 << 10 // tasks of a request

	stateConnected, stateError = 3, 4

	fieldTasks                                                               = 1 // of GetTaskStateRequest, and of GetTaskStateResponse
	fieldTask, fieldState, fieldCode, fieldMessage, fieldPayload, fieldCause = 1, 2, 3, 4, 5, 4
)

// getTaskState answers a tensorflow.GetTaskStateRequest with a GetTaskStateResponse, both as unknown fields.
func (s *service) getTaskState(ctx context.Context, caller *gateway.Caller, q *emptypb.Empty) (*emptypb.Empty, error) {
	peer, err := s.peer(ctx, caller)
	if err != nil {
		return nil, err
	}
	var tasks [][]byte // of tensorflow.CoordinatedTask
	var names []string
	for b := q.ProtoReflect().GetUnknown(); len(b) > 0; {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 || number != fieldTasks || kind != protowire.BytesType {
			return nil, status.InvalidArgumentf("A GetTaskStateRequest has a field that it should not have")
		}
		task, m := protowire.ConsumeBytes(b[n:])
		var parsed corepb.CoordinatedTask
		if m < 0 || proto.Unmarshal(task, &parsed) != nil {
			return nil, status.InvalidArgumentf("A GetTaskStateRequest is malformed")
		}
		if len(tasks) == maxStates {
			return nil, status.Errorf(status.ResourceExhausted, "A GetTaskStateRequest names more than %d tasks", maxStates)
		}
		tasks, names = append(tasks, task), append(names, fmt.Sprintf("/job:%s/replica:0/task:%d", parsed.GetJobName(), parsed.GetTaskId()))
		b = b[n+m:]
	}
	states, err := s.Task.EagerStates(ctx, peer, names)
	if err != nil {
		return nil, err
	}
	var answer []byte
	for i, state := range states {
		answer = protowire.AppendTag(answer, fieldTasks, protowire.BytesType)
		answer = protowire.AppendBytes(answer, stateInfo(tasks[i], state))
	}
	a := &emptypb.Empty{}
	a.ProtoReflect().SetUnknown(answer)
	return a, nil
}

// stateInfo returns a tensorflow.CoordinatedTaskStateInfo.
func stateInfo(task []byte, err error) []byte {
	b := protowire.AppendBytes(protowire.AppendTag(nil, fieldTask, protowire.BytesType), task)
	b = protowire.AppendTag(b, fieldState, protowire.VarintType)
	if err == nil {
		return protowire.AppendVarint(b, stateConnected)
	}
	b = protowire.AppendVarint(b, stateError)
	b = protowire.AppendVarint(protowire.AppendTag(b, fieldCode, protowire.VarintType), uint64(status.CodeOf(err)))
	b = protowire.AppendString(protowire.AppendTag(b, fieldMessage, protowire.BytesType), status.From(err).Message)
	cause := protowire.AppendBytes(protowire.AppendTag(nil, fieldCause, protowire.BytesType), task)
	return protowire.AppendBytes(protowire.AppendTag(b, fieldPayload, protowire.BytesType), cause)
}
