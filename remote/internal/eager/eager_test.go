package eager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	devpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/device_attributes_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"go.uber.org/goleak"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/gateway"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// contexts are contexts that record what they are asked for.
type contexts map[uint64]*recorder

func (c contexts) Create(_ context.Context, rights actors.Rights, spec actors.EagerSpec) (Context, error) {
	c[spec.ID] = &recorder{contexts: c, spec: spec, rights: rights, fail: map[string]error{}, runs: map[string]func(context.Context) error{}}
	return c[spec.ID], nil
}

func (c contexts) Context(_ context.Context, id uint64) (Context, error) {
	if found := c.Open(id); found != nil {
		return found, nil
	}
	return nil, status.Errorf(status.Aborted, "Unable to find a context_id matching the specified one (%d). Perhaps the worker was restarted, or the context was GC'd?", id)
}

func (c contexts) Open(id uint64) Context {
	if found, ok := c[id]; ok {
		return found
	}
	return nil
}

func (c contexts) All() (all []Context) {
	for _, found := range c {
		all = append(all, found)
	}
	return all
}

type recorder struct {
	contexts contexts
	spec     actors.EagerSpec
	rights   actors.Rights
	done     []string
	fail     map[string]error                       // by what is asked for
	runs     map[string]func(context.Context) error // by the op
}

func (r *recorder) record(format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	r.done = append(r.done, what)
	return r.fail[what]
}

func (r *recorder) ID() uint64            { return r.spec.ID }
func (r *recorder) Handle() string        { return fmt.Sprint("session of ", r.spec.ID) }
func (r *recorder) View() uint64          { return r.spec.View }
func (r *recorder) Rights() actors.Rights { return r.rights }
func (r *recorder) Close(view uint64) {
	if view >= r.spec.View {
		delete(r.contexts, r.spec.ID)
	}
}

func (r *recorder) Devices(func(string) bool) []*devpb.DeviceAttributes {
	return []*devpb.DeviceAttributes{{Name: r.spec.Task + "/device:CPU:0"}}
}

func (r *recorder) Update(view uint64, spec *actors.EagerSpec) error {
	r.spec.View = view
	return r.record("update to %d, %t", view, spec != nil)
}

func (r *recorder) Run(ctx context.Context, op *corepb.Operation) (*corepb.QueueResponse, error) {
	if err := r.record("run %s", op.GetName()); err != nil {
		return nil, err
	}
	if run := r.runs[op.GetName()]; run != nil {
		return nil, run(ctx)
	}
	return &corepb.QueueResponse{Device: []string{op.GetName()}}, nil
}

func (r *recorder) IsSilent(op *corepb.Operation) bool { return op.GetName() == "Assert" }

func (r *recorder) SendTensor(op *corepb.SendTensorOp) error {
	return r.record("send %d", op.GetOpId())
}
func (r *recorder) SendPackedHandle(op *corepb.SendPackedHandleOp) error {
	return r.record("pack %d", op.GetOpId())
}
func (r *recorder) Decref(h *corepb.RemoteTensorHandle) error {
	return r.record("release %d", h.GetOpId())
}
func (r *recorder) Register(f *corepb.RegisterFunctionOp) error {
	return r.record("register %s", f.GetFunctionDef().GetSignature().GetName())
}
func (r *recorder) RemoveFunction(name string) error { return r.record("remove %s", name) }
func (r *recorder) Cleanup(step int64)               { _ = r.record("clean up %d", step) }

func (r *recorder) RunComponent(_ context.Context, q *corepb.RunComponentFunctionRequest) (*corepb.RunComponentFunctionResponse, error) {
	return &corepb.RunComponentFunctionResponse{}, r.record("run component %s", q.GetOperation().GetName())
}

// newTest returns a service without restrictions, and its contexts, among which is 9.
func newTest(t *testing.T) (*service, *recorder) {
	t.Helper()
	all := contexts{}
	s := newService(Config{Contexts: all, RequestMemory: 1 << 30, Log: slog.New(slog.DiscardHandler), Reset: func(context.Context, *gateway.Caller, string) error { return nil }})
	_, err := call[corepb.CreateContextResponse](t.Context(), s, "CreateContext", &corepb.CreateContextRequest{ContextId: 9, ServerDef: serverDef()})
	if err != nil {
		t.Fatal(err)
	}
	return s, all[9]
}

func serverDef() *corepb.ServerDef {
	return &corepb.ServerDef{JobName: "worker", TaskIndex: 1, Cluster: &corepb.ClusterDef{Job: []*corepb.JobDef{
		{Name: "worker", Tasks: map[int32]string{0: "host:1", 1: "host:2"}}, {Name: "localhost", Tasks: map[int32]string{0: "localhost:3"}}}}}
}

// reading returns the function that fills a method's request.
func reading(t interface{ Helper() }, q proto.Message) func(any) error {
	return func(into any) error {
		t.Helper()
		b, err := proto.Marshal(q)
		if err != nil {
			return err
		}
		return into.(*request).UnmarshalWire(mem.BufferSlice{mem.SliceBuffer(b)}, nil)
	}
}

type nothing struct{}

func (nothing) Helper() {}

func call[A any](ctx context.Context, s *service, method string, q proto.Message) (*A, error) {
	answer := s.methods().Methods[method]
	if answer == nil {
		return nil, fmt.Errorf("no method %s", method)
	}
	a, err := answer(ctx, reading(nothing{}, q))
	if err != nil {
		return nil, err
	}
	return a.(*A), nil
}

func operation(name string) *corepb.QueueItem {
	return &corepb.QueueItem{Item: &corepb.QueueItem_Operation{Operation: &corepb.Operation{Name: name}}}
}

// unknownItemOf returns an item with a field that the compiled protocol lacks.
func unknownItemOf(field protowire.Number, value []byte) *corepb.QueueItem {
	item := &corepb.QueueItem{}
	item.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), value))
	return item
}

func enqueueing(items ...*corepb.QueueItem) *corepb.EnqueueRequest {
	return &corepb.EnqueueRequest{ContextId: 9, Queue: items}
}

func expect(t *testing.T, err error, code status.Code, text string) {
	t.Helper()
	if status.CodeOf(err) != code || err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want %v with %q", err, code, text)
	}
}

// TestItems checks that each kind of item reaches its context, in order, and that the first error is the answer and ends the request.
func TestItems(t *testing.T) {
	s, c := newTest(t)
	name := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "f")
	answer, err := call[corepb.EnqueueResponse](t.Context(), s, "Enqueue", enqueueing(
		operation("Add"),
		&corepb.QueueItem{Item: &corepb.QueueItem_SendTensor{SendTensor: &corepb.SendTensorOp{OpId: 1}}},
		&corepb.QueueItem{Item: &corepb.QueueItem_SendPackedHandle{SendPackedHandle: &corepb.SendPackedHandleOp{OpId: 2}}},
		&corepb.QueueItem{Item: &corepb.QueueItem_HandleToDecref{HandleToDecref: &corepb.RemoteTensorHandle{OpId: 3}}},
		&corepb.QueueItem{Item: &corepb.QueueItem_RegisterFunction{RegisterFunction: &corepb.RegisterFunctionOp{}}},
		&corepb.QueueItem{Item: &corepb.QueueItem_CleanupFunction{CleanupFunction: &corepb.CleanupFunctionOp{StepId: -4}}},
		&corepb.QueueItem{Item: &corepb.QueueItem_SyncRemoteExecutorForStream{SyncRemoteExecutorForStream: &corepb.SyncRemoteExecutorForStream{}}},
		unknownItemOf(8, name)))
	if err != nil || len(answer.QueueResponse) != 8 || answer.QueueResponse[0].Device[0] != "Add" {
		t.Fatalf("%v %v", answer, err)
	}
	want := "run Add, send 1, pack 2, release 3, register , clean up -4, remove f"
	if got := strings.Join(c.done, ", "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	c.done, c.fail["run B"] = nil, status.InvalidArgumentf("no B")
	_, err = call[corepb.EnqueueResponse](t.Context(), s, "Enqueue", enqueueing(operation("A"), operation("B"), operation("C")))
	expect(t, err, status.InvalidArgument, "no B")
	if got := strings.Join(c.done, ", "); got != "run A, run B" {
		t.Errorf("ran %s", got)
	}
	_, err = call[corepb.EnqueueResponse](t.Context(), s, "Enqueue", enqueueing(unknownItemOf(77, nil)))
	expect(t, err, status.Unimplemented, "field 77")
	_, err = call[corepb.EnqueueResponse](t.Context(), s, "Enqueue", enqueueing(&corepb.QueueItem{}))
	expect(t, err, status.InvalidArgument, "empty")
	_, err = call[corepb.EnqueueResponse](t.Context(), s, "Enqueue", &corepb.EnqueueRequest{ContextId: 5})
	expect(t, err, status.Aborted, "Unable to find a context_id matching the specified one (5).")
}

// TestContexts checks the life of a context, and what the service reads from its description.
func TestContexts(t *testing.T) {
	s, c := newTest(t)
	if c.spec.Task != "/job:worker/replica:0/task:1" || c.spec.Peers["/job:localhost/replica:0/task:0"] != "localhost:3" || len(c.spec.Peers) != 3 || c.spec.KeepAlive != 0 {
		t.Errorf("%+v", c.spec)
	}
	if a, err := call[corepb.UpdateContextResponse](t.Context(), s, "UpdateContext", &corepb.UpdateContextRequest{ContextId: 9, ContextViewId: 1}); err != nil || len(a.DeviceAttributes) != 0 {
		t.Error(a, err)
	}
	if a, err := call[corepb.UpdateContextResponse](t.Context(), s, "UpdateContext", &corepb.UpdateContextRequest{ContextId: 9, ContextViewId: 2, ServerDef: serverDef()}); err != nil || len(a.DeviceAttributes) != 1 {
		t.Error(a, err)
	}
	if got := strings.Join(c.done, ", "); got != "update to 1, false, update to 2, true" {
		t.Error(got)
	}
	if a, err := call[corepb.KeepAliveResponse](t.Context(), s, "KeepAlive", &corepb.KeepAliveRequest{ContextId: 9}); err != nil || a.ContextViewId != 2 {
		t.Error(a, err)
	}
	for i, view := range []uint64{1, 2, 2} {
		if _, err := call[corepb.CloseContextResponse](t.Context(), s, "CloseContext", &corepb.CloseContextRequest{ContextId: 9, ContextViewId: view}); err != nil {
			t.Error(err)
		}
		if open := s.Contexts.Open(9) != nil; open != (i == 0) {
			t.Errorf("closed with view %d: open is %t", view, open)
		}
	}
	_, err := call[corepb.KeepAliveResponse](t.Context(), s, "KeepAlive", &corepb.KeepAliveRequest{ContextId: 9})
	expect(t, err, status.Aborted, "(9)")
}

// TestDescriptions checks what is refused in the description of a context.
func TestDescriptions(t *testing.T) {
	s, _ := newTest(t)
	for _, c := range []struct {
		change func(*corepb.CreateContextRequest)
		code   status.Code
		text   string
	}{
		{func(q *corepb.CreateContextRequest) { q.ServerDef = nil }, status.InvalidArgument, "task name"},
		{func(q *corepb.CreateContextRequest) { q.ServerDef.TaskIndex = -1 }, status.InvalidArgument, "task name"},
		{func(q *corepb.CreateContextRequest) { q.ServerDef.Cluster.Job[0].Name = "a/b" }, status.InvalidArgument, "task name"},
		{func(q *corepb.CreateContextRequest) { q.ServerDef.Cluster.Job[0].Tasks[3] = "no port" }, status.InvalidArgument, "no port"},
		{func(q *corepb.CreateContextRequest) { q.KeepAliveSecs = 1 << 40 }, status.InvalidArgument, "86400"},
		{func(q *corepb.CreateContextRequest) { q.ServerDef.Protocol = strings.Repeat("x", maxDescription) }, status.ResourceExhausted, "4194304"},
	} {
		q := &corepb.CreateContextRequest{ContextId: 10, ServerDef: serverDef()}
		c.change(q)
		_, err := call[corepb.CreateContextResponse](t.Context(), s, "CreateContext", q)
		expect(t, err, c.code, c.text)
	}
	q := &corepb.CreateContextRequest{ContextId: 10, ServerDef: serverDef(), KeepAliveSecs: 600}
	q.ServerDef.DefaultSessionConfig = &corepb.ConfigProto{ClusterDef: &corepb.ClusterDef{}, IsolateSessionState: true}
	q.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 10, protowire.VarintType), 1))
	if _, err := call[corepb.CreateContextResponse](t.Context(), s, "CreateContext", q); err != nil {
		t.Fatal(err)
	}
	c := s.Contexts.Open(10).(*recorder)
	if c.spec.KeepAlive != 10*time.Minute || !c.spec.Isolated || c.spec.Config.ClusterDef != nil {
		t.Errorf("%+v", c.spec)
	}
	if s.Contexts.Open(9) != nil {
		t.Error("clear_existing_contexts left a context")
	}
}

// The log has each context at the level info and each call at debug, with the method's name on the wire.
func TestLog(t *testing.T) {
	for level, want := range map[slog.Level]string{slog.LevelInfo: "tensorflow.eager.EagerService/CreateContext", slog.LevelDebug: "tensorflow.eager.EagerService/KeepAlive"} {
		var log strings.Builder
		s := newService(Config{Contexts: contexts{}, RequestMemory: 1 << 30, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))})
		if _, err := call[corepb.CreateContextResponse](t.Context(), s, "CreateContext", &corepb.CreateContextRequest{ContextId: 9, ServerDef: serverDef()}); err != nil {
			t.Fatal(err)
		}
		if _, err := call[corepb.KeepAliveResponse](t.Context(), s, "KeepAlive", &corepb.KeepAliveRequest{ContextId: 9}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s is not in the log at level %v:\n%s", want, level, &log)
		}
	}
}

// streaming runs a stream whose requests and answers pass channels.
type streaming struct {
	requests chan *corepb.EnqueueRequest
	answers  chan *corepb.EnqueueResponse
	ended    chan error
}

func stream(ctx context.Context, s *service) *streaming {
	a := &streaming{make(chan *corepb.EnqueueRequest), make(chan *corepb.EnqueueResponse), make(chan error, 1)}
	go func() {
		a.ended <- s.stream(ctx, func(into any) error {
			q, ok := <-a.requests
			if !ok {
				return io.EOF
			}
			return reading(nothing{}, q)(into)
		}, func(answer any) error {
			a.answers <- answer.(*corepb.EnqueueResponse)
			return nil
		})
	}()
	return a
}

// TestStreams checks that a stream answers in order, ends with the client, and ends with the first error.
func TestStreams(t *testing.T) {
	s, c := newTest(t)
	a := stream(t.Context(), s)
	for _, op := range []string{"A", "B"} {
		a.requests <- enqueueing(operation(op))
		if got := <-a.answers; got.QueueResponse[0].Device[0] != op {
			t.Error(got)
		}
	}
	close(a.requests)
	if err := <-a.ended; err != nil {
		t.Error(err)
	}
	c.fail["run C"] = status.InvalidArgumentf("no C")
	a = stream(t.Context(), s)
	a.requests <- enqueueing(operation("C"))
	expect(t, <-a.ended, status.InvalidArgument, "no C")
	// The client waits for no answer of an op without outputs: the next request gets its error.
	c.fail["run Assert"] = status.InvalidArgumentf("assertion failed")
	a = stream(t.Context(), s)
	a.requests <- enqueueing(operation("Assert"))
	<-a.answers
	a.requests <- enqueueing(operation("A"))
	expect(t, <-a.ended, status.InvalidArgument, "assertion failed")
	if last := c.done[len(c.done)-1]; last != "run Assert" {
		t.Errorf("%s was done after the failure", last)
	}
	a = stream(t.Context(), s)
	a.requests <- enqueueing(operation("A"))
	<-a.answers
	close(a.requests)
	if err := <-a.ended; err != nil {
		t.Error(err)
	}
}

// TestCancelledStream checks that the op that runs is cancelled with its stream, and that others and the context go on.
func TestCancelledStream(t *testing.T) {
	s, c := newTest(t)
	started := make(chan struct{})
	c.runs["Dequeue"] = func(ctx context.Context) error {
		close(started)
		<-ctx.Done()
		return status.From(ctx.Err())
	}
	ctx, cancel := context.WithCancel(t.Context())
	a := stream(ctx, s)
	a.requests <- enqueueing(operation("Dequeue"), operation("Never"))
	<-started
	cancel()
	expect(t, <-a.ended, status.Cancelled, "")
	if got := strings.Join(c.done, ", "); got != "run Dequeue" {
		t.Error(got)
	}
	if _, err := call[corepb.EnqueueResponse](t.Context(), s, "Enqueue", enqueueing(operation("A"))); err != nil {
		t.Error(err)
	}
}

// TestWaitQueueDone checks that the call waits for the Enqueues that came before it.
func TestWaitQueueDone(t *testing.T) {
	s, c := newTest(t)
	started, finish := make(chan struct{}), make(chan struct{})
	c.runs["Slow"] = func(context.Context) error {
		close(started)
		<-finish
		return nil
	}
	ended := make(chan error, 2)
	go func() {
		_, err := call[corepb.EnqueueResponse](t.Context(), s, "Enqueue", enqueueing(operation("Slow")))
		ended <- err
	}()
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := call[corepb.WaitQueueDoneResponse](ctx, s, "WaitQueueDone", &corepb.WaitQueueDoneRequest{ContextId: 9})
	expect(t, err, status.Cancelled, "")
	go func() {
		_, err := call[corepb.WaitQueueDoneResponse](t.Context(), s, "WaitQueueDone", &corepb.WaitQueueDoneRequest{ContextId: 9})
		ended <- err
	}()
	close(finish)
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if len(s.running.of) != 0 {
		t.Errorf("%v are counted after their end", s.running.of)
	}
	_, err = call[corepb.WaitQueueDoneResponse](t.Context(), s, "WaitQueueDone", &corepb.WaitQueueDoneRequest{ContextId: 9, OpId: []int64{1}})
	expect(t, err, status.Unimplemented, "op IDs")
}

// TestErrors checks that texts are cut without the line by which clients decide what to do, and the details of errors about handles.
func TestErrors(t *testing.T) {
	const line = "Additional GRPC error information from remote target /job:ps/replica:0/task:0 while calling /tensorflow.WorkerService/RecvTensor:"
	err := toGRPC(status.Errorf(status.Unavailable, "%s\n%s\n%s", strings.Repeat("a", 5000), line, strings.Repeat("b", 5000)))
	if text := status.From(err).Message; len(text) > 3072 || !strings.HasSuffix(text, " ... [truncated]\n"+line) {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	err = toGRPC(status.Errorf(status.Unavailable, "%s", strings.Repeat("é", 5000)))
	if text := status.From(err).Message; len(text) > 3072 || !strings.HasSuffix(text, "é ... [truncated]") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	err = toGRPC(status.InvalidArgumentf("Unable to find the relevant tensor remote_handle: Op ID: 8, Output num: 0"))
	var container corepb.GrpcPayloadContainer
	if found := new(sourced); !errors.As(err, &found) || proto.Unmarshal(found.StatusDetails(), &container) != nil || string(container.Payloads[sourceKey]) != "\x08\x05" {
		t.Errorf("%T has the details %v", err, &container)
	}
	expect(t, err, status.InvalidArgument, "Op ID: 8")
	err = toGRPC(status.Errorf(status.Cancelled, "From /job:worker/replica:0/task:0:\nThe queue is closed"))
	if text := status.From(err).Message; text != "The queue is closed" {
		t.Errorf("a kernel's error: %s", text)
	}
}

// TestRequestsAreBounded checks the limits of large requests of one client and of all.
func TestRequestsAreBounded(t *testing.T) {
	r := requests{limit: 100, of: map[string]int64{}}
	for _, c := range []struct {
		client string
		bytes  int64
		want   string
	}{{"a", 51, "the limit is 50"}, {"a", 30, ""}, {"a", 30, "take 30 bytes"}, {"b", 50, ""}, {"c", 30, "all clients"}} {
		err := r.enter(c.client, "Enqueue", c.bytes)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	r.leave("a", 30)
	r.leave("b", 50)
	if r.all != 0 || len(r.of) != 0 {
		t.Errorf("%d %v", r.all, r.of)
	}
	s, _ := newTest(t)
	s.requests.limit = 2 * largeRequest
	_, err := call[corepb.EnqueueResponse](t.Context(), s, "Enqueue", enqueueing(operation(strings.Repeat("x", largeRequest))))
	expect(t, err, status.ResourceExhausted, "Enqueue")
	if _, err := call[corepb.EnqueueResponse](t.Context(), s, "Enqueue", enqueueing(operation(strings.Repeat("x", largeRequest/2)))); err != nil {
		t.Error(err)
	}
}
