package actors

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"

	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
)

// partialRun is a step whose feeds and fetches are spread over several calls. All calls are one execution: stateful ops run once.
type partialRun struct {
	step    *step
	plan    *plan
	feeds   *lateFeeds
	out     *fetches
	mu      sync.Mutex    // guards news and fetched: calls and kernels meet here, each on its own goroutine
	news    chan struct{} // closed and replaced when a fetched tensor arrives
	fetched []bool
	held    int64 // what it counts as memory of the session
	// feedAt and fetchAt map names to positions.
	feedAt, fetchAt map[string]int
}

// positions maps each name to its first position.
func positions(names []string) map[string]int {
	at := make(map[string]int, len(names))
	for i, name := range names {
		if _, ok := at[name]; !ok {
			at[name] = i
		}
	}
	return at
}

// PartialSetup begins a partial run and returns its handle. The run ends after its last feed and fetch, at its first error, or with its
// session.
func (s *Session) PartialSetup(ctx context.Context, feeds, fetchNames, targets []string) (string, error) {
	if s.closed.Load() {
		return "", errClosed()
	}
	s.touch()
	span := s.beginRun(ctx, slog.Bool("troupe.partial", true))
	handle, err := s.beginPartial(ctx, span, graph.Signature{Feeds: feeds, Fetches: fetchNames, Targets: targets})
	if err != nil && span != nil {
		span.End(err)
	}
	return handle, err
}

// beginPartial begins a partial run. The run ends span, which may be nil, unless beginPartial fails.
func (s *Session) beginPartial(ctx context.Context, span Span, sig graph.Signature) (string, error) {
	s.mu.Lock()
	full := len(s.partials)+s.beginning >= maxPartials
	if !full {
		s.beginning++
	}
	s.mu.Unlock()
	if full {
		return "", tooMany("partial runs that have not ended", "Session "+s.handle, maxPartials, "feed and fetch what is left of them")
	}
	began := false
	defer func() {
		if !began {
			s.mu.Lock()
			s.beginning--
			s.mu.Unlock()
		}
	}()
	bytes := signatureBytes(sig) + partialBytes
	if err := s.worker.hold(bytes); err != nil {
		return "", err
	}
	defer func() {
		if !began {
			s.worker.drop(bytes)
		}
	}()
	call := s.callOf(ctx, nil, nil)
	var pr *partialRun
	for {
		var err error
		if pr, err = s.makePartial(call, span, sig); err != nil {
			return "", err
		}
		if err = s.beginStep(pr.step, pr.plan, pr.feeds, pr.out, false); err == nil {
			break
		}
		if !errors.Is(err, errMoved) {
			return "", err
		}
	}
	pr.step.own.cancel.OnCancel(pr.feeds.abort)
	s.mu.Lock()
	s.counter++
	handle := "partial_run_" + strconv.FormatInt(s.counter, 10)
	s.partials[handle] = pr
	s.beginning--
	pr.held, began = bytes, true
	s.mu.Unlock()
	contain.Go(s.task.Log, "A partial run", func() { // ends with the step
		if err := contain.Run(s.task.Log, "A partial run", func() error {
			pr.step.run()
			return nil
		}); err != nil {
			pr.step.fail(err)
		}
		<-pr.step.isDone()
		if span != nil {
			span.End(pr.step.cause())
		}
		s.stepEnded(pr.step.id, pr.step.own.Origin.Began, false, pr.step.cause())
		pr.feeds.abort(errClosed())
		pr.feeds.release()
	}, nil)
	return handle, nil
}

// makePartial makes a partial run, whose step has not begun.
func (s *Session) makePartial(call stepCall, span Span, sig graph.Signature) (*partialRun, error) {
	ctx, cancel := call.bound(func() {})
	defer cancel()
	p, _, err := s.latestPlan(ctx, span, sig, nil)
	if err != nil {
		return nil, tooLate(ctx, err, call.limit)
	}
	sig = p.pruned.Signature // whose names have the plan's order
	pr := &partialRun{step: s.task.takeStep(), plan: p, feeds: newLateFeeds(len(sig.Feeds)),
		news: make(chan struct{}), fetched: make([]bool, len(sig.Fetches)), feedAt: positions(sig.Feeds), fetchAt: positions(sig.Fetches)}
	pr.step.partial, pr.step.call.span = true, span
	pr.out = &pr.step.out
	pr.out.expect(len(sig.Fetches))
	pr.out.changed = func(int) { pr.wake() }
	return pr, nil
}

// dropPartial forgets a partial run once its client has learned how it ended.
func (s *Session) dropPartial(handle string) {
	s.mu.Lock()
	pr := s.partials[handle]
	delete(s.partials, handle)
	s.mu.Unlock()
	if pr != nil {
		pr.step.afterEnd(pr.out.release)
		s.worker.drop(pr.held)
	}
}

// partialBytes is about what a partial run's step takes while it waits.
const partialBytes = 16 << 10

// dropPartials forgets the partial runs of a closed session.
func (s *Session) dropPartials() {
	s.mu.Lock()
	handles := sortedKeys(s.partials)
	s.mu.Unlock()
	for _, h := range handles {
		s.dropPartial(h)
	}
}

func (pr *partialRun) wake() {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	close(pr.news)
	pr.news = make(chan struct{})
}

// runPartial handles the feeds and fetches of one call of a partial run.
func (s *Session) runPartial(ctx context.Context, req *StepRequest) (r *StepResult, err error) {
	s.mu.Lock()
	pr := s.partials[req.Partial]
	s.mu.Unlock()
	if span := s.beginPartialCall(ctx, pr); span != nil {
		defer func() { span.End(err) }()
	}
	if err := checkOptions(req.Options); err != nil {
		return nil, err
	}
	if pr == nil {
		return nil, status.InvalidArgumentf("Must run PartialRunSetup before performing partial runs")
	}
	c := s.callOf(ctx, req.Detach, req.Options)
	ctx, cancel := c.bound(contain.Func(s.task.Log, "The end of a step", pr.step.cancelled, nil))
	defer cancel()
	if err := pr.step.cause(); err != nil {
		s.dropPartial(req.Partial)
		return nil, err
	}
	want, err := pr.admit(req)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, contain.Func(s.task.Log, "The end of a step", func() { pr.step.expire(ctx, c.limit) }, nil))
	defer stop()
	result, err := pr.collect(want, req.Fetches)
	if err != nil {
		pr.step.fail(err) // a branch that was not taken is no error of the step, which would wait for feeds that cannot come any more
		s.dropPartial(req.Partial)
		return nil, err
	}
	if pr.finished() {
		s.dropPartial(req.Partial)
		if err := pr.step.await(); err != nil {
			result.Release()
			return nil, err
		}
	}
	return result, nil
}

// admit checks a call against the run so far and feeds its tensors. It returns the positions of
// the fetches.
func (pr *partialRun) admit(req *StepRequest) ([]int, error) {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	sig := pr.plan.pruned.Signature
	feeds := make([]int, len(req.Feeds))
	fed := make(map[int]bool, len(req.Feeds))
	for i, f := range req.Feeds {
		at, known := pr.feedAt[f.Name]
		switch {
		case !known:
			return nil, status.InvalidArgumentf("The feed %s was not specified in partial_run_setup.", f.Name)
		case pr.feeds.has(at) || fed[at]:
			return nil, status.InvalidArgumentf("The feed %s has already been fed.", f.Name)
		}
		if err := pr.plan.feeds[at].check(f.Tensor); err != nil {
			return nil, err
		}
		feeds[i], fed[at] = at, true
	}
	want := make([]int, len(req.Fetches))
	for i, name := range req.Fetches {
		at, known := pr.fetchAt[name]
		switch {
		case !known:
			return nil, status.InvalidArgumentf("The fetch %s was not specified in partial_run_setup.", name)
		case pr.fetched[at]:
			return nil, status.InvalidArgumentf("The fetch %s has already been fetched.", name)
		}
		want[i] = at
	}
	if at := pr.plan.pruned.Missing(want, func(feed int) bool { return fed[feed] || pr.feeds.has(feed) }); at >= 0 {
		return nil, status.InvalidArgumentf("Fetch %s can't be computed from the feeds that have been fed so far.", sig.Fetches[at])
	}
	for i, at := range feeds {
		pr.feeds.set(at, req.Feeds[i].Tensor.Retain())
	}
	for _, at := range want {
		pr.fetched[at] = true
	}
	return want, nil
}

// collect waits for fetched tensors and hands them over.
func (pr *partialRun) collect(want []int, names []string) (*StepResult, error) {
	result := &StepResult{Tensors: make([]*tensor.Tensor, 0, len(want))}
	for i, at := range want {
		t, err := pr.await(at, names[i])
		if err != nil {
			result.Release()
			return nil, err
		}
		result.Tensors = append(result.Tensors, t)
	}
	return result, nil
}

// await waits for one fetched tensor.
func (pr *partialRun) await(at int, name string) (*tensor.Tensor, error) {
	for over := false; ; {
		pr.mu.Lock()
		news := pr.news
		pr.mu.Unlock()
		t, dead := pr.out.claim(at)
		switch {
		case t != nil:
			return t, nil
		case over && pr.step.cause() != nil:
			return nil, pr.step.await()
		case dead || over:
			return nil, status.Internalf("The tensor returned for %s was not valid: it was fetched, but its branch was not taken\n\t [[{{node %s}}]]", name, nodeOf(name))
		}
		select {
		case <-news:
		case <-pr.step.isBroken():
			over = true
		case <-pr.step.isDone():
			over = true
		}
	}
}

// finished reports whether nothing remains to be fed or fetched.
func (pr *partialRun) finished() bool {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	return !slices.Contains(pr.fetched, false) && pr.feeds.complete()
}

// claim hands over a fetched tensor if it has arrived.
func (f *fetches) claim(index int) (t *tensor.Tensor, dead bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if index >= len(f.tensors) {
		return nil, false
	}
	t = f.tensors[index]
	f.tensors[index] = nil
	return t, f.dead[index]
}

// lateFeeds are feeds that arrive after their step has begun.
type lateFeeds struct {
	mu      sync.Mutex // guards the rest: calls and kernels meet here, each on its own goroutine
	tensors devices.Feeds
	fed     []bool
	waiting map[int][]func(*tensor.Tensor, error)
	err     error
}

func newLateFeeds(n int) *lateFeeds {
	return &lateFeeds{tensors: make(devices.Feeds, n), fed: make([]bool, n), waiting: map[int][]func(*tensor.Tensor, error){}}
}

// Feed calls done when the tensor is fed or the step ends. A client's graph may have an _Arg with any index, and several with the same one.
func (l *lateFeeds) Feed(index int, done func(*tensor.Tensor, error)) {
	if index < 0 || index >= len(l.tensors) {
		l.tensors.Feed(index, done) // which fails
		return
	}
	l.mu.Lock()
	t, err := l.tensors[index], l.err
	switch {
	case err != nil:
		t = nil // it may still be here, but a receiver of an error releases nothing
	case t != nil:
		t.Retain()
	default:
		l.waiting[index] = append(l.waiting[index], done)
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	done(t, err)
}

func (l *lateFeeds) has(index int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fed[index]
}

func (l *lateFeeds) complete() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !slices.Contains(l.fed, false)
}

// set feeds a tensor and takes over the reference.
func (l *lateFeeds) set(index int, t *tensor.Tensor) {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		t.Release()
		return
	}
	l.tensors[index], l.fed[index] = t, true
	waiting := l.waiting[index]
	delete(l.waiting, index)
	for range waiting {
		t.Retain()
	}
	l.mu.Unlock()
	for _, done := range waiting {
		done(t, nil)
	}
}

// abort fails all current and future waiters.
func (l *lateFeeds) abort(err error) {
	l.mu.Lock()
	if l.err == nil {
		l.err = err
	}
	waiting := l.waiting
	l.waiting = map[int][]func(*tensor.Tensor, error){}
	l.mu.Unlock()
	for _, of := range waiting {
		for _, done := range of {
			done(nil, err)
		}
	}
}

func (l *lateFeeds) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, t := range l.tensors {
		if t != nil {
			t.Release()
			l.tensors[i] = nil
		}
	}
}
