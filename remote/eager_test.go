package remote

import (
	"context"
	"testing"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

func (g *guarded) eager(as, method string, q, a proto.Message) error {
	return g.call(as, "/tensorflow.eager.EagerService/"+method, q, a)
}

func (g *guarded) streamingEnqueue(as string) (grpc.ClientStream, error) {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(g.t.Context(), "authorization", "Bearer "+g.tokens[as]), 20*time.Second)
	g.t.Cleanup(cancel)
	return g.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/tensorflow.eager.EagerService/StreamingEnqueue")
}

func (g *guarded) createContext(as string, id uint64) error {
	return g.answerContext(as, id, &corepb.CreateContextResponse{})
}

// answerContext is createContext with its answer.
func (g *guarded) answerContext(as string, id uint64, a *corepb.CreateContextResponse) error {
	def := &corepb.ServerDef{JobName: "w", Cluster: &corepb.ClusterDef{Job: []*corepb.JobDef{{Name: "w", Tasks: map[int32]string{0: g.node.Address()}}}}}
	return g.eager(as, "CreateContext", &corepb.CreateContextRequest{ContextId: id, ServerDef: def, KeepAliveSecs: 600}, a)
}

// TestEagerContextsAreGuarded checks that eager contexts need the rights of sessions and of declared clusters, that a client cannot use
// or replace those of others, that a policy bounds their ops, and that the audit log has them.
func TestEagerContextsAreGuarded(t *testing.T) {
	g := guard(t, `rules:
  - {who: "client:alice", may: [open, declare], ops: {deny: ["ControlTrigger"]}}
  - {who: "client:bob", may: [open, declare]}
  - {who: "client:opens", may: open}
  - {who: "client:uses", may: [open, others]}
  - {who: "client:none", may: []}
`, "alice", "bob", "opens", "uses", "none")
	const denied = codes.PermissionDenied
	refusedBy(t, "a context without rights", g.createContext("none", 1), denied, "client:none may not open sessions")
	refusedBy(t, "a context of a client that may not declare clusters", g.createContext("opens", 1), denied, "client:opens may not declare clusters")
	if err := g.createContext("alice", 1); err != nil {
		t.Fatal(err)
	}
	refusedBy(t, "a context that replaces another client's", g.createContext("bob", 1), denied, "client:bob may not")
	op := func(name string) *corepb.EnqueueRequest {
		return &corepb.EnqueueRequest{ContextId: 1, Queue: []*corepb.QueueItem{{Item: &corepb.QueueItem_Operation{Operation: &corepb.Operation{Id: 1, Name: name}}}}}
	}
	for method, q := range map[string]proto.Message{
		"UpdateContext":        &corepb.UpdateContextRequest{ContextId: 1, ContextViewId: 1},
		"Enqueue":              op("NoOp"),
		"WaitQueueDone":        &corepb.WaitQueueDoneRequest{ContextId: 1},
		"RunComponentFunction": &corepb.RunComponentFunctionRequest{ContextId: 1, Operation: &corepb.Operation{}},
		"KeepAlive":            &corepb.KeepAliveRequest{ContextId: 1},
		"CloseContext":         &corepb.CloseContextRequest{ContextId: 1},
	} {
		refusedBy(t, method+" of another client's", g.eager("bob", method, q, &corepb.EnqueueResponse{}), denied, "client:bob may not")
	}
	stream, err := g.streamingEnqueue("bob")
	if err == nil {
		if err = stream.SendMsg(op("NoOp")); err == nil {
			err = stream.RecvMsg(&corepb.EnqueueResponse{})
		}
	}
	refusedBy(t, "a stream of another client's", err, denied, "client:bob may not")
	if err := g.eager("alice", "Enqueue", op("NoOp"), &corepb.EnqueueResponse{}); err != nil {
		t.Error(err)
	}
	elsewhere := &corepb.UpdateContextRequest{ContextId: 1, ContextViewId: 1, ServerDef: &corepb.ServerDef{JobName: "w",
		Cluster: &corepb.ClusterDef{Job: []*corepb.JobDef{{Name: "w", Tasks: map[int32]string{0: g.node.Address(), 1: "localhost:1"}}}}}}
	refusedBy(t, "another cluster for a context of somebody who may declare one", g.eager("uses", "UpdateContext", elsewhere, &corepb.UpdateContextResponse{}), denied, "client:uses may not declare clusters")
	if err := g.eager("uses", "Enqueue", op("NoOp"), &corepb.EnqueueResponse{}); err != nil {
		t.Error(err)
	}
	refusedBy(t, "an op that the policy denies", g.eager("alice", "Enqueue", op("ControlTrigger"), &corepb.EnqueueResponse{}), denied, "may not use the op ControlTrigger")
	if err := g.eager("alice", "CloseContext", &corepb.CloseContextRequest{ContextId: 1}, &corepb.CloseContextResponse{}); err != nil {
		t.Error(err)
	}
	g.audits(map[string]int{"open client:alice ": 1, "close client:alice ": 1, "use client:bob PERMISSION_DENIED": 8, "run client:alice PERMISSION_DENIED": 1,
		"open client:none PERMISSION_DENIED": 1, "declare client:opens PERMISSION_DENIED": 1, "declare client:uses PERMISSION_DENIED": 1})
}

// TestContextsShowDevices checks that a context shows its client the devices that it may use, when it is opened and when its cluster changes.
func TestContextsShowDevices(t *testing.T) {
	g := guard(t, `rules:
  - {who: "client:all", may: [open, declare]}
  - {who: "client:one", may: [open, declare], devices: ["*/device:CPU:1"]}
`, "all", "one")
	for id, who := range []string{"all", "one"} {
		want := 2 - id // of two
		var opened corepb.CreateContextResponse
		if err := g.answerContext(who, uint64(id+1), &opened); err != nil || len(opened.DeviceAttributes) != want {
			t.Errorf("%s sees %v, %v", who, opened.DeviceAttributes, err)
		}
		var updated corepb.UpdateContextResponse
		err := g.eager(who, "UpdateContext", &corepb.UpdateContextRequest{ContextId: uint64(id + 1), ContextViewId: 1, ServerDef: &corepb.ServerDef{JobName: "w",
			Cluster: &corepb.ClusterDef{Job: []*corepb.JobDef{{Name: "w", Tasks: map[int32]string{0: g.node.Address()}}}}}}, &updated)
		if err != nil || len(updated.DeviceAttributes) != want {
			t.Errorf("%s sees %v after an update, %v", who, updated.DeviceAttributes, err)
		}
	}
}
