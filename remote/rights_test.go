package remote

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	handlepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/resource_handle_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/observe"
	"github.com/troupe-run/troupe/remote/observe/ui"
)

const cpu0 = "/job:w/replica:0/task:0/device:CPU:0"

// drawn returns the graph that draw makes, all of it on the first device.
func drawn(t *testing.T, draw func(s *op.Scope)) *graphpb.GraphDef {
	t.Helper()
	s := op.NewScope().WithDevice(cpu0)
	draw(s)
	def, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	return def
}

// becomes turns a Placeholder of a graph into a Const of any type, which no constructor would do.
func becomes(t *testing.T, def *graphpb.GraphDef, name string, v *tensorpb.TensorProto) {
	t.Helper()
	for _, n := range def.Node {
		if n.Name == name {
			n.Op = "Const"
			n.Attr = map[string]*attrpb.AttrValue{"dtype": dtype(v.Dtype), "value": {Value: &attrpb.AttrValue_Tensor{Tensor: v}}}
			return
		}
	}
	t.Fatalf("there is no node %s", name)
}

// forged returns a handle of a container's variable that the client was never given.
func forged(container, name string) *tensorpb.TensorProto {
	return &tensorpb.TensorProto{Dtype: typespb.DataType_DT_RESOURCE, TensorShape: &shapepb.TensorShapeProto{},
		ResourceHandleVal: []*handlepb.ResourceHandleProto{{Device: cpu0, Container: container, Name: name}}}
}

// hidden is a list that contains the handle.
func hidden(handle *tensorpb.TensorProto) *tensorpb.TensorProto {
	return &tensorpb.TensorProto{Dtype: typespb.DataType_DT_VARIANT, TensorShape: &shapepb.TensorShapeProto{},
		VariantVal: []*tensorpb.VariantTensorDataProto{{TypeName: "tensorflow::TensorList", Tensors: []*tensorpb.TensorProto{handle},
			Metadata: append([]byte{0, byte(typespb.DataType_DT_RESOURCE)}, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"...)}}}
}

// fetch runs a step and returns the fetched tensors.
func (g *guarded) fetch(as, session string, names ...string) ([]*corepb.NamedTensorProto, error) {
	var a corepb.RunStepResponse
	err := g.master(as, "RunStep", &corepb.RunStepRequest{SessionHandle: session, Fetch: names}, &a)
	return a.Tensor, err
}

// vault stores, in a container that alice may not use, a variable and a queue with an element of bob's.
func vault(t *testing.T, g *guarded) {
	t.Helper()
	def := drawn(t, func(s *op.Scope) {
		in := []attr.Attr{attr.Container("vault"), attr.SharedName("q")}
		op.QueueEnqueue(s.WithName("fill"), op.FIFOQueue(s.WithName("queue"), []tensor.DType{tensor.Int64}, in...), []op.Output{op.Const(s, int64(42))})
		v := op.VarHandleOp(s, tensor.Int64, shape.Of(), attr.Container("vault"), attr.SharedName("v"))
		op.AssignVariableOp(s.WithName("set"), v, op.Const(s, int64(43)))
	})
	if err := g.run("bob", g.mustOpen("bob", def), "fill", "set"); err != nil {
		t.Fatal(err)
	}
}

const vaultPolicy = `rules:
  - {who: "client:bob", may: all, files: all}
  - who: "client:alice"
    may: open
    containers: {deny: [vault]}
`

// TestOtherContainers tries to reach a container that the client may not use by every way in which a graph can name one.
func TestOtherContainers(t *testing.T) {
	g := guard(t, vaultPolicy, "alice", "bob")
	vault(t, g)
	const refused = "client:alice may not use the container vault"
	for name, c := range map[string]struct {
		draw     func(s *op.Scope) op.Output
		constant *tensorpb.TensorProto // the value of the Placeholder x
	}{
		"a container attribute": {draw: func(s *op.Scope) op.Output {
			return op.ReadVariableOp(s, op.VarHandleOp(s, tensor.Int64, shape.Of(), attr.Container("vault"), attr.SharedName("v")), tensor.Int64)
		}},
		"a reference to two strings": {draw: func(s *op.Scope) op.Output {
			ref := op.VariableV2(s, shape.Of(2), tensor.String)
			named := op.Assign(s, ref, op.Const(s, []string{"vault", "q"}))
			return op.QueueDequeue(s, named, []tensor.DType{tensor.Int64})[0]
		}},
		"a handle": {draw: func(s *op.Scope) op.Output {
			return op.ReadVariableOp(s, op.Placeholder(s.WithName("x"), tensor.Resource), tensor.Int64)
		}, constant: forged("vault", "v")},
		"a handle in a variant": {draw: func(s *op.Scope) op.Output {
			h := op.TensorListGetItem(s, op.Placeholder(s.WithName("x"), tensor.Variant), op.Const(s, int32(0)), op.Const(s, []int32{}), tensor.Resource)
			return op.ReadVariableOp(s, h, tensor.Int64)
		}, constant: hidden(forged("vault", "v"))},
	} {
		t.Run(name, func(t *testing.T) {
			def := drawn(t, func(s *op.Scope) { op.Identity(s.WithName("out"), c.draw(s)) })
			if c.constant != nil {
				becomes(t, def, "x", c.constant)
			}
			session := g.mustOpen("bob", def)
			if _, err := g.fetch("bob", session, "out:0"); err != nil {
				t.Errorf("who may: %v", err)
			}
			if name == "a reference to two strings" { // bob has taken from it
				vault(t, g)
			}
			got, err := g.fetch("alice", g.mustOpen("alice", def), "out:0")
			refusedBy(t, fmt.Sprintf("%s gives %v", name, got), err, codes.PermissionDenied, refused)
		})
	}
}

// TestContainersInDatasets has a function of a dataset's graph use a handle that the graph holds in a variant.
func TestContainersInDatasets(t *testing.T) {
	g := guard(t, vaultPolicy, "alice", "bob")
	vault(t, g)
	types, shapes := []tensor.DType{tensor.Int64}, []shape.Shape{shape.Of()}
	inner := drawn(t, func(s *op.Scope) {
		op.NewFunction(s, "Look", []op.Param{{DType: tensor.Int64, Shape: shape.Of()}, {DType: tensor.Variant, Shape: shape.Of()}}, func(s *op.Scope, args []op.Output) []op.Output {
			h := op.TensorListGetItem(s, args[1], op.Const(s, int32(0)), op.Const(s, []int32{}), tensor.Resource)
			return []op.Output{op.ReadVariableOp(s, h, tensor.Int64)}
		})
		one := op.RangeDataset(s, op.Const(s, int64(0)), op.Const(s, int64(1)), op.Const(s, int64(1)), types, shapes)
		op.MapDataset(s.WithName("looking"), one, []op.Output{op.Placeholder(s.WithName("x"), tensor.Variant)}, "Look", types, shapes)
	})
	becomes(t, inner, "x", hidden(forged("vault", "v")))
	dataset := proto.Clone(inner).(*graphpb.GraphDef)
	dataset.Library = nil
	dataset.Node = append(dataset.Node, &nodepb.NodeDef{Name: "dataset", Op: "_Retval", Input: []string{"looking"}})
	text, err := proto.Marshal(dataset)
	if err != nil {
		t.Fatal(err)
	}
	def := drawn(t, func(s *op.Scope) {
		d := op.DatasetFromGraph(s, op.Const(s, string(text)))
		op.Identity(s.WithName("out"), op.DatasetToSingleElement(s, d, types, shapes)[0])
	})
	def.Library = inner.Library
	if got, err := g.fetch("bob", g.mustOpen("bob", def), "out:0"); err != nil || got[0].Tensor.GetTensorContent() == nil && len(got[0].Tensor.GetInt64Val()) == 0 {
		t.Errorf("who may: %v, %v", got, err)
	}
	got, err := g.fetch("alice", g.mustOpen("alice", def), "out:0")
	refusedBy(t, fmt.Sprintf("a dataset's graph gives %v", got), err, codes.PermissionDenied, "client:alice may not use the container vault")
}

// TestDefaultContainerByName checks that both names of the default container are denied.
func TestDefaultContainerByName(t *testing.T) {
	for _, denied := range []string{"", "w"} {
		g := guard(t, fmt.Sprintf("rules: [{who: any, may: [open, reset], containers: {deny: [%q]}}]", denied))
		for _, name := range []string{"", "w"} {
			def := drawn(t, func(s *op.Scope) {
				v := op.VarHandleOp(s, tensor.Int64, shape.Of(), attr.Container(name), attr.SharedName("v"))
				op.AssignVariableOp(s.WithName("set"), v, op.Const(s, int64(1)))
			})
			what := fmt.Sprintf("the container %q where %q is denied", name, denied)
			refusedBy(t, what, g.run("", g.mustOpen("", def), "set"), codes.PermissionDenied, "denied by")
			q := &corepb.ResetRequest{Container: []string{name}}
			refusedBy(t, what+", reset", g.master("", "Reset", q, &corepb.ResetResponse{}), codes.PermissionDenied, "denied by")
		}
	}
}

// TestDeniedOps tries to use a denied op in ways that put no node of it into the client's graph.
func TestDeniedOps(t *testing.T) {
	g := guard(t, `rules: [{who: any, may: open, ops: {deny: [Exp]}}]`)
	gradient := drawn(t, func(s *op.Scope) {
		x := op.Const(s, float32(1))
		op.Identity(s.WithName("out"), op.SymbolicGradient(s, []op.Output{x, x}, []tensor.DType{tensor.Float32}, "Exp")[0])
	})
	for _, n := range gradient.Node {
		if n.Op == "SymbolicGradient" {
			n.Attr["f"].GetFunc().Attr = map[string]*attrpb.AttrValue{"T": dtype(typespb.DataType_DT_FLOAT)}
		}
	}
	got, err := g.fetch("", g.mustOpen("", gradient), "out:0")
	refusedBy(t, fmt.Sprintf("a gradient gives %v", got), err, codes.PermissionDenied, "may not use the op Exp: denied by")
}

// TestDeniedDebugger watches a step as a client that may not use the debugger's ops, or the ops that use files.
func TestDeniedDebugger(t *testing.T) {
	for _, denied := range []string{"Debug*", "@files"} {
		g := guard(t, fmt.Sprintf("rules: [{who: any, may: open, files: all, ops: {deny: [%q]}}]", denied))
		session := g.mustOpen("", drawn(t, func(s *op.Scope) { op.Identity(s.WithName("out"), op.Const(s.WithName("x"), int64(1))) }))
		for _, node := range []string{"x", "no_such_node"} {
			dir := filepath.Join(t.TempDir(), "debug")
			options := &corepb.RunOptions{DebugOptions: &corepb.DebugOptions{DebugTensorWatchOpts: []*corepb.DebugTensorWatch{
				{NodeName: node, DebugOps: []string{"DebugIdentity"}, DebugUrls: []string{"file://" + dir}}}}}
			err := g.master("", "RunStep", &corepb.RunStepRequest{SessionHandle: session, Fetch: []string{"out:0"}, Options: options}, &corepb.RunStepResponse{})
			refusedBy(t, "a step that is watched", err, codes.PermissionDenied, "may not use the op DebugIdentity: denied by")
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("%s is denied, and %s was written", denied, dir)
			}
		}
	}
}

// TestDeniedFiles reads a file through a dataset: the op that has the file's name is not the one that reads it.
func TestDeniedFiles(t *testing.T) {
	g := guard(t, `rules: [{who: any, may: open, files: all, ops: {deny: ["@files"]}}]`)
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	def := drawn(t, func(s *op.Scope) {
		lines := op.TextLineDataset(s, op.Const(s, name), op.Const(s, ""), op.Const(s, int64(0)))
		op.Identity(s.WithName("out"), op.DatasetToSingleElement(s, lines, []tensor.DType{tensor.String}, []shape.Shape{shape.Of()})[0])
	})
	got, err := g.fetch("", g.mustOpen("", def), "out:0")
	refusedBy(t, fmt.Sprintf("a dataset gives %v", got), err, codes.PermissionDenied, `denied by "@files"`)
}

// TestOwnAttributes checks that no client's node passes for one of the runtime's.
func TestOwnAttributes(t *testing.T) {
	g := guard(t, `rules: [{who: any, may: open, ops: {deny: [Exp]}}]`)
	for _, name := range []string{"_user_node", "_endpoint"} {
		def := drawn(t, func(s *op.Scope) { op.Exp(s.WithName("out"), op.Const(s, float32(1))) })
		for _, n := range def.Node {
			if n.Op == "Exp" {
				n.Attr[name] = text("x")
			}
		}
		if _, err := g.open("", def); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestResetsAreInTheAudit has one client open and close sessions as fast as it can while another resets containers.
func TestResetsAreInTheAudit(t *testing.T) {
	g := guard(t, `rules: [{who: "client:alice", may: open}, {who: "client:bob", may: reset}]`, "alice", "bob")
	def := graphOf(&nodepb.NodeDef{Name: "n", Op: "NoOp"})
	for range 300 {
		q := &corepb.CloseSessionRequest{SessionHandle: g.mustOpen("alice", def)}
		if err := g.master("alice", "CloseSession", q, &corepb.CloseSessionResponse{}); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		if err := g.master("bob", "Reset", &corepb.ResetRequest{}, &corepb.ResetResponse{}); err != nil {
			t.Fatal(err)
		}
	}
	log, err := os.ReadFile(g.audit)
	if n := strings.Count(string(log), `"event":"reset","who":"client:bob"`); err != nil || n != 5 {
		t.Errorf("%d of 5 resets are in the audit log, %v", n, err)
	}
}

// TestListsShowWhatMayBeUsed has a client that may only list and open sessions look at another client's work in every possible way. The
// other client's names, containers and errors begin with secret.
func TestListsShowWhatMayBeUsed(t *testing.T) {
	g := guard(t, `rules:
  - {who: "client:bob", may: all}
  - {who: "client:alice", may: [open, list], containers: {deny: ["secret*"]}, devices: {deny: ["*CPU:1"]}}
`, "alice", "bob")
	working := func(prefix string) *graphpb.GraphDef {
		return drawn(t, func(s *op.Scope) {
			in := []attr.Attr{attr.Container(prefix), attr.SharedName(prefix + "_q")}
			q := op.FIFOQueueV2(s.WithName(prefix+"_queue"), []tensor.DType{tensor.Int64}, in...)
			op.Identity(s.WithName(prefix+"_waits"), op.QueueDequeueV2(s.WithName(prefix+"_dequeue"), q, []tensor.DType{tensor.Int64})[0])
			private := op.FIFOQueueV2(s.WithName(prefix+"_private"), []tensor.DType{tensor.Int64})
			op.QueueEnqueueV2(s.WithName(prefix+"_fill"), private, []op.Output{op.Const(s, int64(1))})
			op.GetSessionHandleV2(s.WithName(prefix+"_kept"), op.Const(s, int64(1)))
			bad := op.Const(s, prefix+"_message")
			op.Assert(s.WithName(prefix+"_fails"), op.Const(s, false), []op.Output{bad})
		})
	}
	sessions := map[string]string{}
	for who, prefix := range map[string]string{"alice": "open", "bob": "secret"} {
		handle := g.mustOpen(who, working(prefix))
		sessions[who] = handle
		if err := g.run(who, handle, prefix+"_fill", prefix+"_kept"); err != nil {
			t.Fatal(err)
		}
		if err := g.run(who, handle, prefix+"_fails"); status.Code(err) != codes.InvalidArgument {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- g.run(who, handle, prefix+"_waits") }()
		defer func() {
			if err := g.master(who, "CloseSession", &corepb.CloseSessionRequest{SessionHandle: handle}, &corepb.CloseSessionResponse{}); err != nil {
				t.Error(err)
			}
			<-ended
		}()
	}
	endpoint := observe.Handler(observe.Config{Tasks: served(g.node), Guard: g.node.config.Guard, UI: ui.Handler(g.node.see, ui.WithGraph(g.node.Graph), ui.WithTrace(g.node.Trace))})
	page := func(as, path string) string {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host, r.RemoteAddr = "localhost", "127.0.0.1:40000"
		r.Header.Set("Authorization", "Bearer "+g.tokens[as])
		w := httptest.NewRecorder()
		endpoint.ServeHTTP(w, r)
		return w.Body.String()
	}
	asked := func(method string, q, a proto.Message) func(as string) string {
		return func(as string) string {
			proto.Reset(a)
			if err := g.call(as, method, q, a); err != nil {
				return err.Error()
			}
			return prototext.Format(a)
		}
	}
	got := func(path string) func(as string) string { return func(as string) string { return page(as, path) } }
	for deadline := time.Now().Add(20 * time.Second); ; { // until both steps wait
		seen := asked(wire.OperatorSee, &view.Query{Sections: []string{"steps"}}, &view.Cluster{})("bob")
		if strings.Contains(seen, "secret_dequeue") && strings.Contains(seen, "open_dequeue") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the steps do not wait: %s", seen)
		}
	}
	trace := &view.TraceQuery{Duration: int64(100 * time.Millisecond)}
	for name, look := range map[string]func(as string) string{
		"see":               asked(wire.OperatorSee, &view.Query{Detail: true}, &view.Cluster{}),
		"see one":           asked(wire.OperatorSee, &view.Query{Detail: true, Limit: 1}, &view.Cluster{}),
		"see the cluster":   asked(wire.OperatorSee, &view.Query{Cluster: true}, &view.Cluster{}),
		"status":            asked(wire.OperatorStatus, &wire.StatusRequest{}, &wire.ClusterStatus{}),
		"actors":            asked(wire.OperatorListActors, &wire.ListActorsRequest{}, &wire.TaskActors{}),
		"the other's graph": asked(wire.OperatorGraph, &view.GraphQuery{Session: view.SessionName(sessions["bob"])}, &view.Graph{}),
		"the own graph":     asked(wire.OperatorGraph, &view.GraphQuery{Session: view.SessionName(sessions["alice"])}, &view.Graph{}),
		"trace":             asked(wire.OperatorTrace, trace, &view.Trace{}),
		"devices":           asked("/tensorflow.MasterService/ListDevices", &corepb.ListDevicesRequest{}, &corepb.ListDevicesResponse{}),
		"/api/see":          got("/api/see"),
		"/metrics":          got("/metrics"),
		"/ui/api/see":       got("/ui/api/see"),
		"/ui/api/why":       got("/ui/api/why?longer=0s"),
		"/ui/api/graph":     got("/ui/api/graph?session=" + view.SessionName(sessions["bob"])),
	} {
		all, some := look("bob"), look("alice")
		for _, hidden := range []string{"secret", "client:bob", view.SessionName(sessions["bob"]), "CPU:1"} {
			if strings.Contains(some, hidden) && !strings.Contains(some, "has no session") { // alice asked for it herself
				t.Errorf("%s shows %q to alice:\n%s", name, hidden, some)
			}
		}
		for who, handle := range sessions {
			if strings.Contains(all+some, handle) {
				t.Errorf("%s shows the handle of %s's session", name, who)
			}
		}
		switch name {
		case "see", "see the cluster", "/api/see", "/ui/api/see", "/ui/api/why", "trace":
			for _, own := range []string{"open_dequeue", view.SessionName(sessions["alice"])} {
				if !strings.Contains(some, own) {
					t.Errorf("%s does not show %q to alice:\n%s", name, own, some)
				}
			}
			if !strings.Contains(all, "secret_dequeue") || !strings.Contains(all, "open_dequeue") {
				t.Errorf("%s does not show everything to bob:\n%s", name, all)
			}
		case "the own graph", "see one":
			if !strings.Contains(some, "open_") {
				t.Errorf("%s does not show alice her own:\n%s", name, some)
			}
		}
	}
}

// served returns a node as the only task of an endpoint.
func served(n *Node) *observe.Tasks {
	tasks := &observe.Tasks{}
	tasks.Declare(n.Self().Name())
	tasks.Serve(n.Self().Name(), n)
	return tasks
}

// see is See for the pages.
func (n *Node) see(ctx context.Context, q *view.Query) (*view.Cluster, error) {
	return n.See(ctx, q), nil
}

// TestHomesInOtherContainers checks that a client does not decide where the names of a container live that it may not use.
func TestHomesInOtherContainers(t *testing.T) {
	g := guard(t, vaultPolicy, "alice", "bob")
	variables := drawn(t, func(s *op.Scope) {
		op.VarHandleOp(s, tensor.Int64, shape.Of(), attr.Container("vault"), attr.SharedName("later"))
		op.VarHandleOp(s, tensor.Int64, shape.Of(), attr.Container("mine"), attr.SharedName("now"))
	})
	for _, n := range variables.Node {
		n.Device = ""
	}
	g.mustOpen("alice", variables)
	handle := drawn(t, func(s *op.Scope) {
		for _, names := range [][2]string{{"vault", "later"}, {"mine", "now"}} {
			v := op.VarHandleOp(s, tensor.Int64, shape.Of(), attr.Container(names[0]), attr.SharedName(names[1]))
			op.AssignVariableOp(s.WithName(names[1]), v, op.Const(s, int64(1)))
		}
	})
	if err := g.run("bob", g.mustOpen("bob", handle), "later", "now"); err != nil {
		t.Fatal(err)
	}
	var seen view.Cluster
	if err := g.call("bob", wire.OperatorSee, &view.Query{Sections: []string{"resources"}}, &seen); err != nil {
		t.Fatal(err)
	}
	shared := map[string]bool{}
	for _, r := range seen.Tasks[0].Resources {
		shared[r.Name] = r.Shared
	}
	if !shared["now"] || shared["later"] || len(shared) != 2 {
		t.Errorf("of the resources, these have the home that alice asked for: %v", shared)
	}
}

// TestNamesThatCannotBeShown checks that no client can make a resource whose name prevents others from seeing the list.
func TestNamesThatCannotBeShown(t *testing.T) {
	g := guard(t, vaultPolicy, "alice", "bob")
	for _, device := range []string{"", cpu0} {
		def := drawn(t, func(s *op.Scope) {
			q := op.FIFOQueueV2(s, []tensor.DType{tensor.Int64}, attr.SharedName("\xff"))
			op.QueueEnqueueV2(s.WithName("fill"), q, []op.Output{op.Const(s, int64(1))})
		})
		for _, n := range def.Node {
			n.Device = device
		}
		refusedBy(t, fmt.Sprintf("on %q", device), g.run("alice", g.mustOpen("alice", def), "fill"), codes.InvalidArgument, "names are UTF-8")
	}
	if err := g.call("bob", wire.OperatorSee, &view.Query{Detail: true}, &view.Cluster{}); err != nil {
		t.Error(err)
	}
}

// TestReasonsShowWhatMayBeSeen checks that the error of an overdue step reveals nothing about another client's sessions, even though they
// use the queue that the step waits for.
func TestReasonsShowWhatMayBeSeen(t *testing.T) {
	g := guard(t, vaultPolicy, "alice", "bob")
	graph := func(prefix string) *graphpb.GraphDef {
		return drawn(t, func(s *op.Scope) {
			shared := []attr.Attr{attr.Container("shared"), attr.SharedName("q")}
			q := op.FIFOQueueV2(s.WithName(prefix+"_queue"), []tensor.DType{tensor.Int64}, shared...)
			op.Identity(s.WithName(prefix+"_waits"), op.QueueDequeueV2(s.WithName(prefix+"_dequeue"), q, []tensor.DType{tensor.Int64})[0])
			never := op.QueueDequeueV2(s.WithName(prefix+"_never"), op.FIFOQueueV2(s, []tensor.DType{tensor.Int64}), []tensor.DType{tensor.Int64})
			op.QueueEnqueueV2(s.WithName(prefix+"_later"), q, never)
			op.QueueEnqueueV2(s.WithName(prefix+"_now"), q, []op.Output{op.Const(s, int64(1))})
			op.Assert(s.WithName(prefix+"_fails"), op.Const(s, false), []op.Output{op.Const(s, prefix+"_message")})
		})
	}
	bobs, alices := g.mustOpen("bob", graph("secret")), g.mustOpen("alice", graph("open"))
	overdue := func(as, handle, fetch string) string {
		q := &corepb.RunStepRequest{SessionHandle: handle, Fetch: []string{fetch}, Options: &corepb.RunOptions{TimeoutInMs: 200}}
		err := g.master(as, "RunStep", q, &corepb.RunStepResponse{})
		refusedBy(t, as+" waits", err, codes.DeadlineExceeded, "dequeue from the FIFOQueue 'q'")
		return fmt.Sprint(err)
	}
	hides := func(what string) {
		t.Helper()
		for _, hidden := range []string{"secret", view.SessionName(bobs)} {
			if got := overdue("alice", alices, "open_waits:0"); strings.Contains(got, hidden) {
				t.Errorf("%s, and alice is told of %q: %s", what, hidden, got)
			}
		}
	}
	if err := g.run("bob", bobs, "secret_now", "secret_waits"); err != nil {
		t.Fatal(err)
	}
	if err := g.run("bob", bobs, "secret_fails"); status.Code(err) != codes.InvalidArgument {
		t.Fatal(err)
	}
	hides("bob's step that failed was the last that enqueued")
	if got := overdue("bob", bobs, "secret_waits:0"); !strings.Contains(got, "secret_message") {
		t.Errorf("bob is not told of his own session: %s", got)
	}
	ended := make(chan error, 1)
	go func() { ended <- g.run("bob", bobs, "secret_later") }()
	for seen := (&view.Cluster{}); !strings.Contains(prototext.Format(seen), "secret_never"); { // until the step waits
		if err := g.call("bob", wire.OperatorSee, &view.Query{Sections: []string{"steps"}}, seen); err != nil {
			t.Fatal(err)
		}
	}
	hides("bob's step is going to enqueue")
	if err := g.master("bob", "CloseSession", &corepb.CloseSessionRequest{SessionHandle: bobs}, &corepb.CloseSessionResponse{}); err != nil {
		t.Error(err)
	}
	<-ended
}
