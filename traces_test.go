package troupe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// lines is what a logger has written.
type lines struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *lines) records(t *testing.T) (all []map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for d := json.NewDecoder(&l.out); d.More(); {
		var r map[string]any
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// tracedCluster is a cluster of a ps and a worker that exports its spans, and a client of the worker with a session.
type tracedCluster struct {
	*testing.T
	exporter *tracetest.InMemoryExporter
	conn     *grpc.ClientConn
	handle   string
	log      *lines
	cluster  *LocalCluster
}

// newTracedCluster records the traces that clients sample, and of those that begin here the ones that the sampler
// selects.
func newTracedCluster(t *testing.T, begins sdk.Sampler, build func(s *op.Scope)) *tracedCluster {
	c := &tracedCluster{T: t, exporter: tracetest.NewInMemoryExporter(), log: &lines{}}
	provider := sdk.NewTracerProvider(sdk.WithSyncer(c.exporter), sdk.WithSampler(sdk.ParentBased(begins)))
	var err error
	if c.cluster, err = NewLocalCluster(t.Context(), map[string]int{"ps": 1, "w": 1}, WithTraces(provider), WithLogger(slog.New(slog.NewJSONHandler(c.log, nil)))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.cluster.Stop(context.Background()), provider.Shutdown(context.Background())); err != nil {
			t.Error(err)
		}
	})
	s := op.NewScope()
	build(s)
	def, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	if c.conn, err = grpc.NewClient("passthrough:///"+c.cluster.Server("w", 0).Address(), grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.conn.Close() })
	opened := &corepb.CreateSessionResponse{}
	if err := c.call("CreateSession", &corepb.CreateSessionRequest{GraphDef: def}, opened); err != nil {
		t.Fatal(err)
	}
	c.handle = opened.SessionHandle
	return c
}

// call calls the worker's master. headers are alternating names and values.
func (c *tracedCluster) call(method string, q, a any, headers ...string) error {
	ctx, cancel := context.WithTimeout(c.Context(), extent.Slack(20*time.Second))
	defer cancel()
	return c.conn.Invoke(metadata.AppendToOutgoingContext(ctx, headers...), "/tensorflow.MasterService/"+method, q, a)
}

// step runs a step that x is fed to.
func (c *tracedCluster) step(fetches, targets []string, headers ...string) error {
	return c.call("RunStep", &corepb.RunStepRequest{SessionHandle: c.handle, Feed: []*corepb.NamedTensorProto{{Name: "x:0", Tensor: vector(c.T)}}, Fetch: fetches, Target: targets},
		&corepb.RunStepResponse{}, headers...)
}

// vector is the tensor [1, 2].
func vector(t *testing.T) *tensorpb.TensorProto {
	value, err := tensor.FromValues([]float32{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	defer value.Release()
	p, err := value.Proto()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// spans returns the spans of a name, once there are n of them.
func (c *tracedCluster) spans(name string, n int) (all tracetest.SpanStubs) {
	c.Helper()
	for deadline := time.Now().Add(20 * time.Second); len(all) < n; runtime.Gosched() {
		if time.Now().After(deadline) {
			c.Fatalf("there are %d spans %s, not %d, of %d in all", len(all), name, n, len(c.exporter.GetSpans()))
		}
		all = slices.DeleteFunc(c.exporter.GetSpans(), func(s tracetest.SpanStub) bool { return s.Name != name })
	}
	if len(all) > n {
		c.Fatalf("there are %d spans %s, not %d", len(all), name, n)
	}
	return all
}

// below reports whether parent is the span's parent.
func below(s, parent tracetest.SpanStub) bool {
	return s.Parent.SpanID() == parent.SpanContext.SpanID() && s.SpanContext.TraceID() == parent.SpanContext.TraceID()
}

// attributeOf returns an attribute of a span, or nil if the span does not have it.
func attributeOf(s tracetest.SpanStub, key string) any {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value.AsInterface()
		}
	}
	return nil
}

// A client's trace, as its header says.
const (
	traceID     = "0af7651916cd43dd8448eb211c80319c"
	clientSpan  = "b7ad6b7169203331"
	traceparent = "00-" + traceID + "-" + clientSpan + "-01"
)

// onTwoTasks builds a graph whose y is computed on the ps from x, which is fed on the worker.
func onTwoTasks(s *op.Scope) {
	there := s.WithDevice("/job:ps/task:0")
	x := op.Placeholder(s.WithDevice("/job:w/task:0").WithName("x"), tensor.Float32)
	op.Neg(there.WithName("y"), x)
	op.PrintV2(there.WithName("told"), op.AsString(there, op.Sum(there, x, op.Const(there, int32(0)))), attr.OutputStream("log(warning)"))
	op.CheckNumerics(there.WithName("numbers"), op.Log(there, op.Neg(there, x)), strings.Repeat("no number ", 1000))
	op.VariableV2(s.WithName("unset"), shape.Of(1), tensor.Float32)
}

// A run has a span in the client's trace, and so do its parts on other tasks.
func TestTraces(t *testing.T) {
	parallel(t)
	c := newTracedCluster(t, sdk.NeverSample(), onTwoTasks)
	for _, untraced := range []string{"", "00-" + traceID + "-" + clientSpan + "-00", "nonsense", strings.Repeat("0", 1000)} {
		if err := c.step([]string{"y:0"}, nil, "traceparent", untraced); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(c.exporter.GetSpans()); n != 0 {
		t.Fatalf("%d spans of calls that are in no trace, or in one that is not recorded", n)
	}
	// The first call has built the plan; a new one is built.
	if err := c.step(nil, []string{"told"}, "traceparent", traceparent); err != nil {
		t.Fatal(err)
	}
	run, plan, parts := c.spans("troupe.run", 1)[0], c.spans("troupe.plan", 1)[0], c.spans("troupe.part", 2)
	for _, s := range c.exporter.GetSpans() {
		if s.SpanContext.TraceID().String() != traceID || s.Status.Code != codes.Unset {
			t.Errorf("%s is in the trace %s, with the status %v", s.Name, s.SpanContext.TraceID(), s.Status)
		}
	}
	if run.Parent.SpanID().String() != clientSpan {
		t.Errorf("the run is below %s", run.Parent.SpanID())
	}
	if !below(plan, run) {
		t.Error("the plan is not below the run")
	}
	outer, inner := parts[0], parts[1]
	if outer.SpanKind == trace.SpanKindServer {
		outer, inner = inner, outer
	}
	if !below(outer, run) || !below(inner, outer) {
		t.Error("the part is not below its master's span, and this one not below the run")
	}
	told := false
	for _, r := range c.log.records(t) {
		told = told || r["trace_id"] == traceID && r["span_id"] == inner.SpanContext.SpanID().String()
	}
	if !told {
		t.Error("what the part logged does not tell the trace")
	}
}

// The span of a failure has the error: its code, and the beginning of its message.
func TestTracesOfFailedRuns(t *testing.T) {
	parallel(t)
	c := newTracedCluster(t, sdk.AlwaysSample(), onTwoTasks)
	for _, failing := range []struct{ fetch, code string }{{"unset:0", "FAILED_PRECONDITION"}, {"numbers:0", "INVALID_ARGUMENT"}, {"missing:0", "NOT_FOUND"}} {
		c.exporter.Reset()
		if err := c.step([]string{failing.fetch}, nil); err == nil {
			t.Fatalf("%s was fetched", failing.fetch)
		}
		run := c.spans("troupe.run", 1)[0]
		if says := run.Status.Description; run.Status.Code != codes.Error || says == "" || len(says) > 1100 || !utf8.ValidString(says) {
			t.Errorf("the run of %s has the status %v %.200s, of %d bytes", failing.fetch, run.Status.Code, says, len(says))
		}
		if got := attributeOf(run, "error.type"); got != failing.code {
			t.Errorf("the run of %s has the error %v, not %s", failing.fetch, got, failing.code)
		}
		if failing.fetch != "numbers:0" {
			continue
		}
		if n := len(run.Status.Description); n < 1000 {
			t.Errorf("of a message of more than 10,000 bytes %d are told", n)
		}
		for _, part := range c.spans("troupe.part", 2) {
			if part.Status.Code != codes.Error || attributeOf(part, "error.type") != failing.code {
				t.Errorf("a part that failed has the status %v", part.Status)
			}
		}
	}
}

// Receives from other tasks have spans below that of the part.
func TestTracesOfTransfers(t *testing.T) {
	parallel(t)
	c := newTracedCluster(t, sdk.AlwaysSample(), onTwoTasks)
	if err := c.step([]string{"y:0"}, nil); err != nil {
		t.Fatal(err)
	}
	run, parts, transfers := c.spans("troupe.run", 1)[0], c.spans("troupe.part", 2), c.spans("troupe.transfer", 2)
	inner := parts[slices.IndexFunc(parts, func(s tracetest.SpanStub) bool { return s.SpanKind == trace.SpanKindServer })]
	const w, ps = "/job:w/replica:0/task:0/device:CPU:0", "/job:ps/replica:0/task:0/device:CPU:0"
	there, back := transfers[0], transfers[1]
	if attributeOf(there, "troupe.source") != w {
		there, back = back, there
	}
	for _, of := range []struct {
		span, parent tracetest.SpanStub
		want         map[string]any
	}{
		{there, inner, map[string]any{"troupe.source": w, "troupe.destination": ps, "troupe.bytes": int64(8), "troupe.dtype": "float", "troupe.shape": "[2]"}},
		{back, run, map[string]any{"troupe.source": ps, "troupe.destination": w, "troupe.bytes": int64(8), "troupe.dtype": "float", "troupe.shape": "[2]"}},
	} {
		if !below(of.span, of.parent) {
			t.Errorf("a transfer is not below what receives it, %s", of.parent.Name)
		}
		for key, want := range of.want {
			if got := attributeOf(of.span, key); got != want {
				t.Errorf("a transfer's %s is %v, not %v", key, got, want)
			}
		}
		if edge, _ := attributeOf(of.span, "troupe.edge").(string); edge == "" {
			t.Error("a transfer has no edge")
		}
		if of.span.EndTime.Before(of.span.StartTime) || of.span.StartTime.Before(run.StartTime) || of.span.EndTime.After(run.EndTime) {
			t.Errorf("a transfer lasts from %v to %v, and the run from %v to %v", of.span.StartTime, of.span.EndTime, run.StartTime, run.EndTime)
		}
	}
	if got := attributeOf(inner, "troupe.transfers_omitted"); got != nil {
		t.Errorf("%v transfers are left out", got)
	}
}

// A part that receives many tensors has spans for some of them, and says how many it leaves out.
func TestTracesOfManyTransfers(t *testing.T) {
	parallel(t)
	const many = 200
	c := newTracedCluster(t, sdk.AlwaysSample(), func(s *op.Scope) {
		here, there := s.WithDevice("/job:w/task:0"), s.WithDevice("/job:ps/task:0")
		x := op.Placeholder(here.WithName("x"), tensor.Float32)
		var all []op.Output
		for i := range many {
			all = append(all, op.Mul(there, op.Mul(here, x, op.Const(here, float32(i))), op.Const(there, float32(i))))
		}
		op.AddN(there.WithName("sum"), all)
	})
	if err := c.step(nil, []string{"sum"}); err != nil {
		t.Fatal(err)
	}
	var omitted any
	for _, part := range c.spans("troupe.part", 2) {
		if part.SpanKind == trace.SpanKindServer {
			omitted = attributeOf(part, "troupe.transfers_omitted")
		}
	}
	n := len(slices.DeleteFunc(c.exporter.GetSpans(), func(s tracetest.SpanStub) bool { return s.Name != "troupe.transfer" }))
	if left, _ := omitted.(int64); n+int(left) != many || left == 0 {
		t.Errorf("%d transfers have spans, and %v are left out, of %d", n, omitted, many)
	}
}

// A client's tracestate is passed to all tasks. A malformed one is dropped, and the trace continues.
func TestTracestate(t *testing.T) {
	parallel(t)
	c := newTracedCluster(t, sdk.NeverSample(), onTwoTasks)
	for _, sent := range []struct {
		state []string // of a header each
		want  string
	}{
		{[]string{"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"}, "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"},
		{[]string{"rojo=1", "congo=2"}, "rojo=1,congo=2"},
		{[]string{"Not A State"}, ""},
		{[]string{"rojo=1,rojo=2"}, ""},
		{[]string{"a=" + strings.Repeat("x", 200), "b=" + strings.Repeat("y", 200), "c=1"}, "a=" + strings.Repeat("x", 200) + ",b=" + strings.Repeat("y", 200) + ",c=1"},
		{slices.Repeat([]string{"a=" + strings.Repeat("x", 200)}, 20), ""},
		{nil, ""},
	} {
		c.exporter.Reset()
		headers := []string{"traceparent", traceparent}
		for _, s := range sent.state {
			headers = append(headers, "tracestate", s)
		}
		if err := c.step([]string{"y:0"}, nil, headers...); err != nil {
			t.Fatal(err)
		}
		c.spans("troupe.run", 1)
		c.spans("troupe.part", 2)
		for _, s := range c.exporter.GetSpans() {
			if got := s.SpanContext.TraceState().String(); got != sent.want || s.SpanContext.TraceID().String() != traceID {
				t.Errorf("tracestate %.60q: %s has the state %q, not %q, in the trace %s", sent.state, s.Name, got, sent.want, s.SpanContext.TraceID())
			}
		}
	}
}

// A partial run has a span from its setup to its end, and each call that feeds or fetches has a span of its own.
func TestTracesOfPartialRuns(t *testing.T) {
	parallel(t)
	c := newTracedCluster(t, sdk.NeverSample(), onTwoTasks)
	setup := func(fetch string, headers ...string) string {
		a := &corepb.PartialRunSetupResponse{}
		if err := c.call("PartialRunSetup", &corepb.PartialRunSetupRequest{SessionHandle: c.handle, Feed: []string{"x:0"}, Fetch: []string{fetch}}, a, headers...); err != nil {
			t.Fatal(err)
		}
		return a.PartialRunHandle
	}
	part := func(handle, fetch string, headers ...string) error {
		return c.call("RunStep", &corepb.RunStepRequest{SessionHandle: c.handle, PartialRunHandle: handle,
			Feed: []*corepb.NamedTensorProto{{Name: "x:0", Tensor: vector(t)}}, Fetch: []string{fetch}}, &corepb.RunStepResponse{}, headers...)
	}
	if err := part(setup("y:0"), "y:0"); err != nil {
		t.Fatal(err)
	}
	if n := len(c.exporter.GetSpans()); n != 0 {
		t.Fatalf("%d spans of calls that are in no trace", n)
	}

	// A call without a trace is below the run.
	if err := part(setup("y:0", "traceparent", traceparent), "y:0"); err != nil {
		t.Fatal(err)
	}
	run, call := c.spans("troupe.run", 1)[0], c.spans("troupe.partial_run", 1)[0]
	if run.Parent.SpanID().String() != clientSpan || attributeOf(run, "troupe.partial") != true {
		t.Errorf("the partial run is below %s, with the attributes %v", run.Parent.SpanID(), run.Attributes)
	}
	if !below(call, run) || attributeOf(call, "troupe.step") != attributeOf(run, "troupe.step") || attributeOf(run, "troupe.step") == nil {
		t.Errorf("the call is not below its run: %v", call.Attributes)
	}
	c.spans("troupe.part", 2)
	c.spans("troupe.transfer", 2)

	// A call in another trace has its span there, with a link to the run's.
	c.exporter.Reset()
	const another = "4bf92f3577b34da6a3ce929d0e0e4736"
	if err := part(setup("numbers:0", "traceparent", traceparent), "numbers:0", "traceparent", "00-"+another+"-"+clientSpan+"-01"); err == nil {
		t.Fatal("numbers that are none were fetched")
	}
	run, call = c.spans("troupe.run", 1)[0], c.spans("troupe.partial_run", 1)[0]
	if call.SpanContext.TraceID().String() != another || len(call.Links) != 1 || !call.Links[0].SpanContext.Equal(run.SpanContext) {
		t.Errorf("the call is in the trace %s, with the links %v", call.SpanContext.TraceID(), call.Links)
	}
	for _, s := range []tracetest.SpanStub{run, call} {
		if s.Status.Code != codes.Error || attributeOf(s, "error.type") != "INVALID_ARGUMENT" {
			t.Errorf("%s, which failed, has the status %v and the attributes %v", s.Name, s.Status, s.Attributes)
		}
	}

	// A setup that fails, and a call of no partial run, have their errors.
	c.exporter.Reset()
	if err := c.call("PartialRunSetup", &corepb.PartialRunSetupRequest{SessionHandle: c.handle, Fetch: []string{"missing:0"}}, &corepb.PartialRunSetupResponse{}, "traceparent", traceparent); err == nil {
		t.Error("a partial run of a node that is not there was set up")
	}
	if err := part("none", "y:0", "traceparent", traceparent); err == nil {
		t.Error("a partial run that is not there went on")
	}
	for _, s := range []tracetest.SpanStub{c.spans("troupe.run", 1)[0], c.spans("troupe.partial_run", 1)[0]} {
		if s.Status.Code != codes.Error || s.Parent.SpanID().String() != clientSpan {
			t.Errorf("%s has the status %v, below %s", s.Name, s.Status, s.Parent.SpanID())
		}
	}
}

// A program's span is the parent of the runs of its sessions in the process.
func TestTracesOfSessionsInTheProcess(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))
	defer provider.Shutdown(context.Background())
	server, err := NewLocalServer(t.Context(), silent, WithTraces(provider))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop(context.Background())
	session, err := server.NewSession(t.Context(), nothing(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close(context.Background())
	callable, err := session.PrepareStep(t.Context(), &corepb.CallableOptions{Target: []string{"nothing"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, own := provider.Tracer("program").Start(t.Context(), "epoch")
	if _, err := session.Run(ctx, nil, nil, []string{"nothing"}); err != nil {
		t.Fatal(err)
	}
	if _, err := callable.Run(ctx); err != nil {
		t.Fatal(err)
	}
	own.End()
	runs := 0
	for _, s := range recorder.Ended() {
		if s.Name() == "troupe.run" && s.Parent().SpanID() == own.SpanContext().SpanID() {
			runs++
		}
	}
	if runs != 2 {
		t.Errorf("%d runs are below the program's span", runs)
	}
}
