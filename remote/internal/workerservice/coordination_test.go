package workerservice

import (
	"testing"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/port"
)

func coordinate(t *testing.T, p *port.Port, method string, q, a proto.Message) error {
	t.Helper()
	return p.Call(deadline(t), p.Addr(), "/tensorflow.CoordinationService/"+method, q, a)
}

// states returns the answer to a request for the states of tasks.
func states(t *testing.T, p *port.Port, request []byte) (answer []byte, err error) {
	t.Helper()
	q, a := &emptypb.Empty{}, &emptypb.Empty{}
	q.ProtoReflect().SetUnknown(request)
	err = coordinate(t, p, "GetTaskState", q, a)
	return a.ProtoReflect().GetUnknown(), err
}

// asked returns a request for the states of tasks of job worker.
func asked(t *testing.T, ids ...int32) (b []byte) {
	t.Helper()
	for _, id := range ids {
		task, err := proto.Marshal(&corepb.CoordinatedTask{JobName: "worker", TaskId: id})
		if err != nil {
			t.Fatal(err)
		}
		b = protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), task)
	}
	return b
}

func TestCoordination(t *testing.T) {
	p := serve(t, &testTask{states: map[string]error{
		"/job:worker/replica:0/task:0": nil, "/job:worker/replica:0/task:1": status.Errorf(status.Unavailable, "it has gone"),
	}})
	var registered corepb.RegisterTaskResponse
	if err := coordinate(t, p, "RegisterTask", &corepb.RegisterTaskRequest{Incarnation: 5}, &registered); err != nil || registered.LeaderIncarnation != 77 {
		t.Errorf("registered: %v, %v", &registered, err)
	}
	var beat corepb.HeartbeatResponse
	if err := coordinate(t, p, "Heartbeat", &corepb.HeartbeatRequest{}, &beat); err != nil || beat.LeaderIncarnation != registered.LeaderIncarnation {
		t.Errorf("a heartbeat: %v, %v", &beat, err)
	}
	for method, m := range map[string][2]proto.Message{
		"ResetTask":    {&corepb.ResetTaskRequest{}, &corepb.ResetTaskResponse{}},
		"ShutdownTask": {&corepb.ShutdownTaskRequest{}, &corepb.ShutdownTaskResponse{}},
	} {
		if err := coordinate(t, p, method, m[0], m[1]); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
	refused(t, "a key", coordinate(t, p, "InsertKeyValue", &corepb.InsertKeyValueRequest{}, &corepb.InsertKeyValueResponse{}), status.Unimplemented, "CoordinationService/InsertKeyValue")

	answer, err := states(t, p, asked(t, 1, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	lost := "\x0a\x0a\x0a\x06worker\x10\x01" + "\x10\x04" + "\x18\x0e" + "\x22\x0bit has gone" + "\x2a\x0c\x22\x0a\x0a\x06worker\x10\x01"
	connected := "\x0a\x08\x0a\x06worker" + "\x10\x03"
	entry := func(s string) string { return "\x0a" + string(rune(len(s))) + s }
	if want := entry(lost) + entry(connected) + entry(lost); string(answer) != want {
		t.Errorf("the answer is\n%q, want\n%q", answer, want)
	}
	for name, c := range map[string]struct {
		request []byte
		code    status.Code
	}{
		"nobody":           {nil, status.OK},
		"an unknown task":  {asked(t, 7), status.InvalidArgument},
		"another field":    {[]byte("\x10\x01"), status.InvalidArgument},
		"an endless field": {[]byte("\x0a\x7f"), status.InvalidArgument},
		"no message":       {[]byte("\x0a\x01\x0a"), status.InvalidArgument},
		"no tag":           {[]byte("\xff"), status.InvalidArgument},
		"too many tasks":   {asked(t, make([]int32, maxStates+1)...), status.ResourceExhausted},
	} {
		if _, err := states(t, p, c.request); status.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %v", name, err, c.code)
		}
	}
}
