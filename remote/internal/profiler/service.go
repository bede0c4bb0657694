package profiler

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/internal/http2"
	pb "github.com/troupe-run/troupe/remote/internal/profiler/profilerpb"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"google.golang.org/protobuf/proto"
)

// fileName ends the file names of a profile, after the host's name: TensorBoard takes what precedes it as the name of a host.
const fileName = "xplane.pb"

// Tracer records what runs on a cluster.
type Tracer interface {
	Trace(ctx context.Context, q *view.TraceQuery) (*view.Trace, error)
}

// Service answers the calls of TensorFlow's profiler. Its methods are safe for concurrent use.
type Service struct {
	tracer Tracer

	mu       sync.Mutex
	sessions map[*session]bool
}

// session is a profile being recorded.
type session struct {
	id  string
	end context.CancelFunc
}

// Register adds the service to a port's services. admit rejects callers that may not use it, and returns the context in which their calls
// are answered.
func Register(services http2.Registrar, tracer Tracer, admit func(context.Context) (context.Context, error)) {
	s := &Service{tracer: tracer, sessions: map[*session]bool{}}
	services.Register(http2.Service{Name: "tensorflow.ProfilerService", Methods: map[string]http2.Handler{
		"Profile":   wire.Unary(admit, s.profile),
		"Terminate": wire.Unary(admit, s.terminate),
		"Monitor":   wire.Unary(admit, s.monitor),
	}})
}

// trace records the cluster for a time in milliseconds.
func (s *Service) trace(ctx context.Context, milliseconds, events uint64) (*view.Trace, error) {
	const longest = uint64(time.Hour / time.Millisecond) // keeps the time within a Duration; the tracer has a lower limit
	return s.tracer.Trace(ctx, &view.TraceQuery{Duration: int64(time.Duration(min(milliseconds, longest)) * time.Millisecond), Cluster: true,
		MaxEvents: int64(min(events, maxEvents))})
}

// maxEvents bounds the events of a task in a profile.
const maxEvents = 1 << 17

// profile records for as long as the client says, or until it terminates the session. It returns a file for each task, which the client
// writes to its log directory: the server writes nothing.
func (s *Service) profile(ctx context.Context, q *pb.ProfileRequest) (*pb.ProfileResponse, error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	of := &session{q.GetSessionId(), end}
	s.mu.Lock()
	s.sessions[of] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.sessions, of)
	}()
	long := q.GetOpts().GetDurationMs()
	if long == 0 {
		long = q.GetDurationMs()
	}
	t, err := s.trace(ctx, long, q.GetMaxEvents())
	if err != nil {
		return nil, err
	}
	a := &pb.ProfileResponse{EmptyTrace: true}
	for _, task := range t.GetTasks() {
		if len(task.GetEvents()) > 0 {
			a.EmptyTrace = false
		}
		b, err := proto.Marshal(space(task))
		if err != nil {
			return nil, status.Internalf("The profile of %s cannot be written: %v", task.GetTask(), err)
		}
		name := fileName
		if task.GetTask() != t.GetTask() {
			name = hostName(task.GetTask()) + "." + name
		}
		a.ToolData = append(a.ToolData, &pb.ProfileToolData{Name: name, Data: b})
	}
	return a, nil
}

// hostName returns a task's name as part of a file name: worker_1.
func hostName(task string) string {
	job, index := "", ""
	for part := range strings.SplitSeq(task, "/") {
		switch kind, value, _ := strings.Cut(part, ":"); kind {
		case "job":
			job = value
		case "task":
			index = value
		}
	}
	return job + "_" + index
}

// terminate ends the profiles of a session early: they contain what was recorded until then.
func (s *Service) terminate(_ context.Context, q *pb.TerminateRequest) (*pb.TerminateResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of := range s.sessions {
		if of.id == q.GetSessionId() {
			of.end()
		}
	}
	return &pb.TerminateResponse{}, nil
}

// monitor records for as long as the client says, and reports as text how busy the tasks were and how long their steps took.
func (s *Service) monitor(ctx context.Context, q *pb.MonitorRequest) (*pb.MonitorResponse, error) {
	t, err := s.trace(ctx, q.GetDurationMs(), 0)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	if q.GetTimestamp() {
		fmt.Fprintf(&b, "Timestamp: %s\n", time.Unix(0, t.GetEnded()).UTC().Format(time.TimeOnly))
	}
	all := usage{}
	for _, task := range t.GetTasks() {
		u := usageOf(task, t.GetBegan(), t.GetEnded())
		fmt.Fprintf(&b, "%s: busy %.1f%%", task.GetTask(), 100*float64(u.busy)/float64(u.window))
		if u.steps > 0 {
			fmt.Fprintf(&b, "; %d steps, %.3f ms on average (%.3f to %.3f ms)", u.steps, milli(u.total)/float64(u.steps), milli(u.least), milli(u.most))
			if all.steps == 0 || u.least < all.least {
				all.least = u.least
			}
		}
		if u.running > 0 {
			fmt.Fprintf(&b, "; steps that have not ended: %d", u.running)
		}
		if n := task.GetDropped(); n > 0 {
			fmt.Fprintf(&b, "; %d events beyond the limit are not counted", n)
		}
		if r := task.GetReason(); r != "" {
			fmt.Fprintf(&b, "; %s", r)
		}
		b.WriteString("\n")
		all.steps += u.steps
		all.total += u.total
		all.most = max(all.most, u.most)
		all.busy += u.busy
		all.window += u.window
	}
	r := &pb.ProfilerServiceMonitorResult{ResponseType: pb.ProfilerServiceMonitorResult_UTIL_IDLE,
		DeviceIdleTimePercent: 100 - 100*float64(all.busy)/float64(max(1, all.window))}
	if all.steps > 0 {
		r.ResponseType = pb.ProfilerServiceMonitorResult_UTIL_IDLE_STEP
		r.StepTimeMsAvg, r.StepTimeMsMin, r.StepTimeMsMax = milli(all.total)/float64(all.steps), milli(all.least), milli(all.most)
	}
	return &pb.MonitorResponse{Data: b.String(), MonitorResult: r}, nil
}

func milli(ns int64) float64 { return float64(ns) / 1e6 }
