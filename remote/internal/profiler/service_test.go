package profiler

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/internal/http2/http2test"
	pb "github.com/troupe-run/troupe/remote/internal/profiler/profilerpb"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tracer returns what it is told to, and records the query.
type tracer struct {
	asked chan *view.TraceQuery
	trace func(ctx context.Context) (*view.Trace, error)
}

func (r *tracer) Trace(ctx context.Context, q *view.TraceQuery) (*view.Trace, error) {
	r.asked <- q
	return r.trace(ctx)
}

const ps0, worker1 = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:1"

// recorded is a trace of 100 ms of two tasks, the first of which was asked.
func recorded() *view.Trace {
	const ms = int64(time.Millisecond)
	return &view.Trace{Task: ps0, Began: 1000 * ms, Ended: 1100 * ms, Tasks: []*view.TaskTrace{
		{Task: ps0, Events: []*view.TraceEvent{
			{Kind: view.StepEvent, Name: "step", Step: 7, Begin: 1000 * ms, Duration: 20 * ms},
			{Kind: view.StepEvent, Name: "step", Step: 8, Begin: 1020 * ms, Duration: 40 * ms},
			{Kind: view.KernelEvent, Name: "mul", Op: "Mul", Device: ps0 + "/device:CPU:0", Step: 8, Begin: 1015 * ms, Duration: 15 * ms},
			{Kind: view.KernelEvent, Name: "layer/add", Op: "AddV2", Device: ps0 + "/device:CPU:0", Step: 7, Begin: 1010 * ms, Duration: 10 * ms},
			{Kind: view.KernelEvent, Name: "late", Op: "Mul", Device: ps0 + "/device:CPU:0", Step: 8, Begin: 1090 * ms, Duration: 30 * ms}}},
		{Task: worker1, Dropped: 3, Reason: "it was slow", Events: []*view.TraceEvent{
			{Kind: view.StepEvent, Name: "step", Step: 9, Begin: 10 * ms, Duration: 1090 * ms, Unfinished: true},
			{Kind: view.WaitEvent, Name: "take", Op: "QueueDequeueV2", Device: worker1 + "/device:CPU:0", Step: 9, Begin: 20 * ms, Duration: 1080 * ms, Unfinished: true}}}}}
}

// serve starts the service behind a gRPC server, and returns a function that calls it.
func serve(t *testing.T, r *tracer, admit func(context.Context) error) func(ctx context.Context, method string, q, a proto.Message) error {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	Register(http2test.Server{Server: server}, r, func(ctx context.Context) (context.Context, error) { return ctx, admit(ctx) })
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	client, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return func(ctx context.Context, method string, q, a proto.Message) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return client.Invoke(ctx, "/tensorflow.ProfilerService/"+method, q, a)
	}
}

func anybody(context.Context) error { return nil }

// TestProfile checks that a profile has a file for each task: the asked task's is named for the client's host, the others for their tasks.
func TestProfile(t *testing.T) {
	r := &tracer{asked: make(chan *view.TraceQuery, 1), trace: func(context.Context) (*view.Trace, error) { return recorded(), nil }}
	call := serve(t, r, anybody)
	a := &pb.ProfileResponse{}
	q := &pb.ProfileRequest{DurationMs: 5, MaxEvents: 1 << 40, Opts: &pb.ProfileOptions{DurationMs: 250}}
	if err := call(t.Context(), "Profile", q, a); err != nil {
		t.Fatal(err)
	}
	if q := <-r.asked; q.Duration != int64(250*time.Millisecond) || !q.Cluster || q.MaxEvents != maxEvents {
		t.Errorf("the trace was asked for as %v", q)
	}
	if a.EmptyTrace || len(a.ToolData) != 2 || a.ToolData[0].Name != "xplane.pb" || a.ToolData[1].Name != "worker_1.xplane.pb" {
		t.Fatalf("the answer has the files %v", a)
	}
	x := &pb.XSpace{}
	if err := proto.Unmarshal(a.ToolData[0].Data, x); err != nil {
		t.Fatal(err)
	}
	if len(x.Planes) != 1 || x.Planes[0].Name != "/host:CPU" || len(x.Hostnames) != 1 || x.Hostnames[0] != ps0 {
		t.Fatalf("the profile of %s is %v", ps0, x)
	}
	events := map[string]int64{} // picoseconds, by name
	for _, l := range x.Planes[0].Lines {
		for _, e := range l.Events {
			events[x.Planes[0].EventMetadata[e.MetadataId].Name] += e.DurationPs
		}
	}
	if events["layer/add:AddV2"] != 10e9 || events["mul:Mul"] != 15e9 || events["late:Mul"] != 30e9 {
		t.Errorf("the events' picoseconds are %v", events)
	}
	if err := proto.Unmarshal(a.ToolData[1].Data, x); err != nil {
		t.Fatal(err)
	}
	if len(x.Warnings) != 2 || !strings.Contains(x.Warnings[0], "it was slow") || !strings.Contains(x.Warnings[1], "3 events were dropped") {
		t.Errorf("the warnings of %s are %q", worker1, x.Warnings)
	}

	// The client's own field counts if there are no options, and an absurd value is bounded.
	for ms, want := range map[uint64]time.Duration{5: 5 * time.Millisecond, 1 << 63: time.Hour} {
		if err := call(t.Context(), "Profile", &pb.ProfileRequest{DurationMs: ms}, &pb.ProfileResponse{}); err != nil {
			t.Fatal(err)
		}
		if q := <-r.asked; q.Duration != int64(want) {
			t.Errorf("%d ms were asked for as %v", ms, time.Duration(q.Duration))
		}
	}
	r.trace = func(context.Context) (*view.Trace, error) {
		return &view.Trace{Task: ps0, Tasks: []*view.TaskTrace{{Task: ps0}}}, nil
	}
	a = &pb.ProfileResponse{}
	if err := call(t.Context(), "Profile", &pb.ProfileRequest{}, a); err != nil || !a.EmptyTrace {
		t.Errorf("nothing ran: %v, %v", a, err)
	}
}

// TestMonitor checks that overlapping kernels count once, and that time outside the window and unfinished steps do not count.
func TestMonitor(t *testing.T) {
	r := &tracer{asked: make(chan *view.TraceQuery, 1), trace: func(context.Context) (*view.Trace, error) { return recorded(), nil }}
	call := serve(t, r, anybody)
	a := &pb.MonitorResponse{}
	if err := call(t.Context(), "Monitor", &pb.MonitorRequest{DurationMs: 100, Timestamp: true}, a); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Timestamp: 00:00:01\n", ps0 + ": busy 30.0%; 2 steps, 30.000 ms on average (20.000 to 40.000 ms)\n",
		worker1 + ": busy 0.0%; steps that have not ended: 1; 3 events beyond the limit are not counted; it was slow\n"} {
		if !strings.Contains(a.Data, want) {
			t.Errorf("%q is not in\n%s", want, a.Data)
		}
	}
	m := a.MonitorResult
	if m.ResponseType != pb.ProfilerServiceMonitorResult_UTIL_IDLE_STEP || m.DeviceIdleTimePercent != 85 || m.StepTimeMsAvg != 30 || m.StepTimeMsMin != 20 || m.StepTimeMsMax != 40 {
		t.Errorf("the result is %v", m)
	}
}

// TestTerminate checks that Terminate ends only the profiles of its session, which contain what was recorded until then.
func TestTerminate(t *testing.T) {
	r := &tracer{asked: make(chan *view.TraceQuery, 2), trace: func(ctx context.Context) (*view.Trace, error) {
		<-ctx.Done()
		return recorded(), nil
	}}
	call := serve(t, r, anybody)
	ended := map[string]chan error{"mine": make(chan error, 1), "other": make(chan error, 1)}
	for id, end := range ended {
		go func() {
			a := &pb.ProfileResponse{}
			err := call(context.WithoutCancel(t.Context()), "Profile", &pb.ProfileRequest{SessionId: id, DurationMs: 60_000}, a)
			if err == nil && len(a.ToolData) != 2 {
				err = status.Internalf("the profile has %d files", len(a.ToolData))
			}
			end <- err
		}()
	}
	<-r.asked
	<-r.asked
	for _, id := range []string{"unknown", "mine"} {
		if err := call(t.Context(), "Terminate", &pb.TerminateRequest{SessionId: id}, &pb.TerminateResponse{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-ended["mine"]; err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended["other"]:
		t.Errorf("the profile of another session ended: %v", err)
	default:
	}
	if err := call(t.Context(), "Terminate", &pb.TerminateRequest{SessionId: "other"}, &pb.TerminateResponse{}); err != nil {
		t.Fatal(err)
	}
	if err := <-ended["other"]; err != nil {
		t.Error(err)
	}
}

// TestRefusals checks that callers without the right are rejected before anything is recorded, and that the tracer's errors are returned.
func TestRefusals(t *testing.T) {
	r := &tracer{asked: make(chan *view.TraceQuery, 1), trace: func(context.Context) (*view.Trace, error) {
		return nil, status.Errorf(status.ResourceExhausted, "another trace is being recorded")
	}}
	call := serve(t, r, func(context.Context) error { return status.Errorf(status.PermissionDenied, "not you") })
	for method, q := range map[string]proto.Message{"Profile": &pb.ProfileRequest{}, "Monitor": &pb.MonitorRequest{}, "Terminate": &pb.TerminateRequest{}} {
		err := call(t.Context(), method, q, &pb.TerminateResponse{})
		if grpcstatus.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "not you") {
			t.Errorf("%s: %v", method, err)
		}
	}
	if len(r.asked) != 0 {
		t.Error("a trace was recorded for who may not ask")
	}
	call = serve(t, r, anybody)
	for method, q := range map[string]proto.Message{"Profile": &pb.ProfileRequest{}, "Monitor": &pb.MonitorRequest{}} {
		err := call(t.Context(), method, q, &pb.TerminateResponse{})
		if grpcstatus.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "another trace") {
			t.Errorf("%s: %v", method, err)
		}
		<-r.asked
	}
}
