package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	handlepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/resource_handle_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	versionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/versions_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// guarded is a server with a policy, tokens and an audit log, and a connection to it.
type guarded struct {
	drains chan time.Duration // what the task was asked for
	t      *testing.T
	node   *Node   // the first
	nodes  []*Node // all
	conn   *grpc.ClientConn
	tokens map[string]string // by client
	policy *access.PolicyFile
	path   string // of the policy
	audit  string
}

func guard(t *testing.T, policy string, clients ...string) *guarded {
	t.Helper()
	return guardTasks(t, 1, Config{CPUs: 2}, policy, clients...)
}

// guardTasks is guard for a cluster of several tasks with the same policy and tokens. node is the first.
func guardTasks(t *testing.T, tasks int, c Config, policy string, clients ...string) *guarded {
	t.Helper()
	dir := t.TempDir()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	g := &guarded{t: t, drains: make(chan time.Duration, 8), tokens: map[string]string{}, path: filepath.Join(dir, "policy.yaml"), audit: filepath.Join(dir, "audit.jsonl")}
	var lines []string
	for _, c := range clients {
		token, line, err := access.NewToken(c, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		g.tokens[c], lines = token, append(lines, line)
	}
	g.write(g.path, policy)
	file := filepath.Join(dir, "tokens")
	g.write(file, strings.Join(lines, "\n"))
	tokens, err := access.LoadTokens(access.TokenConfig{File: file, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tokens.Close)
	if policy != "" {
		if g.policy, err = access.LoadPolicy(access.PolicyConfig{File: g.path, Log: log}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(g.policy.Close)
	}
	audit, err := access.OpenAudit(g.audit, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := audit.Close(); err != nil {
			t.Error(err)
		}
	})
	addresses := map[int]string{}
	for i, address := range spectest.Addresses(t, tasks) {
		addresses[i] = address
	}
	if c.Spec, err = spec.New(map[string]map[int]string{"w": addresses}); err != nil {
		t.Fatal(err)
	}
	c.Job, c.Log, c.End = "w", log, func(within time.Duration) { g.drains <- within }
	for c.Task = range tasks {
		c.Guard = access.NewGuard(tokens, g.policy, audit)
		n, err := Start(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if err := n.Stop(ctx); err != nil {
				t.Error(err)
			}
		})
		if g.nodes = append(g.nodes, n); c.Task == 0 {
			g.node = n
		}
	}
	if g.conn, err = grpc.NewClient("passthrough:///"+g.node.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.conn.Close() })
	return g
}

func (g *guarded) write(path, text string) {
	g.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func (g *guarded) reload(policy string) {
	g.t.Helper()
	g.write(g.path, policy)
	if err := g.policy.Reload(); err != nil {
		g.t.Fatal(err)
	}
}

// call makes a call with a client's token, or without a token for "".
func (g *guarded) call(as, method string, q, a proto.Message) error {
	ctx, cancel := context.WithTimeout(g.t.Context(), 20*time.Second)
	defer cancel()
	if token := g.tokens[as]; token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	} else if as != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", as)
	}
	return g.conn.Invoke(ctx, method, q, a)
}

func (g *guarded) master(as, method string, q, a proto.Message) error {
	return g.call(as, "/tensorflow.MasterService/"+method, q, a)
}

func (g *guarded) open(as string, def *graphpb.GraphDef) (string, error) {
	var a corepb.CreateSessionResponse
	err := g.master(as, "CreateSession", &corepb.CreateSessionRequest{GraphDef: def, Config: &corepb.ConfigProto{}}, &a)
	return a.SessionHandle, err
}

func (g *guarded) mustOpen(as string, def *graphpb.GraphDef) string {
	g.t.Helper()
	handle, err := g.open(as, def)
	if err != nil {
		g.t.Fatal(err)
	}
	return handle
}

func (g *guarded) run(as, handle string, targets ...string) error {
	return g.master(as, "RunStep", &corepb.RunStepRequest{SessionHandle: handle, Target: targets}, &corepb.RunStepResponse{})
}

func refusedBy(t *testing.T, what string, err error, code codes.Code, want string) {
	t.Helper()
	if status.Code(err) != code || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %v, %q", what, err, code, want)
	}
}

func text(s string) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_S{S: []byte(s)}}
}

func dtype(t typespb.DataType) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_Type{Type: t}}
}

func constant(name, value string) *nodepb.NodeDef {
	return &nodepb.NodeDef{Name: name, Op: "Const", Attr: map[string]*attrpb.AttrValue{"dtype": dtype(typespb.DataType_DT_STRING),
		"value": {Value: &attrpb.AttrValue_Tensor{Tensor: &tensorpb.TensorProto{Dtype: typespb.DataType_DT_STRING, TensorShape: &shapepb.TensorShapeProto{}, StringVal: [][]byte{[]byte(value)}}}}}}
}

func graphOf(nodes ...*nodepb.NodeDef) *graphpb.GraphDef {
	return &graphpb.GraphDef{Versions: &versionspb.VersionDef{Producer: 1395}, Node: nodes}
}

// TestEveryCallIsGuarded makes each call as a stranger, as a client without rights, and as a client that uses another client's session.
// None of the calls may succeed, and each refusal must be in the audit log.
func TestEveryCallIsGuarded(t *testing.T) {
	g := guard(t, `rules:
  - {who: "client:alice", may: open}
  - {who: "client:bob", may: open}
  - {who: "client:none", may: []}
`, "alice", "bob", "none")
	def := graphOf(&nodepb.NodeDef{Name: "n", Op: "NoOp"})
	handle := g.mustOpen("alice", def)
	if err := g.run("alice", handle, "n"); err != nil {
		t.Fatal(err)
	}
	const denied, unknown = codes.PermissionDenied, codes.Unauthenticated
	for method, q := range map[string]proto.Message{
		"CreateSession":   &corepb.CreateSessionRequest{GraphDef: def, Config: &corepb.ConfigProto{}},
		"ExtendSession":   &corepb.ExtendSessionRequest{SessionHandle: handle, GraphDef: def},
		"PartialRunSetup": &corepb.PartialRunSetupRequest{SessionHandle: handle, Target: []string{"n"}},
		"RunStep":         &corepb.RunStepRequest{SessionHandle: handle, Target: []string{"n"}},
		"CloseSession":    &corepb.CloseSessionRequest{SessionHandle: handle},
		"ListDevices":     &corepb.ListDevicesRequest{SessionHandle: handle},
		"Reset":           &corepb.ResetRequest{},
		"MakeCallable":    &corepb.MakeCallableRequest{SessionHandle: handle, Options: &corepb.CallableOptions{Target: []string{"n"}}},
		"RunCallable":     &corepb.RunCallableRequest{SessionHandle: handle, Handle: 1},
		"ReleaseCallable": &corepb.ReleaseCallableRequest{SessionHandle: handle, Handle: 1},
	} {
		a := &corepb.ResetResponse{} // no answer is expected
		refusedBy(t, method+" without a token", g.master("", method, q, a), denied, "loopback may not")
		refusedBy(t, method+" with a wrong token", g.master("Bearer troupe_x", method, q, a), unknown, "unknown or was withdrawn")
		refusedBy(t, method+" without rights", g.master("none", method, q, a), denied, "client:none may not")
		if method != "CreateSession" {
			refusedBy(t, method+" of another client's", g.master("bob", method, q, a), denied, "client:bob may not")
		}
	}
	for _, method := range []string{wire.OperatorStatus, wire.OperatorListActors, wire.OperatorSee, wire.OperatorGraph, "/troupe.v1.Operator/Trace",
		"/tensorflow.ProfilerService/Profile", "/tensorflow.ProfilerService/Monitor", "/tensorflow.ProfilerService/Terminate"} {
		refusedBy(t, method, g.call("alice", method, &wire.StatusRequest{}, &wire.ClusterStatus{}), denied, "client:alice may not list devices, tasks and actors: the rule at policy.yaml:2")
	}
	refusedBy(t, "ListDevices of the server", g.master("alice", "ListDevices", &corepb.ListDevicesRequest{}, &corepb.ListDevicesResponse{}), denied, "list is not in its may")
	config := &corepb.ConfigProto{ClusterDef: &corepb.ClusterDef{Job: []*corepb.JobDef{{Name: "w", Tasks: map[int32]string{0: g.node.Address()}}}}}
	refusedBy(t, "a declared cluster", g.master("alice", "CreateSession", &corepb.CreateSessionRequest{GraphDef: def, Config: config}, &corepb.CreateSessionResponse{}), denied, "declare clusters")

	// None of that has touched the session.
	if err := g.run("alice", handle, "n"); err != nil {
		t.Error(err)
	}
	if err := g.master("alice", "CloseSession", &corepb.CloseSessionRequest{SessionHandle: handle}, &corepb.CloseSessionResponse{}); err != nil {
		t.Error(err)
	}
	g.audits(map[string]int{"open client:alice ": 1, "close client:alice ": 1, "login  UNAUTHENTICATED": 10,
		"use client:bob PERMISSION_DENIED": 8, "reset client:bob PERMISSION_DENIED": 1, "list client:alice PERMISSION_DENIED": 9})
}

// unguarded are the methods whose callers are not judged before their request is decoded, each with the reason.
var unguarded = map[string]string{
	"/grpc.health.v1.Health/Check": ofAnybody, "/grpc.health.v1.Health/List": ofAnybody, "/grpc.health.v1.Health/Watch": ofAnybody,
	"/troupe.v1.Link/Greet": ofAnybody, "/troupe.v1.Link/Confirm": ofTasks, "/troupe.v1.Link/Vouch": ofTasks, "/troupe.v1.Link/Bulk": ofTasks, "/remote.Remoting/Receive": ofTasks,
	"/troupe.v1.Guests/Lend": "the request has the proof that the caller is a server of the same owner", "/troupe.v1.Guests/Join": ofCluster, "/troupe.v1.Guests/Renew": ofCluster,
	"/troupe.v1.Guests/Leave": ofCluster, "/troupe.v1.Guests/Supersede": ofCluster,
}

const (
	ofAnybody = "whoever reaches the port may ask"
	ofTasks   = "it is called by tasks, which are judged by their certificates, their addresses or what they show of the secret"
	ofCluster = "who knows the number of the ofCluster, which cannot be guessed, is part of it"
)

// TestEveryMethodIsGuarded calls each method that a task serves as a stranger and as a client without rights, with an empty request and with a
// malformed one: all are refused for want of rights, before anything is read of what the caller sent.
func TestEveryMethodIsGuarded(t *testing.T) {
	g := guardTasks(t, 2, Config{CPUs: 1, SecretFile: secretFile(t, "s"), Actors: waiters(nil)}, `rules: [{who: "client:none", may: []}]`, "none")
	known := map[string]bool{}
	for _, method := range g.node.Port().Services().Methods() {
		known[method] = true
		if unguarded[method] != "" {
			if len(g.node.Admissions()[method]) > 0 {
				t.Errorf("%s is guarded: it must not be in unguarded", method)
			}
			continue
		}
		for authorization, code := range map[string]codes.Code{"": codes.PermissionDenied, "Bearer " + g.tokens["none"]: codes.PermissionDenied, "Bearer nobody": codes.Unauthenticated} {
			for what, q := range map[string][]byte{"empty": {}, "malformed": {0xff}} {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				if authorization != "" {
					ctx = metadata.AppendToOutgoingContext(ctx, "authorization", authorization)
				}
				err := rawCall(ctx, g.conn, method, q)
				cancel()
				if got := status.Code(err); got != code && got != codes.Unimplemented {
					t.Errorf("%s with the authorization %q and a request that is %s: %v", method, authorization, what, err)
				}
			}
		}
	}
	for method := range g.node.Admissions() {
		if !known[method] {
			t.Errorf("%s is guarded, but there is no such method", method)
		}
	}
	if len(known) < 50 {
		t.Errorf("there are only %d methods: %v", len(known), known)
	}
}

// bytesCodec passes messages as bytes.
type bytesCodec struct{}

func (bytesCodec) Name() string                       { return "proto" }
func (bytesCodec) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (bytesCodec) Unmarshal(data []byte, v any) error { *v.(*[]byte) = bytes.Clone(data); return nil }

// rawCall sends one request and waits for the end of the call, or for its first answer.
func rawCall(ctx context.Context, conn *grpc.ClientConn, method string, q []byte) error {
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method, grpc.ForceCodec(bytesCodec{}))
	if err != nil {
		return err
	}
	if err := s.SendMsg(&q); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	var a []byte
	return s.RecvMsg(&a)
}

// audits checks how often the audit log has each event: its name, who it was and its code.
func (g *guarded) audits(all map[string]int) {
	g.t.Helper()
	b, err := os.ReadFile(g.audit)
	if err != nil {
		g.t.Fatal(err)
	}
	count := map[string]int{}
	for line := range strings.Lines(string(b)) {
		var e struct{ Event, Who, Session, Code string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			g.t.Fatal(err)
		}
		count[e.Event+" "+e.Who+" "+e.Code]++
	}
	for what, want := range all {
		if count[what] != want {
			g.t.Errorf("the audit log has %d of %q, want %d: %v", count[what], what, want, count)
		}
	}
}

// TestPolicyOfGraphs checks that denied ops, devices and containers do not run, wherever in a graph they are, and that nodes which a step
// does not need are not checked.
func TestPolicyOfGraphs(t *testing.T) {
	g := guard(t, `rules:
  - who: "client:alice"
    may: open
    devices: "*/device:CPU:0"
    containers: ["", "alice*"]
    ops: {deny: ["@files", "RandomUniform"]}
    files: all
`, "alice")
	out := filepath.Join(t.TempDir(), "written")
	writer := &nodepb.NodeDef{Name: "w", Op: "WriteFile", Input: []string{"name", "name"}}
	variable := func(name, container, device string) *nodepb.NodeDef {
		return &nodepb.NodeDef{Name: name, Op: "VarHandleOp", Device: device, Attr: map[string]*attrpb.AttrValue{"dtype": dtype(typespb.DataType_DT_FLOAT),
			"shape": {Value: &attrpb.AttrValue_Shape{Shape: &shapepb.TensorShapeProto{}}}, "container": text(container), "shared_name": text("v")}}
	}
	handle := func(name string) *nodepb.NodeDef {
		return &nodepb.NodeDef{Name: name, Op: "Const", Attr: map[string]*attrpb.AttrValue{"dtype": dtype(typespb.DataType_DT_RESOURCE),
			"value": {Value: &attrpb.AttrValue_Tensor{Tensor: &tensorpb.TensorProto{Dtype: typespb.DataType_DT_RESOURCE, TensorShape: &shapepb.TensorShapeProto{},
				ResourceHandleVal: []*handlepb.ResourceHandleProto{{Device: "/job:w/replica:0/task:0/device:CPU:0", Container: "bob", Name: "v"}}}}}}}
	}
	function := func(name string, nodes ...*nodepb.NodeDef) *functionpb.FunctionDef {
		return &functionpb.FunctionDef{Signature: &oppb.OpDef{Name: name, IsStateful: true}, NodeDef: nodes}
	}
	empty := &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: &attrpb.AttrValue_ListValue{}}}
	call := func(name, f string) *nodepb.NodeDef {
		return &nodepb.NodeDef{Name: name, Op: "StatefulPartitionedCall", Attr: map[string]*attrpb.AttrValue{"Tin": empty, "Tout": empty,
			"f": {Value: &attrpb.AttrValue_Func{Func: &attrpb.NameAttrList{Name: f}}}}}
	}
	def := graphOf(constant("name", out), writer, &nodepb.NodeDef{Name: "ok", Op: "Identity", Input: []string{"name"}, Attr: map[string]*attrpb.AttrValue{"T": dtype(typespb.DataType_DT_STRING)}},
		variable("mine", "alice_1", ""), variable("default", "", ""), variable("bobs", "bob", ""), variable("elsewhere", "", "/job:w/task:0/device:CPU:1"),
		handle("forged"), &nodepb.NodeDef{Name: "uses", Op: "VarIsInitializedOp", Input: []string{"forged"}}, call("outer", "Outer"), call("harmless", "Harmless"), &nodepb.NodeDef{Name: "direct", Op: "Inner"})
	inner := function("Inner", constant("name", out), &nodepb.NodeDef{Name: "w", Op: "WriteFile", Input: []string{"name:output:0", "name:output:0"}})
	def.Library = &functionpb.FunctionDefLibrary{Function: []*functionpb.FunctionDef{inner, function("Outer", call("inner", "Inner")),
		function("Harmless", &nodepb.NodeDef{Name: "n", Op: "NoOp"})}}
	session := g.mustOpen("alice", def)
	for _, node := range []string{"ok", "mine", "default", "harmless"} {
		if err := g.run("alice", session, node); err != nil {
			t.Errorf("%s: %v", node, err)
		}
	}
	// The kernels of functions are created where they are called.
	for node, want := range map[string]string{
		"outer":  "{{node w}}",
		"direct": "may not use the op WriteFile",
		"uses":   "client:alice may not use the container bob: the rule at policy.yaml:2",
	} {
		refusedBy(t, node, g.run("alice", session, node), codes.PermissionDenied, want)
	}
	for node, want := range map[string]string{
		"w":         `client:alice may not use the op WriteFile: denied by "@files" at policy.yaml:6`,
		"bobs":      "client:alice may not use the container bob: the rule at policy.yaml:2",
		"elsewhere": "may not use the device /job:w/replica:0/task:0/device:CPU:1",
	} {
		refusedBy(t, node, g.run("alice", session, node), codes.PermissionDenied, want)
		a := &corepb.MakeCallableResponse{}
		refusedBy(t, node, g.master("alice", "MakeCallable", &corepb.MakeCallableRequest{SessionHandle: session, Options: &corepb.CallableOptions{Target: []string{node}}}, a), codes.PermissionDenied, want)
		refusedBy(t, node, g.master("alice", "PartialRunSetup", &corepb.PartialRunSetupRequest{SessionHandle: session, Target: []string{node}}, &corepb.PartialRunSetupResponse{}), codes.PermissionDenied, want)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a file was written")
	}

	// A fed handle can name any container, too.
	fed := proto.Clone(handle("x").Attr["value"].GetTensor()).(*tensorpb.TensorProto)
	feed := &corepb.RunStepRequest{SessionHandle: session, Target: []string{"read"}, Feed: []*corepb.NamedTensorProto{{Name: "mine:0", Tensor: fed}}}
	more := graphOf(&nodepb.NodeDef{Name: "read", Op: "VarIsInitializedOp", Input: []string{"mine"}})
	if err := g.master("alice", "ExtendSession", &corepb.ExtendSessionRequest{SessionHandle: session, GraphDef: more}, &corepb.ExtendSessionResponse{}); err != nil {
		t.Fatal(err)
	}
	refusedBy(t, "a fed handle", g.master("alice", "RunStep", feed, &corepb.RunStepResponse{}), codes.PermissionDenied, "may not use the container bob")
	fed.ResourceHandleVal[0].Container = "alice_1"
	if err := g.master("alice", "RunStep", feed, &corepb.RunStepResponse{}); err != nil {
		t.Errorf("a fed handle of an own container: %v", err)
	}

	// What a reload takes away ends with the next step, for existing plans as well.
	g.reload(`rules: [{who: "client:alice", may: open, files: all, ops: {deny: Identity}}]`)
	refusedBy(t, "after a reload", g.run("alice", session, "ok"), codes.PermissionDenied, `denied by "Identity" at policy.yaml:1`)
	if err := g.run("alice", session, "w"); err != nil {
		t.Errorf("what the reload gave: %v", err)
	}
	g.reload(`rules: [{who: "client:alice", may: open}]`)
	refusedBy(t, "without files", g.run("alice", session, "ok"), codes.PermissionDenied, "Open a new session")
}

func TestPolicyOfResets(t *testing.T) {
	g := guard(t, `rules: [{who: "client:alice", may: [reset, list], containers: "alice*"}]`, "alice")
	reset := func(names ...string) error {
		return g.master("alice", "Reset", &corepb.ResetRequest{Container: names}, &corepb.ResetResponse{})
	}
	if err := reset("alice_1"); err != nil {
		t.Error(err)
	}
	refusedBy(t, "another's", reset("alice_1", "bob"), codes.PermissionDenied, "may not use the container bob")
	refusedBy(t, "the default", reset(), codes.PermissionDenied, "the default container")
	if err := g.call("alice", wire.OperatorStatus, &wire.StatusRequest{}, &wire.ClusterStatus{}); err != nil {
		t.Error(err)
	}
}

func TestPolicyOfCounts(t *testing.T) {
	g := guard(t, `rules: [{who: "client:alice", may: open, limits: {sessions: 2, steps: 1}}]`, "alice")
	def := graphOf(&nodepb.NodeDef{Name: "n", Op: "NoOp"})
	first := g.mustOpen("alice", def)
	g.mustOpen("alice", def)
	_, err := g.open("alice", def)
	refusedBy(t, "a third session", err, codes.ResourceExhausted, "2 sessions open, which is the limit of the rule at policy.yaml:1")
	closing := func() {
		t.Helper()
		if err := g.master("alice", "CloseSession", &corepb.CloseSessionRequest{SessionHandle: first}, &corepb.CloseSessionResponse{}); err != nil {
			t.Fatal(err)
		}
	}
	var partial corepb.PartialRunSetupResponse
	if err := g.master("alice", "PartialRunSetup", &corepb.PartialRunSetupRequest{SessionHandle: first, Fetch: nil, Target: []string{"n"}, Feed: nil}, &partial); err != nil {
		t.Fatal(err)
	}
	closing()
	third := g.mustOpen("alice", def)
	for range 3 {
		if err := g.run("alice", third, "n"); err != nil {
			t.Errorf("steps that ended count: %v", err)
		}
	}
	// A rejected graph leaves no session.
	for range 3 {
		if _, err := g.open("alice", graphOf(&nodepb.NodeDef{Name: "n", Op: "NoSuchOp"})); status.Code(err) == codes.OK || status.Code(err) == codes.PermissionDenied {
			t.Errorf("a graph with an unknown op: %v", err)
		}
	}
	first = third
	closing()
	g.mustOpen("alice", def)
}

// TestTokensAreDemanded checks that a server with tokens but no policy admits only callers with a token.
func TestTokensAreDemanded(t *testing.T) {
	g := guard(t, "", "alice")
	def := graphOf(&nodepb.NodeDef{Name: "n", Op: "NoOp"})
	handle := g.mustOpen("alice", def)
	if err := g.run("alice", handle, "n"); err != nil {
		t.Error(err)
	}
	_, err := g.open("", def)
	refusedBy(t, "without a token", err, codes.Unauthenticated, "wants a token")
	refusedBy(t, "an operator without a token", g.call("", wire.OperatorListActors, &wire.ListActorsRequest{}, &wire.TaskActors{}), codes.Unauthenticated, "wants a token")
}
