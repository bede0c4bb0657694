package actors

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
)

// Feed is a tensor for a name in the graph, such as "x:0".
type Feed struct {
	Name   string
	Tensor *tensor.Tensor
}

// StepRequest is a client's request to run a step.
type StepRequest struct {
	Feeds   []Feed
	Fetches []string
	Targets []string
	Options *corepb.RunOptions // may be nil
	// Partial is the handle of a partial run that the step continues; empty for a whole run.
	Partial string
	// Detach may be nil.
	Detach Detach
}

// Detach is called on the call's goroutine, with the call's context, before its step waits or computes for long. It may be called several times, or
// not at all for a small step that does not wait. The callee must call cancelled, which does not block, when the caller cancels the call, and before
// it handles any later request of that caller: otherwise an element that a later request enqueues could go to the cancelled step. stop withdraws
// cancelled, unless it has begun.
type Detach func(ctx context.Context, cancelled func()) (stop func())

// StepResult is the result of a step: the fetched tensors in the order of the request, which the receiver must
// release, and metadata if the options asked for it.
type StepResult struct {
	Tensors  []*tensor.Tensor
	Metadata *corepb.RunMetadata
	few      [2]*tensor.Tensor // backs Tensors in the common case
}

// newResult returns a result with room for n tensors.
func newResult(n int) *StepResult {
	r := &StepResult{}
	if r.Tensors = r.few[:]; n > len(r.few) {
		r.Tensors = make([]*tensor.Tensor, n)
	}
	r.Tensors = r.Tensors[:n]
	return r
}

// Release releases the result's tensors.
func (r *StepResult) Release() {
	for _, t := range r.Tensors {
		t.Release()
	}
}

// signature is a copy of the request's names, which may outlive the request.
func (r *StepRequest) signature() graph.Signature {
	sig := graph.Signature{Fetches: slices.Clone(r.Fetches), Targets: slices.Clone(r.Targets)}
	for _, f := range r.Feeds {
		sig.Feeds = append(sig.Feeds, f.Name)
	}
	return sig
}

// appendKey appends the signature's key.
func (r *StepRequest) appendKey(key []byte) []byte {
	for i := range r.Feeds {
		key = append(append(key, r.Feeds[i].Name...), 0)
	}
	return appendNames(appendNames(append(key, 1), r.Fetches, 1), r.Targets, 0)
}

// signatureKey returns a key that is unique to the signature. It needs no lengths, since names contain no control
// characters.
func signatureKey(sig graph.Signature) []byte {
	return appendNames(appendNames(appendNames(nil, sig.Feeds, 1), sig.Fetches, 1), sig.Targets, 0)
}

// appendNames appends names, and the byte that separates them from others unless it is 0.
func appendNames(key []byte, names []string, divide byte) []byte {
	for _, name := range names {
		key = append(append(key, name...), 0)
	}
	if divide != 0 {
		key = append(key, divide)
	}
	return key
}

// Run runs a step. The caller keeps its references to the fed tensors; the step retains them for as long
// as it needs them. When ctx ends, the step ends on all tasks.
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
	key := append(req.appendKey(room[:0]), watches...)
	for {
		p, order, err := s.planOf(&c, key, req.signature, watches)
		if err != nil {
			return nil, err
		}
		if watches != nil {
			if err := s.writeRun(req, p); err != nil {
				p.local.release()
				return nil, err
			}
		}
		st := s.task.takeStep()
		for i := range req.Feeds {
			st.feeds = append(st.feeds, req.Feeds[order.feed(i)].Tensor)
		}
		r = newResult(len(req.Fetches))
		r.Metadata, err = s.run(st, c, p, p.pruned.Signature.Fetches, order, r.Tensors, req.Options)
		switch {
		case err == nil:
			return r, nil
		case !errors.Is(err, errMoved):
			return nil, err
		}
	}
}

// planOf returns the plan of a key, with a reference for the caller, and the order of the key's names. If the plan must be built, sig is
// called for the signature, a debugger's watches included, and the call waits for the plan.
func (s *Session) planOf(c *stepCall, key []byte, sig func() graph.Signature, watches []byte) (p *plan, o *order, err error) {
	if s.upToDate() {
		if p, o := s.ready(key); p != nil {
			return p, o, nil
		}
	}
	ctx, cancel := c.bound(func() {})
	defer cancel()
	if p, o, err = s.latestPlan(ctx, c.span, sig(), watches); err != nil {
		return nil, nil, tooLate(ctx, err, c.limit)
	}
	return p, o, nil
}

// latestPlan is tracedPlan after the session has followed what has moved. If a task leaves while the plan is being built and the plan fails by that, the
// next one may not need the task.
func (s *Session) latestPlan(ctx context.Context, run Span, sig graph.Signature, watches []byte) (p *plan, o *order, err error) {
	for {
		changes := s.task.departures.changes.Load()
		if err := s.follow(ctx); err != nil {
			return nil, nil, err
		}
		p, o, err = s.tracedPlan(ctx, run, sig, watches)
		if code := status.CodeOf(err); code != status.Unavailable && code != status.Aborted || s.task.departures.changes.Load() == changes {
			return p, o, err
		}
	}
}

// tracedPlan is plan, with a child span of run, which is nil if the call is not traced.
func (s *Session) tracedPlan(ctx context.Context, run Span, sig graph.Signature, watches []byte) (p *plan, o *order, err error) {
	if run != nil {
		span := run.Begin("troupe.plan")
		defer func() { span.End(err) }()
	}
	return s.plan(ctx, sig, watches)
}

// tooLate reports whether an error only means that the time limit has passed.
func tooLate(ctx context.Context, err error, limit time.Duration) error {
	if code := status.CodeOf(err); ctx.Err() == context.DeadlineExceeded && (code == status.DeadlineExceeded || code == status.Unavailable) {
		return status.Errorf(status.DeadlineExceeded, "The step was not ready to run within %v: %s", limit, err.Error())
	}
	return err
}

// checkOptions rejects run options that callables and partial runs do not support.
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

// milliseconds returns a client's time limit, at most the longest Duration.
func milliseconds(ms int64) time.Duration {
	return time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// stepCall is a client's call that runs a step.
type stepCall struct {
	ctx    context.Context
	detach Detach
	span   Span          // nil: the call is not traced
	limit  time.Duration // of the step; 0 for none
	until  time.Time     // the step's deadline; zero for none
	// detached is set once the connection's reader continues with other requests.
	detached bool
}

// callOf determines the step's time limit, if it has one. It is slightly shorter than the client's own, so that the
// client receives an answer that says why.
func (s *Session) callOf(ctx context.Context, detach Detach, o *corepb.RunOptions) stepCall {
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

// bound prepares the call for waiting or computing for long: it detaches the call. The returned context ends with
// the client's, or at the deadline. For cancelled, see Detach; release withdraws it at the end.
func (c *stepCall) bound(cancelled func()) (ctx context.Context, release func()) {
	stop := func() {}
	if c.detach != nil {
		stop = c.detach(c.ctx, cancelled)
		c.detached = true
	}
	if c.until.IsZero() {
		return c.ctx, stop
	}
	ctx, cancel := context.WithDeadline(c.ctx, c.until)
	return ctx, func() {
		stop()
		cancel()
	}
}

// run runs a step whose feeds are set, waits for its end, and stores the fetched tensors, whose names are given in the plan's order, in the
// step's order in fetched. It takes over the caller's reference to the plan.
func (s *Session) run(st *step, c stepCall, p *plan, names []string, order *order, fetched []*tensor.Tensor, o *corepb.RunOptions) (*corepb.RunMetadata, error) {
	for i := range p.feeds {
		if err := p.feeds[i].check(st.feeds[i]); err != nil {
			p.local.release()
			return nil, err
		}
	}
	p.used.Store(s.used.Load())
	st.call = c
	st.out.expect(len(names))
	// If the step fails, its receives may outlive this call: they retain their own feeds.
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
	if err = st.out.moveTo(names, order, fetched); err == nil {
		md = st.metadata(o)
	}
	st.releaseFeeds()
	st.recycle()
	return md, err
}

// afterEnd calls f when the step's last part has ended, possibly at once.
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

// expire ends a step whose deadline has passed or whose client is gone.
func (st *step) expire(ctx context.Context, limit time.Duration) {
	if ctx.Err() == context.DeadlineExceeded {
		st.fail(st.overdue(limit))
		return
	}
	st.cancelled()
}

// cancelled ends a step that its client has cancelled. When it returns, the aborts of all parts have been sent, even if another goroutine, such
// as that of a deadline, was the first to end the step.
func (st *step) cancelled() {
	st.fail(status.Errorf(status.Cancelled, "The client cancelled the step"))
	st.mu.Lock()
	if !st.broken.happened() { // the step was over
		st.mu.Unlock()
		return
	}
	aborted := st.aborted.wait()
	st.mu.Unlock()
	limit := time.NewTimer(abortPatience)
	defer limit.Stop()
	select {
	case <-aborted: // usually at once: do does not block
	case <-limit.C:
	}
}

// abortPatience bounds how long the connection of a client that cancels a step waits for another goroutine to abort the step's parts.
const abortPatience = time.Second

// traced reports whether a step's options ask for its statistics.
func traced(o *corepb.RunOptions) bool { return o.GetTraceLevel() > corepb.RunOptions_NO_TRACE }

// metadata returns the metadata that the options and the session request; nil if they request none.
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
