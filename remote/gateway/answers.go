package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
)

// TensorFlow's client sends a step again, under the same request id, when its connection broke
// before the answer came. The step must not run twice: a repetition waits for the first one's
// answer, or gets it again as long as it is kept, which is answerTime, or until more than
// maxAnswers or answerBytes of younger ones came.
const (
	answerTime  = 10 * time.Second
	maxAnswers  = 1024
	answerBytes = 32 << 20
)

type answerKey struct {
	session string
	request int64
}

// answers are the steps that run and the results of those that ended a short time ago.
type answers struct {
	mu    sync.Mutex
	byKey map[answerKey]*answer
	queue []*answer // ended, oldest first
	bytes int
	sweep *time.Timer // runs while the queue holds something
}

type answer struct {
	key    answerKey
	done   chan struct{} // made by the first who waits for the answer; closed with it
	over   bool
	gone   bool // and not kept any more
	result *actors.StepResult
	err    error
	bytes  int
	ended  time.Time
}

func (a *answers) init() { a.byKey = map[answerKey]*answer{} }

// once runs a request, or gives the result of the one with the same id. The caller releases the
// result. Requests without an id (0) are always run.
func (a *answers) once(ctx context.Context, key answerKey, run func() (*actors.StepResult, error)) (*actors.StepResult, error) {
	if key.request == 0 {
		return run()
	}
	a.mu.Lock()
	if old := a.byKey[key]; old != nil {
		return a.await(ctx, old)
	}
	e := &answer{key: key, err: status.Internalf("The step panicked")}
	a.byKey[key] = e
	a.mu.Unlock()
	defer a.keep(e)
	e.result, e.err = run()
	return e.share(), e.err // before keep drops a large result again
}

// keep notes that a request was answered.
func (a *answers) keep(e *answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e.ended, e.over = time.Now(), true
	if e.result != nil {
		for _, t := range e.result.Tensors {
			e.bytes += t.ByteSize()
		}
	}
	if e.done != nil {
		close(e.done)
	}
	a.bytes += e.bytes
	a.queue = append(a.queue, e)
	a.trim(e.ended)
	if a.sweep == nil && len(a.queue) > 0 {
		a.sweep = time.AfterFunc(answerTime, a.expire)
	}
}

// expire drops what is too old, and comes again while something is left.
func (a *answers) expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.trim(time.Now())
	if a.sweep = nil; len(a.queue) > 0 {
		a.sweep = time.AfterFunc(answerTime, a.expire)
	}
}

// await waits for the answer of a request that came before. The caller holds the lock, which is
// given up.
func (a *answers) await(ctx context.Context, old *answer) (*actors.StepResult, error) {
	defer a.mu.Unlock()
	if !old.over {
		if old.done == nil {
			old.done = make(chan struct{})
		}
		done := old.done
		a.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
		}
		a.mu.Lock()
		if !old.over {
			return nil, ctx.Err()
		}
	}
	if old.gone {
		return nil, status.Errorf(status.Aborted, "The same request was received twice, and its answer is not kept any more")
	}
	return old.share(), old.err
}

// share gives the result with references for one more receiver; nil for none.
func (e *answer) share() *actors.StepResult {
	if e.result == nil {
		return nil
	}
	for _, t := range e.result.Tensors {
		t.Retain()
	}
	r := *e.result
	return &r
}

// trim drops answers that are too old or too many; the caller holds the lock.
func (a *answers) trim(now time.Time) {
	n := 0
	for n < len(a.queue) && (len(a.queue)-n > maxAnswers || a.bytes > answerBytes || now.Sub(a.queue[n].ended) > answerTime) {
		e := a.queue[n]
		delete(a.byKey, e.key)
		a.bytes -= e.bytes
		if e.gone = true; e.result != nil {
			e.result.Release()
		}
		a.queue[n] = nil
		n++
	}
	a.queue = a.queue[n:]
}

// close drops everything.
func (a *answers) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sweep != nil {
		a.sweep.Stop()
	}
	a.trim(time.Now().Add(2 * answerTime))
}
