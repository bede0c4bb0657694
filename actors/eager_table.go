package actors

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/recent"
)

const (
	// maxEagerSteps bounds the steps of components that have begun on a task, and maxClientSteps those of one client.
	maxEagerSteps  = 1 << 14
	maxClientSteps = 1 << 11
	// maxEagerReceives bounds the calls that wait for tensors, also in steps that have not begun, and maxPeerReceives those of one peer.
	// maxEagerKeys and maxPeerKeys bound the bytes of their keys.
	maxEagerReceives = 1 << 16
	maxPeerReceives  = 1 << 13
	maxEagerKeys     = 128 << 20
	maxPeerKeys      = 16 << 20
	// maxEagerQuestions bounds the tasks that are being asked for their state, and maxPeerQuestions those that one peer asks for.
	maxEagerQuestions = 1 << 14
	maxPeerQuestions  = 1 << 11
	insteadOfCalls    = "wait for some to end"
	// rememberedEagerSteps is how many steps are remembered that were cancelled before they began here, or whose function has failed.
	rememberedEagerSteps = 1 << 10
)

// eagerTable is the task's table of eager contexts, and of the steps whose tensors other tasks fetch.
type eagerTable struct {
	task string

	mu        sync.Mutex // guards the rest: calls find contexts and steps on their own goroutines, and must not wait behind the master's messages
	contexts  map[uint64]*EagerContext
	steps     map[int64]*eagerStep            // those of contexts have the context's id
	begun     int                             // the steps of components that have begun
	clients   map[string]int                  // the same, by EagerContext.client
	ended     uint64                          // how many parts and calls have ended in steps
	swept     uint64                          // ended at the last sweep
	calls     shares                          // calls of EagerRecv
	keys      shares                          // the bytes of their keys
	questions shares                          // of EagerStates, to other tasks
	refused   *recent.Map[int64, refusedStep] // steps in which no further part begins
}

// refusedStep is why no part of a function begins in a step.
type refusedStep struct {
	err error
	may func(*EagerContext) error // EagerPeer.May of the caller that has ended the step: only for contexts that it allows
}

// EagerPeer is the caller of EagerRecv.
type EagerPeer struct {
	// Who groups the calls that count together.
	Who string
	// May returns an error if the caller may not receive what a context sends. If the step has not begun, it is called when it does, on
	// another goroutine. It must not block, nor call the context's methods that change it. Nil allows everything.
	May func(*EagerContext) error
}

func (p EagerPeer) may(c *EagerContext) error {
	if p.May == nil {
		return nil
	}
	return p.May(c)
}

// checkSource checks that a call for a key may receive from a context, and that the key names this task in the context's terms.
func (p EagerPeer) checkSource(c *EagerContext, key string) error {
	if err := p.may(c); err != nil {
		return err
	}
	if !c.isSource(key) {
		return status.InvalidArgumentf("Invalid rendezvous key (src): %s", key)
	}
	return nil
}

func (e *eagerTable) init(task string) {
	e.task, e.contexts, e.steps = task, map[uint64]*EagerContext{}, map[int64]*eagerStep{}
	e.clients, e.refused = map[string]int{}, recent.NewMap[int64, refusedStep](rememberedEagerSteps)
	e.calls = shares{what: "calls that wait for tensors", most: maxEagerReceives, mostOf: maxPeerReceives, instead: insteadOfCalls}
	e.keys = shares{what: "bytes of keys of calls that wait for tensors", most: maxEagerKeys, mostOf: maxPeerKeys, instead: insteadOfCalls}
	e.questions = shares{what: "questions for the state of other tasks", most: maxEagerQuestions, mostOf: maxPeerQuestions, instead: insteadOfCalls}
}

// context returns the context with an id, or nil.
func (e *eagerTable) context(id uint64) *EagerContext {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.contexts[id]
}

func (e *eagerTable) all() (all []*EagerContext) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.contexts {
		all = append(all, c)
	}
	return all
}

// add makes a context known, unless another one with its id was faster, or its session has ended meanwhile: nothing would remove it again.
func (e *eagerTable) add(c *EagerContext) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.session.closed.Load() {
		return errNoContext(c.id)
	}
	if e.contexts[c.id] != nil {
		return errEagerExists(c.id)
	}
	step := e.steps[int64(c.id)] // there are receivers already
	if step == nil {
		step = c.own
		e.steps[step.id] = step
	}
	if err := step.begin(c); err != nil {
		return errEagerExists(c.id)
	}
	c.own = step
	e.contexts[c.id] = c
	return nil
}

// remove forgets a context and ends its steps.
func (e *eagerTable) remove(c *EagerContext, reason error) {
	e.mu.Lock()
	if e.contexts[c.id] == c {
		delete(e.contexts, c.id)
	}
	var ended []*eagerStep
	for id, s := range e.steps {
		if s.of() == c {
			ended = append(ended, s)
			e.dropLocked(id, c)
		}
	}
	e.mu.Unlock()
	for _, s := range ended {
		s.abort(reason)
	}
}

// begin returns a step of components, which is the context's from now on, for a part of the function that runs in it until done or end. The error for
// a context that has ended is ABORTED.
func (e *eagerTable) begin(id int64, c *EagerContext) (*eagerStep, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.contexts[c.id] != c { // it has ended, and nothing would end the step
		return nil, errNoContext(c.id)
	}
	if r, refused := e.refused.Get(id); refused && r.may(c) == nil { // a peer that may not receive here cancels nothing
		return nil, r.err
	}
	s := e.steps[id]
	first := s == nil || s.of() == nil
	if first && e.fullLocked(c) != nil {
		e.sweepLocked()
	}
	if first {
		if err := e.fullLocked(c); err != nil {
			return nil, err
		}
	}
	s = e.stepLocked(id)
	if err := s.begin(c); err != nil {
		return nil, err
	}
	if first {
		e.begun++
		e.clients[c.client()]++
	}
	s.parts++
	return s, nil
}

// fullLocked returns an error if a context may not begin another step.
func (e *eagerTable) fullLocked(c *EagerContext) error {
	const what, instead = "steps of functions over several tasks", "wait for some to end"
	switch {
	case e.begun >= maxEagerSteps:
		return tooMany(what, e.task, maxEagerSteps, instead)
	case e.clients[c.client()] >= maxClientSteps:
		return tooMany(what, c.client()+" on "+e.task, maxClientSteps, instead)
	}
	return nil
}

// done ends a part of a step, with its error. Cleanup ends the step itself. It does not come if the main was lost, or could not reach this task: a step
// whose part has failed, as that of a lost main does, therefore ends without it.
func (e *eagerTable) done(s *eagerStep, err error) {
	e.mu.Lock()
	s.parts--
	e.ended++
	s.failure = cmp.Or(s.failure, err)
	failure := e.overLocked(s)
	e.mu.Unlock()
	if failure != nil {
		s.abort(failure)
	}
}

// isIdleLocked reports whether nothing on this task goes on in a step of components: no part runs in it, and no call waits in it.
func (e *eagerTable) isIdleLocked(s *eagerStep) bool {
	c := s.of()
	return c != nil && s != c.own && s.parts == 0 && s.calls == 0 && e.steps[s.id] == s
}

// overLocked forgets a step of a function that has failed, once it is idle, and returns the error with which it has to be aborted then; otherwise nil.
// Other parts that come later get the same error. Calls that wait in the step are not told: the main, which ends them, must learn of the part's own
// error first.
func (e *eagerTable) overLocked(s *eagerStep) error {
	if s.failure == nil || !e.isIdleLocked(s) {
		return nil
	}
	id := s.of().id
	e.dropLocked(s.id, s.of())
	e.refused.Add(s.id, refusedStep{s.failure, func(c *EagerContext) error {
		if c.id != id {
			return errNoContext(id)
		}
		return nil
	}})
	return s.failure
}

// sweepLocked forgets the steps that are only there because no Cleanup has come: they are idle and empty. No step becomes that unless a part or a call
// ends in it.
func (e *eagerTable) sweepLocked() {
	if e.swept == e.ended {
		return
	}
	e.swept = e.ended
	for id, s := range e.steps {
		if e.isIdleLocked(s) && s.isEmpty() {
			e.dropLocked(id, s.of())
		}
	}
}

// stepLocked returns a step, which it creates if necessary.
func (e *eagerTable) stepLocked(id int64) *eagerStep {
	s := e.steps[id]
	if s == nil {
		s = &eagerStep{id: id}
		e.steps[id] = s
	}
	return s
}

// dropLocked forgets a step of a context.
func (e *eagerTable) dropLocked(id int64, c *EagerContext) {
	if e.steps[id] != c.own {
		e.begun--
		if e.clients[c.client()]--; e.clients[c.client()] == 0 {
			delete(e.clients, c.client())
		}
	}
	delete(e.steps, id)
}

// end forgets a step of a context's components.
func (e *eagerTable) end(id int64, c *EagerContext) {
	e.mu.Lock()
	s := e.steps[id]
	if s == nil || s == c.own || s.of() != c {
		s = nil
	} else {
		e.dropLocked(id, c)
	}
	e.mu.Unlock()
	if s != nil {
		s.abort(status.Errorf(status.Aborted, "Cleanup %d", id))
	}
}

// cancel ends a step of components because one of its receivers has given up. The step of a context's own ops goes on. A step that has not
// begun ends when it does.
func (e *eagerTable) cancel(s *eagerStep, by EagerPeer) {
	e.mu.Lock()
	c := s.of()
	if c == nil {
		e.refused.Add(s.id, refusedStep{errStepCancelled(s.id), by.may})
	}
	e.mu.Unlock()
	if c != nil && s != c.own {
		s.abort(errStepCancelled(s.id))
	}
}

func errStepCancelled(id int64) error {
	return status.Errorf(status.Aborted, "Step %d cancelled.  Cancelling rendezvous.", id)
}

// EagerRecv waits for what is sent under a rendezvous key (TensorFlow's "source;incarnation;destination;name;frame:iteration") in a step:
// the id of an eager context for its ops, or the step of a function's components, which may not have begun yet. The caller owns the
// reference to v. Its errors are those of TensorFlow's RecvTensor: INVALID_ARGUMENT for a source that is not here, ABORTED for another
// start of it; and RESOURCE_EXHAUSTED for too many calls at once. If ctx ends, components' steps end too.
func (t *Task) EagerRecv(ctx context.Context, peer EagerPeer, step int64, key string) (v *tensor.Tensor, dead bool, err error) {
	if err := t.checkSource(key); err != nil {
		return nil, false, err
	}
	s, err := t.eager.enter(peer, step, key)
	if err != nil {
		return nil, false, err
	}
	defer t.eager.leave(s, peer, key)
	received := make(chan error, 1)
	var got eagerValue
	r := &eagerReceiver{key: key, check: func(c *EagerContext) error { return peer.checkSource(c, key) }, done: func(v eagerValue, err error) {
		got = v
		received <- err
	}}
	s.recv(r)
	select {
	case err = <-received:
	case <-t.life.Done():
		if s.withdraw(r) {
			return nil, false, status.Errorf(status.Unavailable, "The server of %s is shutting down", t.name)
		}
		err = <-received
	case <-ctx.Done():
		if s.withdraw(r) {
			t.eager.cancel(s, peer)
			return nil, false, status.From(ctx.Err())
		}
		err = <-received // it arrived meanwhile
	}
	if err == nil && got.t != nil {
		got.t, err = s.of().names.forClient(got.t)
	}
	return got.t, got.dead, err
}

// enter counts a call that waits in a step for a key, and returns the step.
func (e *eagerTable) enter(peer EagerPeer, step int64, key string) (*eagerStep, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.calls.add(e.task, peer.Who, 1); err != nil {
		return nil, err
	}
	if err := e.keys.add(e.task, peer.Who, len(key)); err != nil {
		e.calls.drop(peer.Who, 1)
		return nil, err
	}
	s := e.stepLocked(step)
	s.calls++
	return s, nil
}

func (e *eagerTable) leave(s *eagerStep, peer EagerPeer, key string) {
	e.mu.Lock()
	if s.calls--; s.calls == 0 && e.steps[s.id] == s && s.of() == nil { // not before: a call that has entered the step would wait where nothing is sent
		delete(e.steps, s.id)
	}
	e.ended++
	failure := e.overLocked(s)
	e.calls.drop(peer.Who, 1)
	e.keys.drop(peer.Who, len(key))
	e.mu.Unlock()
	if failure != nil {
		s.abort(failure)
	}
}

// ask counts n tasks that a peer asks for their state, until answered is called.
func (e *eagerTable) ask(peer EagerPeer, n int) (answered func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.questions.add(e.task, peer.Who, n); err != nil {
		return nil, err
	}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.questions.drop(peer.Who, n)
	}, nil
}

// checkSource checks the source of a rendezvous key: one of this task's devices, by whatever name its client has for the task, since its
// present start.
func (t *Task) checkSource(key string) error {
	parts := strings.Split(key, ";")
	if len(parts) != 5 {
		return status.InvalidArgumentf("Invalid  rendezvous key: %s", key)
	}
	src := parts[0]
	incarnation, err := strconv.ParseUint(parts[1], 16, 64)
	at := strings.Index(src, "/device:")
	if err != nil || at < 0 {
		return status.InvalidArgumentf("Invalid  rendezvous key: %s", key)
	}
	executor := t.executors[t.name+src[at:]]
	if executor == nil {
		return status.InvalidArgumentf("%s unknown device.", src[at:])
	}
	if have := executor.Attributes().Incarnation; have != incarnation {
		return status.Errorf(status.Aborted, "RecvTensor expects a different device incarnation: %d vs. %d. Your worker job (\"%s\") was probably restarted. Check your worker job for the reason why it was restarted.",
			incarnation, have, t.name)
	}
	return nil
}
