package actors

import (
	"context"
	"math"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Feed is a tensor for a name of the graph ("x:0").
type Feed struct {
	Name   string
	Tensor *tensor.Tensor
}

// StepRequest is what a client asks for in a step.
type StepRequest struct {
	Feeds   []Feed
	Fetches []string
	Targets []string
	Options *corepb.RunOptions // nil for none
	// Partial is the handle of a partial run that the step goes on with; empty for a whole run.
	Partial string
}

// StepResult is what a step gave: the fetched tensors as asked for, which are the receiver's to
// release, and metadata where options asked for it.
type StepResult struct {
	Tensors  []*tensor.Tensor
	Metadata *corepb.RunMetadata
}

// Release gives up the result's tensors.
func (r *StepResult) Release() {
	for _, t := range r.Tensors {
		t.Release()
	}
}

func (r *StepRequest) signature() graph.Signature {
	sig := graph.Signature{Fetches: r.Fetches, Targets: r.Targets}
	if len(r.Feeds) > 0 {
		sig.Feeds = make([]string, len(r.Feeds))
		for i, f := range r.Feeds {
			sig.Feeds[i] = f.Name
		}
	}
	return sig
}

// Run runs a step. The fed tensors stay the caller's; the step holds references of its own as long
// as it needs them. When ctx ends, so does the step, on all tasks.
func (s *Session) Run(ctx context.Context, req *StepRequest) (*StepResult, error) {
	if s.closed.Load() {
		return nil, errClosed()
	}
	s.touch()
	if err := checkOptions(req.Options); err != nil {
		return nil, err
	}
	if req.Partial != "" {
		return s.runPartial(ctx, req)
	}
	ctx, limit, cancel := s.limit(ctx, req.Options)
	defer cancel()
	p, err := s.plan(ctx, req.signature())
	if err != nil {
		return nil, tooLate(ctx, err, limit)
	}
	feeds := make(devices.Feeds, len(req.Feeds))
	for i := range req.Feeds {
		feeds[i] = req.Feeds[i].Tensor
	}
	return s.runPlan(ctx, p, feeds, req.Fetches, req.Options, limit)
}

// tooLate tells an error that is only the end of the time limit apart.
func tooLate(ctx context.Context, err error, limit time.Duration) error {
	if code := status.CodeOf(err); ctx.Err() == context.DeadlineExceeded && (code == status.DeadlineExceeded || code == status.Unavailable) {
		return status.Errorf(status.DeadlineExceeded, "The step was not ready to run within %v: %s", limit, err.Error())
	}
	return err
}

// checkOptions refuses run options that would be ignored.
func checkOptions(o *corepb.RunOptions) error {
	if len(o.GetDebugOptions().GetDebugTensorWatchOpts()) > 0 {
		return status.Unimplementedf("RunOptions.debug_options is not supported")
	}
	if o.GetTimeoutInMs() < 0 {
		return status.InvalidArgumentf("RunOptions.timeout_in_ms is negative: %d", o.GetTimeoutInMs())
	}
	return nil
}

// milliseconds is a client's time limit; one beyond what a Duration holds is the longest.
func milliseconds(ms int64) time.Duration {
	return time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// limit bounds ctx by the step's timeout, if it has one, a little before the client's own
// deadline, so that the client gets an answer that says why.
func (s *Session) limit(ctx context.Context, o *corepb.RunOptions) (context.Context, time.Duration, context.CancelFunc) {
	limit := s.options.timeout
	if ms := o.GetTimeoutInMs(); ms > 0 {
		limit = milliseconds(ms)
	}
	if deadline, ok := ctx.Deadline(); ok {
		if left := time.Until(deadline); limit == 0 || left < limit {
			limit = left
		}
	}
	if limit <= 0 {
		if _, ok := ctx.Deadline(); !ok {
			return ctx, 0, func() {}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, limit-min(answerMargin, limit/4))
	return ctx, limit, cancel
}

// runPlan runs a step of a plan and waits for its end. It takes over the caller's claim to the plan.
func (s *Session) runPlan(ctx context.Context, p *plan, feeds devices.Feeds, names []string, o *corepb.RunOptions, limit time.Duration) (*StepResult, error) {
	for i := range p.feeds {
		if err := p.feeds[i].check(feeds[i]); err != nil {
			p.local.release()
			return nil, err
		}
	}
	p.used.Store(time.Now().UnixNano())
	out := newFetches(len(names))
	trace := o.GetTraceLevel() > corepb.RunOptions_NO_TRACE
	// The step's receives may outlive this call where it fails: they hold feeds of their own.
	held := make(devices.Feeds, len(feeds))
	for i, t := range feeds {
		held[i] = t.Retain()
	}
	st, err := s.newStep(p, held, out, trace)
	if err != nil {
		releaseAll(held)
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { st.expire(ctx, limit) })
	st.run(ctx)
	err = st.await()
	stop()
	if err != nil {
		st.afterEnd(func() {
			releaseAll(held)
			out.release()
		})
		return nil, err
	}
	releaseAll(held)
	tensors, err := out.take(names)
	if err != nil {
		return nil, err
	}
	return &StepResult{Tensors: tensors, Metadata: st.metadata(o)}, nil
}

// afterEnd calls f when the step's last part has ended, which may be now.
func (st *step) afterEnd(f func()) {
	select {
	case <-st.done:
		f()
	default:
		go func() { // ends with the step's last part
			<-st.done
			f()
		}()
	}
}

func releaseAll(feeds devices.Feeds) {
	for _, t := range feeds {
		t.Release()
	}
}

// expire ends a step whose time is over or whose client is gone.
func (st *step) expire(ctx context.Context, limit time.Duration) {
	if ctx.Err() == context.DeadlineExceeded {
		st.fail(st.overdue(limit))
		return
	}
	st.fail(status.Errorf(status.Cancelled, "The client cancelled the step"))
}

// metadata is what options asked for; nil without them.
func (st *step) metadata(o *corepb.RunOptions) *corepb.RunMetadata {
	if !st.trace && !o.GetOutputPartitionGraphs() {
		return nil
	}
	md := &corepb.RunMetadata{}
	if st.trace {
		md.StepStats = st.own.stats.proto()
		for _, more := range st.stats {
			md.StepStats.DevStats = append(md.StepStats.DevStats, more.DevStats...)
		}
	}
	if o.GetOutputPartitionGraphs() {
		st.plan.partitionGraphs(md)
	}
	return md
}
