package troupe

import (
	"fmt"
	"strings"
	"time"

	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// sessionsThatRest are sessions over the network and in the process, whose steps span two tasks.
func sessionsThatRest(r *resting) []restOperation {
	c, _ := r.dial(0)
	far, near := r.counter(c, "far"), r.counter(r.tasks[0], "near")
	return []restOperation{
		{"a step over the network", far.run},
		{"a step in the process", near.run},
		{"a list of devices", func() {
			devices, err := c.Devices(r.bounded())
			if err != nil || len(devices) != 2 {
				r.Errorf("%v, %v", devices, err)
			}
		}},
		{"another session", func() {
			s, _, count := counting("/job:w/task:1", "far")
			session := sessionOf(r.T, c, s)
			got, err := Fetch[int64](r.bounded(), session, nil, count)
			if far.want++; err != nil || got != far.want {
				r.Errorf("it counts %d, %v; want %d", got, err, far.want)
			}
			r.check(session.Close(r.bounded()))
		}},
	}
}

// leasesThatRest are sessions whose clients lose their connections: they continue if they come back within the lease, and get ABORTED
// otherwise.
func leasesThatRest(r *resting) []restOperation {
	c, cut := r.dial(0)
	counter := r.counter(c, "leased")
	gone := time.Time{}
	return []restOperation{
		{"the connection breaks", func() {
			cut()
			if gone.IsZero() {
				gone = time.Now()
			}
		}},
		{"a step", func() {
			if away := time.Since(gone); !gone.IsZero() && away >= DefaultLease {
				_, err := Fetch[int64](r.bounded(), counter.session, nil, counter.count)
				soon := away < DefaultLease+time.Second // it may be in time: the server learns of the break later
				if !(err == nil && soon) && (status.CodeOf(err) != status.Aborted || !strings.Contains(err.Error(), "lease")) {
					r.Errorf("a session whose client was away for %v: %v", away, err)
				}
				counter = r.counter(c, "leased")
			}
			gone = time.Time{}
			counter.run()
		}},
	}
}

// quietClientsThatRest are gRPC's own clients, which close a connection without calls after half an hour to an hour, as TensorFlow's does, and open
// another one for the next call. Their sessions are there, with what has begun in them.
func quietClientsThatRest(r *resting) []restOperation {
	process := r.net.Host("10.0.1.1").Process()
	conn, err := grpc.NewClient("passthrough:///"+r.tasks[0].Address(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithIdleTimeout(30*time.Minute), grpc.WithContextDialer(process.Dial))
	r.check(err)
	r.Cleanup(func() {
		if err := conn.Close(); err != nil {
			r.Error(err)
		}
	})
	call := func(method string, q, a proto.Message) {
		r.Helper()
		r.check(conn.Invoke(r.bounded(), "/tensorflow.MasterService/"+method, q, a, grpc.WaitForReady(true)))
	}
	s, start, count := counting("/job:w/task:1", "quiet")
	a := op.Placeholder(s.WithName("a"), tensor.Float32, attr.Shape(shape.Of()))
	b := op.Placeholder(s.WithName("b"), tensor.Float32, attr.Shape(shape.Of()))
	op.Add(s.WithName("sum"), op.Neg(s.WithName("first"), a), b)
	def, err := s.GraphDef()
	r.check(err)
	session := &corepb.CreateSessionResponse{}
	call("CreateSession", &corepb.CreateSessionRequest{GraphDef: def}, session)
	step := func(q *corepb.RunStepRequest) *corepb.RunStepResponse {
		q.SessionHandle = session.SessionHandle
		answer := &corepb.RunStepResponse{}
		call("RunStep", q, answer)
		return answer
	}
	step(&corepb.RunStepRequest{Target: []string{start.Name()}})
	want, partial := int64(0), ""
	half := func(feed, fetch string) {
		step(&corepb.RunStepRequest{PartialRunHandle: partial, Fetch: []string{fetch},
			Feed: []*corepb.NamedTensorProto{{Name: feed, Tensor: &tensorpb.TensorProto{Dtype: typespb.DataType_DT_FLOAT, TensorShape: &shapepb.TensorShapeProto{}, FloatVal: []float32{2}}}}})
	}
	return []restOperation{
		{"a step", func() {
			want++
			v, err := tensor.FromTensorProto(step(&corepb.RunStepRequest{Fetch: []string{count.Name()}}).Tensor[0].Tensor, tensor.Host)
			r.check(err)
			defer v.Release()
			if n := tensor.Of[int64](v)[0]; n != want {
				r.Errorf("the counter is %d, not %d", n, want)
			}
		}},
		{"half of a step", func() {
			if partial != "" {
				half("b:0", "sum:0")
				partial = ""
				return
			}
			setup := &corepb.PartialRunSetupResponse{}
			call("PartialRunSetup", &corepb.PartialRunSetupRequest{SessionHandle: session.SessionHandle, Feed: []string{"a:0", "b:0"}, Fetch: []string{"first:0", "sum:0"}}, setup)
			partial = setup.PartialRunHandle
			half("a:0", "first:0")
		}},
	}
}

// contextsThatRest are eager contexts of TensorFlow 2, which end when they are not used for the time that their clients ask for. Broken connections end nothing.
func contextsThatRest(r *resting) []restOperation {
	const keep = 30 * time.Second
	process := r.net.Host("10.0.1.1").Process()
	conn, err := grpc.NewClient("passthrough:///"+r.tasks[0].Address(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(), grpc.WithIdleTimeout(0),
		grpc.WithContextDialer(process.Dial))
	r.check(err)
	r.Cleanup(func() {
		if err := conn.Close(); err != nil {
			r.Error(err)
		}
	})
	broken := false
	call := func(method string, q, a proto.Message) error {
		invoke := func() error {
			return conn.Invoke(r.bounded(), "/tensorflow.eager.EagerService/"+method, q, a, grpc.WaitForReady(true))
		}
		err := invoke()
		if broken && grpcstatus.Code(err) == grpccodes.Unavailable {
			err = invoke() // the client notices the break when it sends
		}
		broken = false
		return err
	}
	id, used := uint64(0), time.Time{}
	open := func() {
		id++
		def := &corepb.ServerDef{JobName: "w", Cluster: &corepb.ClusterDef{Job: []*corepb.JobDef{{Name: "w", Tasks: map[int32]string{0: r.tasks[0].Address()}}}}}
		r.check(call("CreateContext", &corepb.CreateContextRequest{ContextId: id, ServerDef: def, KeepAliveSecs: int64(keep / time.Second)}, &corepb.CreateContextResponse{}))
		used = time.Now()
	}
	open()
	// uses makes a call, which fails if the context was idle for too long; the client then opens another one.
	uses := func(name string, do func() error) restOperation {
		return restOperation{name, func() {
			err := do()
			switch idle := time.Since(used); {
			case idle > keep+restMargin && err == nil:
				r.Errorf("a context that was idle for %v, and is kept for %v, is there", idle, keep)
			case idle < keep && err != nil:
				r.Errorf("a context that was idle for %v, and is kept for %v: %v", idle, keep, err)
			case err != nil:
				open()
				r.check(do())
			}
			used = time.Now()
		}}
	}
	return []restOperation{
		uses("an op", func() error {
			o := &corepb.EnqueueRequest{ContextId: id, Queue: []*corepb.QueueItem{{Item: &corepb.QueueItem_Operation{Operation: &corepb.Operation{Id: 1, Name: "NoOp"}}}}}
			return call("Enqueue", o, &corepb.EnqueueResponse{})
		}),
		uses("a sign of life", func() error {
			return call("KeepAlive", &corepb.KeepAliveRequest{ContextId: id}, &corepb.KeepAliveResponse{})
		}),
		{"the connection breaks", func() {
			process.Break()
			broken = true
		}},
	}
}

// callablesThatRest are prepared steps.
func callablesThatRest(r *resting) []restOperation {
	c, _ := r.dial(0)
	var all []restOperation
	for i, m := range []Master{c, r.tasks[0]} {
		counter := r.counter(m, fmt.Sprintf("called%d", i))
		callable, err := counter.session.Prepare(r.bounded(), nil, counter.count)
		r.check(err)
		all = append(all, restOperation{fmt.Sprintf("a call with %T", m), func() {
			got, err := callable.Run(r.bounded())
			r.check(err)
			n, err := tensor.To[int64](got[0])
			if counter.want++; err != nil || n != counter.want {
				r.Errorf("it counts %d, %v; want %d", n, err, counter.want)
			}
			got[0].Release()
		}})
	}
	return all
}

// partialRunsThatRest are steps that are fed in two calls.
func partialRunsThatRest(r *resting) []restOperation {
	c, _ := r.dial(0)
	var all []restOperation
	for _, m := range []Master{c, r.tasks[0]} {
		s := op.NewScope()
		a := op.Placeholder(s.WithName("a"), tensor.Float32, attr.Shape(shape.Of()))
		b := op.Placeholder(s.WithName("b"), tensor.Float32, attr.Shape(shape.Of()))
		there := s.WithDevice("/job:w/task:1")
		op.Add(there.WithName("sum"), op.Neg(there.WithName("first"), a), b)
		session := sessionOf(r.T, m, s)
		var run *PartialRun
		half := func(feed, fetch string, want float32) {
			v := tensor.FromScalar(float32(2))
			defer v.Release()
			got, err := run.Run(r.bounded(), map[string]*tensor.Tensor{feed: v}, []string{fetch})
			r.check(err)
			if f := floatOf(r.T, got[0]); f != want {
				r.Errorf("%s is %v, want %v", fetch, f, want)
			}
		}
		all = append(all, restOperation{fmt.Sprintf("half of a step with %T", m), func() {
			if run != nil {
				half("b:0", "sum:0", 0)
				run = nil
				return
			}
			var err error
			run, err = session.PartialRun(r.bounded(), []string{"a:0", "b:0"}, []string{"first:0", "sum:0"}, nil)
			r.check(err)
			half("a:0", "first:0", -2)
		}})
	}
	return all
}

// tracesThatRest are steps that are traced, alone and in a trace of everything that runs for a while.
func tracesThatRest(r *resting) []restOperation {
	counter := r.counter(r.tasks[0], "traced")
	return []restOperation{
		{"a step", counter.run},
		{"a step that is traced", func() {
			result, err := counter.session.RunStep(r.bounded(), Step{Fetches: []string{counter.count.Name()}, Options: &corepb.RunOptions{TraceLevel: corepb.RunOptions_FULL_TRACE}})
			r.check(err)
			counter.want++
			if n := len(result.Metadata.GetStepStats().GetDevStats()); n != 2 {
				r.Errorf("the trace has %d devices", n)
			}
			result.Tensors[0].Release()
		}},
		{"a trace of all tasks", func() {
			done := make(chan error, 1)
			go func() {
				got, err := r.tasks[0].server.Trace(r.bounded(), &view.TraceQuery{Duration: int64(3 * time.Second), Cluster: true})
				if err == nil && len(got.GetTasks()) != 2 {
					err = fmt.Errorf("the trace has %d tasks", len(got.GetTasks()))
				}
				done <- err
			}()
			pass(time.Second)
			counter.run()
			r.check(<-done)
		}},
	}
}

// guestsThatRest are sessions that declare a cluster of their own over the servers.
func guestsThatRest(r *resting) []restOperation {
	c, _ := r.dial(0)
	config := &corepb.ConfigProto{ClusterDef: &corepb.ClusterDef{}}
	for i, job := range []string{"here", "there"} {
		config.ClusterDef.Job = append(config.ClusterDef.Job, &corepb.JobDef{Name: job, Tasks: map[int32]string{0: r.host(i).Address(2222)}})
	}
	s, start, count := counting("/job:there", "guest")
	def, err := s.GraphDef()
	r.check(err)
	var session *Session
	want := int64(0)
	open := func() {
		var err error
		session, err = c.NewSession(r.bounded(), def, config)
		r.check(err)
		_, err = session.Eval(r.bounded(), nil, start)
		r.check(err)
		want = 0
	}
	return []restOperation{
		{"a step", func() {
			if session == nil {
				open()
			}
			got, err := Fetch[int64](r.bounded(), session, nil, count)
			if want++; err != nil || got != want {
				r.Errorf("%d, %v; want %d", got, err, want)
			}
		}},
		{"the session is closed", func() {
			if session != nil {
				r.check(session.Close(r.bounded()))
				session = nil
			}
		}},
	}
}
