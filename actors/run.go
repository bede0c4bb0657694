package actors

import (
	"context"
	"math"
	"slices"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
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
	// Detach, if not nil, is called with the context of the call before the step waits or computes for
	// long, maybe several times, on the goroutine of the call. A small step that does not wait does
	// without.
	Detach func(ctx context.Context)
}

// StepResult is what a step gave: the fetched tensors as asked for, which are the receiver's to
// release, and metadata where options asked for it.
type StepResult struct {
	Tensors  []*tensor.Tensor
	Metadata *corepb.RunMetadata
	few      [2]*tensor.Tensor // where Tensors often lie
}

// newResult makes room for n tensors.
func newResult(n int) *StepResult {
	r := &StepResult{}
	if r.Tensors = r.few[:]; n > len(r.few) {
		r.Tensors = make([]*tensor.Tensor, n)
	}
	r.Tensors = r.Tensors[:n]
	return r
}

// Release gives up the result's tensors.
func (r *StepResult) Release() {
	for _, t := range r.Tensors {
		t.Release()
	}
}

// signature is a copy of the request's names, which may be longer-lived than the request.
func (r *StepRequest) signature() graph.Signature {
	sig := graph.Signature{Fetches: slices.Clone(r.Fetches), Targets: slices.Clone(r.Targets)}
	for _, f := range r.Feeds {
		sig.Feeds = append(sig.Feeds, f.Name)
	}
	return sig
}

// appendKey appends what appendSignature does.
func (r *StepRequest) appendKey(key []byte) []byte {
	for i := range r.Feeds {
		key = append(append(key, r.Feeds[i].Name...), 0)
	}
	return appendNames(appendNames(append(key, 1), r.Fetches, 1), r.Targets, 0)
}

// appendSignature appends what tells signatures apart. Lengths are not needed: names hold no control
// characters.
func appendSignature(key []byte, sig graph.Signature) []byte {
	return appendNames(appendNames(appendNames(key, sig.Feeds, 1), sig.Fetches, 1), sig.Targets, 0)
}

// appendNames appends names, and the byte that divides them from others unless it is 0.
func appendNames(key []byte, names []string, divide byte) []byte {
	for _, name := range names {
		key = append(append(key, name...), 0)
	}
	if divide != 0 {
		key = append(key, divide)
	}
	return key
}

// Run runs a step. The fed tensors stay the caller's; the step holds references of its own as long
// as it needs them. When ctx ends, so does the step, on all tasks.
func (s *Session) Run(ctx context.Context, req *StepRequest) (r *StepResult, err error) {
	if s.closed.Load() {
		return nil, errClosed()
	}
	s.touch()
	if req.Partial != "" {
		return s.runPartial(ctx, req)
	}
	span := s.beginRun(ctx)
	if span != nil {
		defer func() { span.End(err) }()
	}
	if err := checkTimeout(req.Options); err != nil {
		return nil, err
	}
	var room [256]byte
	c := s.callOf(ctx, req.Detach, req.Options)
	c.span = span
	watches, err := watchesOf(req.Options)
	if err != nil {
		return nil, err
	}
	p, err := s.planOf(&c, append(req.appendKey(room[:0]), watches...), req.signature, watches)
	if err != nil {
		return nil, err
	}
	if watches != nil {
		if err := s.tellRun(req, p); err != nil {
			p.local.release()
			return nil, err
		}
	}
	st := s.task.takeStep()
	for i := range req.Feeds {
		st.feeds = append(st.feeds, req.Feeds[i].Tensor)
	}
	r = newResult(len(req.Fetches))
	if r.Metadata, err = s.run(st, c, p, req.Fetches, r.Tensors, req.Options); err != nil {
		return nil, err
	}
	return r, nil
}

// planOf gives the plan of a key, claimed for the caller. sig is called where it has to be built, for what a debugger watches,
// which the call waits for.
func (s *Session) planOf(c *stepCall, key []byte, sig func() graph.Signature, watches []byte) (p *plan, err error) {
	if p := s.ready(key); p != nil {
		return p, nil
	}
	ctx, cancel := c.bound()
	defer cancel()
	p, err = s.tracedPlan(ctx, c.span, sig(), watches)
	if err != nil {
		return nil, tooLate(ctx, err, c.limit)
	}
	return p, nil
}

// tracedPlan is plan, with a span below that of the run, which is nil where the call is not traced.
func (s *Session) tracedPlan(ctx context.Context, run Span, sig graph.Signature, watches []byte) (p *plan, err error) {
	if run != nil {
		span := run.Begin("troupe.plan")
		defer func() { span.End(err) }()
	}
	return s.plan(ctx, sig, watches)
}

// tooLate tells an error that is only the end of the time limit apart.
func tooLate(ctx context.Context, err error, limit time.Duration) error {
	if code := status.CodeOf(err); ctx.Err() == context.DeadlineExceeded && (code == status.DeadlineExceeded || code == status.Unavailable) {
		return status.Errorf(status.DeadlineExceeded, "The step was not ready to run within %v: %s", limit, err.Error())
	}
	return err
}

// checkOptions refuses run options that callables and partial runs do not have.
func checkOptions(o *corepb.RunOptions) error {
	if len(o.GetDebugOptions().GetDebugTensorWatchOpts()) > 0 {
		return status.Unimplementedf("RunOptions.debug_options is not supported for callables and partial runs")
	}
	return checkTimeout(o)
}

func checkTimeout(o *corepb.RunOptions) error {
	if o.GetTimeoutInMs() < 0 {
		return status.InvalidArgumentf("RunOptions.timeout_in_ms is negative: %d", o.GetTimeoutInMs())
	}
	return nil
}

// milliseconds is a client's time limit; one beyond what a Duration holds is the longest.
func milliseconds(ms int64) time.Duration {
	return time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// stepCall is a client's call that runs a step.
type stepCall struct {
	ctx    context.Context
	detach func(context.Context)
	span   Span          // nil: the call is not traced
	limit  time.Duration // of the step; 0 for none
	until  time.Time     // when the step is given up; zero for never
}

// callOf finds the step's time limit, if it has one. It is a little shorter than the client's own, so
// that the client gets an answer that says why.
func (s *Session) callOf(ctx context.Context, detach func(context.Context), o *corepb.RunOptions) stepCall {
	c := stepCall{ctx: ctx, detach: detach, limit: s.options.timeout}
	if ms := o.GetTimeoutInMs(); ms > 0 {
		c.limit = milliseconds(ms)
	}
	deadline, bounded := ctx.Deadline()
	if !bounded && c.limit == 0 {
		return c
	}
	now := time.Now()
	if left := deadline.Sub(now); bounded && (c.limit == 0 || left < c.limit) {
		c.limit = left
	}
	c.until = now.Add(c.limit - min(answerMargin, c.limit/4))
	return c
}

// bound makes the call one that waits or takes long: others are read beside it. The context ends with
// the client's, or when its time is over.
func (c *stepCall) bound() (context.Context, context.CancelFunc) {
	if c.detach != nil {
		c.detach(c.ctx)
	}
	if c.until.IsZero() {
		return c.ctx, func() {}
	}
	return context.WithDeadline(c.ctx, c.until)
}

// run runs a step of a plan, whose feeds are set and whose claim it takes over, waits for its end, and puts the
// fetched tensors into fetched.
func (s *Session) run(st *step, c stepCall, p *plan, names []string, fetched []*tensor.Tensor, o *corepb.RunOptions) (*corepb.RunMetadata, error) {
	for i := range p.feeds {
		if err := p.feeds[i].check(st.feeds[i]); err != nil {
			p.local.release()
			return nil, err
		}
		if err := s.admitFeed(&p.feeds[i], st.feeds[i]); err != nil {
			p.local.release()
			return nil, err
		}
	}
	p.used.Store(s.used.Load())
	st.call = c
	st.out.expect(len(names))
	// The step's receives may outlive this call where it fails: they hold feeds of their own.
	for _, t := range st.feeds {
		t.Retain()
	}
	st.costs = s.options.costs.due(p)
	if err := s.beginStep(st, p, &st.feeds, &st.out, st.costs || traced(o)); err != nil {
		st.releaseFeeds()
		return nil, err
	}
	st.run()
	err := st.await()
	s.stepEnded(st.id, st.own.Origin.Began, st.own.inline.Load() && len(p.remote) == 0, err)
	if st.stopWatching != nil {
		st.stopWatching()
	}
	if err != nil {
		st.afterEnd(func() {
			st.releaseFeeds()
			st.out.release()
		})
		return nil, err
	}
	var md *corepb.RunMetadata
	if err = st.out.take(names, fetched); err == nil {
		md = st.metadata(o)
	}
	st.releaseFeeds()
	st.recycle()
	return md, err
}

// afterEnd calls f when the step's last part has ended, which may be now.
func (st *step) afterEnd(f func()) {
	done := st.isDone()
	select {
	case <-done:
		f()
	default:
		contain.Go(nil, "The end of a step", func() { // ends with the step's last part
			<-done
			f()
		}, nil)
	}
}

func (st *step) releaseFeeds() {
	for i, t := range st.feeds {
		t.Release()
		st.feeds[i] = nil
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

// traced tells whether a step's options ask for its statistics.
func traced(o *corepb.RunOptions) bool { return o.GetTraceLevel() > corepb.RunOptions_NO_TRACE }

// metadata is what options and the session asked for; nil without that.
func (st *step) metadata(o *corepb.RunOptions) *corepb.RunMetadata {
	if !st.trace && !o.GetOutputPartitionGraphs() {
		return nil
	}
	md := &corepb.RunMetadata{}
	if st.trace {
		stats := st.own.stats.proto()
		for _, more := range st.stats {
			stats.DevStats = append(stats.DevStats, more.DevStats...)
		}
		if traced(o) {
			md.StepStats = stats
		}
		if st.costs {
			md.CostGraph = st.plan.costGraph(stats)
		}
	}
	if o.GetOutputPartitionGraphs() {
		st.plan.partitionGraphs(md)
	}
	return md
}
