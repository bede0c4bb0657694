package remote

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	troupestatus "github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/network/simnet"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/gateway"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/port"
	"github.com/troupe-run/troupe/remote/internal/profiler"
	pb "github.com/troupe-run/troupe/remote/internal/profiler/profilerpb"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/member"
	"github.com/troupe-run/troupe/remote/spec"
)

// strangers are two tasks of a cluster that do not know of each other: the network between them is cut until connect is called.
type strangers struct {
	*testing.T
	net     *simnet.Net
	nodes   [2]*Node
	drained chan time.Duration // what the second task is asked to do
}

// startStrangers must be called in a synctest bubble.
func startStrangers(t *testing.T) *strangers {
	t.Helper()
	s := &strangers{T: t, net: simnet.New(1), drained: make(chan time.Duration, 1)}
	s.net.Delay(time.Millisecond)
	s.net.Cut(s.host(0), s.host(1), true)
	s.start(0)
	s.start(1)
	return s
}

func (s *strangers) start(task int) {
	s.Helper()
	cluster, err := spec.New(map[string]map[int]string{"w": {0: s.host(0).Address(2222), 1: s.host(1).Address(2222)}})
	if err != nil {
		s.Fatal(err)
	}
	n, err := Start(s.Context(), Config{Spec: cluster, Job: "w", Task: task, CPUs: 2, Threads: 1, Network: s.host(task).Process(), Log: quiet,
		End: func(within time.Duration) { s.drained <- within }})
	if err != nil {
		s.Fatal(err)
	}
	s.nodes[task] = n
	s.Cleanup(func() {
		if err := n.Stop(context.Background()); err != nil {
			s.Error(err)
		}
		<-time.After(time.Minute) // gossip's probes outlive the task by their timeouts
	})
}

func (s *strangers) host(task int) *simnet.Host {
	return s.net.Host([]string{"10.0.0.1", "10.0.0.2"}[task])
}

// connect connects the tasks. The next request is sent before either can have learned of the other.
func (s *strangers) connect() {
	s.Helper()
	if other := s.nodes[0].Status()[1]; other.State == view.StateUp {
		s.Fatalf("%s has been heard of", other.Task)
	}
	s.net.Cut(s.host(0), s.host(1), false)
}

// call calls a method of a task.
func (s *strangers) call(task int, method string, q, a proto.Message) error {
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
	defer cancel()
	call := port.Caller(s.net.Host("10.0.0.9").Process(), nil)
	return call(ctx, s.nodes[task].Address(), method, q, a)
}

func (s *strangers) must(task int, method string, q, a proto.Message) {
	s.Helper()
	if err := s.call(task, method, q, a); err != nil {
		s.Fatalf("%s: %v", method, err)
	}
}

const masterService = "/tensorflow.MasterService/"

// open opens a session on a task.
func (s *strangers) open(task int, build func(g *op.Scope)) (handle string) {
	s.Helper()
	g := op.NewScope()
	build(g)
	def, err := g.GraphDef()
	if err != nil {
		s.Fatal(err)
	}
	a := &corepb.CreateSessionResponse{}
	s.must(task, masterService+"CreateSession", &corepb.CreateSessionRequest{GraphDef: def, Config: &corepb.ConfigProto{}}, a)
	return a.SessionHandle
}

// queue adds an empty queue, and the op that takes an element from it.
func queue(g *op.Scope) {
	op.NewFIFOQueue(g, []tensor.DType{tensor.Float32}, attr.SharedName("q")).Dequeue(g.WithName("take"))
}

// blocked starts a step on a task that waits for an element, and returns its number.
func (s *strangers) blocked(task int) (id uint64, ended <-chan error) {
	s.Helper()
	handle, done := s.open(task, queue), make(chan error, 1)
	go func() {
		done <- s.call(task, masterService+"RunStep", &corepb.RunStepRequest{SessionHandle: handle, Target: []string{"take"}}, &corepb.RunStepResponse{})
	}()
	synctest.Wait()
	<-time.After(10 * time.Millisecond) // while the request travels
	seen := &view.Cluster{}
	s.must(task, wire.OperatorSee, &view.Query{Sections: []string{"steps"}}, seen)
	if steps := seen.Tasks[task].Steps; len(steps) == 1 {
		return steps[0].Id, done
	}
	s.Fatalf("no step runs: %v", seen.Tasks[task])
	return 0, nil
}

// asked are all calls that a task serves for clients and operators, with the test of each for a cluster whose other task is not known yet.
// Calls that concern only the asked task or a session have the reason instead of a test.
var asked = map[string]struct {
	test func(s *strangers, method string)
	not  string
}{
	wire.OperatorStatus: {test: func(s *strangers, method string) {
		s.connect()
		a := &wire.ClusterStatus{}
		s.must(0, method, &wire.StatusRequest{}, a)
		for _, t := range a.Tasks {
			if t.State != view.StateUp || len(t.Devices) != 2 {
				s.Errorf("%s is %s (%s), with the devices %v", t.Task, t.State, t.Reason, t.Devices)
			}
		}
	}},
	wire.OperatorSee: {test: func(s *strangers, method string) {
		s.connect()
		seen := &view.Cluster{}
		s.must(0, method, &view.Query{Cluster: true}, seen)
		for _, t := range seen.Tasks {
			if t.State != view.StateUp || t.Process == nil || len(t.Devices) != 2 {
				s.Errorf("%s is %s (%s): %v", t.Task, t.State, t.Reason, t)
			}
		}
	}},
	wire.OperatorGraph: {test: func(s *strangers, method string) {
		handle := s.open(1, queue)
		s.connect()
		a := &view.Graph{}
		s.must(0, method, &view.GraphQuery{Task: s.nodes[1].Self().Name(), Session: view.SessionName(handle)}, a)
		if a.Nodes < 2 {
			s.Errorf("the graph is %v", a)
		}
	}},
	wire.OperatorTrace: {test: func(s *strangers, method string) {
		s.connect()
		a := &view.Trace{}
		s.must(0, method, &view.TraceQuery{Duration: int64(time.Second), Cluster: true}, a)
		if len(a.Tasks) != 2 {
			s.Fatalf("%d tasks", len(a.Tasks))
		}
		for _, t := range a.Tasks {
			if t.Reason != "" || t.Clock == 0 {
				s.Errorf("%s was not traced: %s", t.Task, t.Reason)
			}
		}
	}},
	wire.OperatorCancelStep: {test: func(s *strangers, method string) {
		id, ended := s.blocked(1)
		s.connect()
		s.must(0, method, &wire.CancelStepRequest{Step: id}, &wire.CancelStepAnswer{})
		if err := <-ended; status.Code(err) != codes.Canceled {
			s.Errorf("the step ended with %v", err)
		}
	}},
	wire.OperatorDrain: {test: func(s *strangers, method string) {
		s.connect()
		s.must(0, method, &wire.DrainRequest{Task: s.nodes[1].Self().Name(), Within: int64(time.Minute)}, &wire.DrainAnswer{})
		if within := <-s.drained; within != time.Minute {
			s.Errorf("the task is to end within %v", within)
		}
	}},
	wire.OperatorListActors: {not: "lists actors of the asked task"},

	profilerService + "Profile": {test: func(s *strangers, method string) {
		s.connect()
		a := &pb.ProfileResponse{}
		s.must(0, method, &pb.ProfileRequest{DurationMs: 100}, a)
		if len(a.ToolData) != 2 {
			s.Errorf("the profile has %d tasks", len(a.ToolData))
		}
		for _, file := range a.ToolData {
			space := &pb.XSpace{}
			if err := proto.Unmarshal(file.Data, space); err != nil || len(space.Warnings) > 0 {
				s.Errorf("%s: %v, %q", file.Name, err, space.Warnings)
			}
		}
	}},
	profilerService + "Monitor": {test: func(s *strangers, method string) {
		s.connect()
		a := &pb.MonitorResponse{}
		s.must(0, method, &pb.MonitorRequest{DurationMs: 100}, a)
		if strings.Count(a.Data, "busy 0.0%\n") != 2 {
			s.Errorf("the tasks are\n%s", a.Data)
		}
	}},
	profilerService + "Terminate": {not: "ends a profile that the asked task collects"},

	masterService + "CreateSession": {test: func(s *strangers, _ string) {
		s.connect()
		handle := s.open(0, func(g *op.Scope) { op.NoOp(g.WithDevice("/job:w/task:1/device:CPU:1").WithName("there")) })
		s.must(0, masterService+"RunStep", &corepb.RunStepRequest{SessionHandle: handle, Target: []string{"there"}}, &corepb.RunStepResponse{})
	}},
	masterService + "ListDevices": {test: func(s *strangers, method string) {
		s.connect()
		a := &corepb.ListDevicesResponse{}
		s.must(0, method, &corepb.ListDevicesRequest{}, a)
		if len(a.LocalDevice) != 2 || len(a.RemoteDevice) != 2 {
			s.Errorf("the devices are %v and %v", a.LocalDevice, a.RemoteDevice)
		}
	}},
	masterService + "Reset": {test: func(s *strangers, method string) {
		_, ended := s.blocked(1)
		s.connect()
		s.must(0, method, &corepb.ResetRequest{}, &corepb.ResetResponse{})
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "was deleted") {
			s.Errorf("the step that waits for the queue ended with %v", err)
		}
		seen := &view.Cluster{}
		s.must(1, wire.OperatorSee, &view.Query{Sections: []string{"resources"}}, seen)
		if left := seen.Tasks[1].Resources; len(left) > 0 {
			s.Errorf("the reset left %v", left)
		}
	}},
	masterService + "ExtendSession":   {not: ofSession},
	masterService + "PartialRunSetup": {not: ofSession},
	masterService + "RunStep":         {not: ofSession},
	masterService + "CloseSession":    {not: ofSession},
	masterService + "MakeCallable":    {not: ofSession},
	masterService + "RunCallable":     {not: ofSession},
	masterService + "ReleaseCallable": {not: ofSession},
}

const (
	profilerService = "/tensorflow.ProfilerService/"
	ofSession       = "concerns a session, which has found the tasks when it was created"
)

// registered collects the full names of methods.
type registered []string

func (r *registered) Register(s http2.Service) {
	for name := range s.Methods {
		*r = append(*r, "/"+s.Name+"/"+name)
	}
	slices.Sort(*r)
}

// TestTasksThatWereNotHeardOf checks that what is asked of all tasks of a cluster is also asked of those that the asked task has not
// learned of yet, as after a start.
func TestTasksThatWereNotHeardOf(t *testing.T) {
	var served registered
	wire.RegisterOperator(&served, (*Node)(nil), nil, nil)
	profiler.Register(&served, nil, nil)
	served.Register((*gateway.Gateway)(nil).Service())
	for _, method := range served {
		how, known := asked[method]
		if !known {
			t.Errorf("%s has no test with tasks that were not heard of, and no reason why it needs none", method)
		}
		if how.test != nil {
			t.Run(strings.Trim(method, "/"), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { how.test(startStrangers(t), method) })
			})
		}
	}
	for method := range asked {
		if !slices.Contains(served, method) {
			t.Errorf("%s is not served", method)
		}
	}
}

// TestTasksThatAreNotThere checks that a task that is not up is named, with the reason. If nobody listens, that takes no time. If the host
// is gone, callers wait for it, but not every one of them.
func TestTasksThatAreNotThere(t *testing.T) {
	for name, hostGone := range map[string]bool{"process": false, "host": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &strangers{T: t, net: simnet.New(1)}
				s.host(1).Freeze(hostGone)
				s.start(0)
				why, wait := "refused", time.Duration(0)
				if hostGone {
					why, wait = "did not answer", member.LocateTime
				}
				expect := func(what, reason string, most time.Duration, since time.Time) {
					t.Helper()
					if !strings.Contains(reason, "never seen") || !strings.Contains(reason, why) {
						t.Errorf("%s: the reason is %q, which lacks that the task was never seen, or %q", what, reason, why)
					}
					if took := time.Since(since); took > most {
						t.Errorf("%s took %v, more than %v", what, took, most)
					}
				}
				const moment = 100 * time.Millisecond
				began := time.Now()
				trace, err := s.nodes[0].Trace(t.Context(), &view.TraceQuery{Duration: int64(time.Second), Cluster: true})
				if err != nil || len(trace.Tasks) != 2 {
					t.Fatalf("%v, %v", trace, err)
				}
				expect("a trace", trace.Tasks[1].Reason, wait+time.Second+moment, began)
				waited := 0
				for range 20 {
					began = time.Now()
					seen := s.nodes[0].See(t.Context(), &view.Query{Cluster: true}).Tasks[1]
					expect("a look", seen.State+": "+seen.Reason, wait, began)
					if time.Since(began) > moment {
						waited++
					}
					<-time.After(time.Second)
				}
				if hostGone && (waited == 0 || waited > 4) {
					t.Errorf("%d of 20 looks waited", waited)
				}
				<-time.After(time.Minute)
				began = time.Now()
				told := s.nodes[0].ClusterStatus(t.Context()).Tasks[1]
				expect("the status", told.State+": "+told.Reason, wait, began)
				<-time.After(time.Minute)
				began = time.Now()
				_, _, err = s.nodes[0].Cancel(t.Context(), access.Peer{}, 1)
				if troupestatus.CodeOf(err) != troupestatus.NotFound || !strings.Contains(err.Error(), s.nodes[0].Spec().Tasks()[1].Name()) {
					t.Errorf("the error is %v", err)
				}
				expect("the end of a step", err.Error(), wait, began)
			})
		})
	}
}
