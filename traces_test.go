package troupe

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/tensor"
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

// A run is a span of the client's trace, and so are its parts on other tasks.
func TestTraces(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder), sdk.WithSampler(sdk.ParentBased(sdk.NeverSample())))
	defer provider.Shutdown(context.Background())
	log := &lines{}
	c, err := NewLocalCluster(t.Context(), map[string]int{"ps": 1, "w": 1}, WithTraces(provider), WithLogger(slog.New(slog.NewJSONHandler(log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop(context.Background())
	s := op.NewScope()
	there := s.WithDevice("/job:ps/task:0")
	x := op.Placeholder(s.WithDevice("/job:w/task:0").WithName("x"), tensor.Float32)
	y := op.Neg(there.WithName("y"), x)
	op.PrintV2(there.WithName("told"), op.AsString(there, op.Sum(there, x, op.Const(there, int32(0)))), attr.OutputStream("log(warning)"))
	op.VariableV2(s.WithName("unset"), shape.Of(1), tensor.Float32)
	def, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("passthrough:///"+c.Server("w", 0).Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	call := func(method string, q, a any, traceparent string) error {
		ctx := t.Context()
		if traceparent != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", traceparent)
		}
		return conn.Invoke(ctx, "/tensorflow.MasterService/"+method, q, a)
	}
	opened := &corepb.CreateSessionResponse{}
	if err := call("CreateSession", &corepb.CreateSessionRequest{GraphDef: def}, opened, ""); err != nil {
		t.Fatal(err)
	}
	value, err := tensor.FromValues([]float32{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	defer value.Release()
	fed, err := value.Proto()
	if err != nil {
		t.Fatal(err)
	}
	step := func(traceparent string, fetches []string, targets ...string) error {
		return call("RunStep", &corepb.RunStepRequest{SessionHandle: opened.SessionHandle, Feed: []*corepb.NamedTensorProto{{Name: "x:0", Tensor: fed}}, Fetch: fetches, Target: targets}, &corepb.RunStepResponse{}, traceparent)
	}
	const id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for _, untraced := range []string{"", "00-" + id + "-" + parent + "-00", "nonsense", strings.Repeat("0", 1000)} {
		if err := step(untraced, []string{y.Name()}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(recorder.Started()); n != 0 {
		t.Fatalf("%d spans of calls that are in no trace, or in one that is not recorded", n)
	}
	// The first call has built the plan; a new one is built.
	if err := step("00-"+id+"-"+parent+"-01", nil, "told"); err != nil {
		t.Fatal(err)
	}
	if err := step("00-"+id+"-"+parent+"-01", []string{"unset:0"}); err == nil {
		t.Fatal("a variable was read that is not initialized")
	}
	byName := map[string][]sdk.ReadOnlySpan{}
	for deadline := time.Now().Add(20 * time.Second); len(byName["troupe.run"]) < 2 || len(byName["troupe.part"]) < 2; {
		if time.Now().After(deadline) {
			t.Fatalf("the spans are %v", byName)
		}
		byName = map[string][]sdk.ReadOnlySpan{}
		for _, s := range recorder.Ended() {
			byName[s.Name()] = append(byName[s.Name()], s)
			if s.SpanContext().TraceID().String() != id {
				t.Errorf("%s is in the trace %s", s.Name(), s.SpanContext().TraceID())
			}
		}
	}
	run, failed := byName["troupe.run"][0], byName["troupe.run"][1]
	if run.Parent().SpanID().String() != parent || failed.Status().Description == "" {
		t.Errorf("the run is below %s; of the one that failed is told %v", run.Parent().SpanID(), failed.Status())
	}
	plan, parts := byName["troupe.plan"][0], byName["troupe.part"]
	if plan.Parent().SpanID() != run.SpanContext().SpanID() {
		t.Error("the plan is not below the run")
	}
	outer, inner := parts[0], parts[1]
	if outer.SpanKind() == trace.SpanKindServer {
		outer, inner = inner, outer
	}
	if outer.Parent().SpanID() != run.SpanContext().SpanID() || inner.Parent().SpanID() != outer.SpanContext().SpanID() {
		t.Error("the part is not below its master's span, and this one not below the run")
	}
	told := false
	for _, r := range log.records(t) {
		told = told || r["trace_id"] == id && r["span_id"] == inner.SpanContext().SpanID().String()
	}
	if !told {
		t.Error("what the part logged does not tell the trace")
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
