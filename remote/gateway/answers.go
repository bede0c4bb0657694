package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors"
)

// TensorFlow's client sends a step again, under the same request id, when its connection broke
// before the answer came. The step must not run twice: a repetition waits for the first one's
// answer, or gets it again as long as it is kept, which is answerTime, or until more than
// maxAnswers or answerBytes of younger ones came.
const (
	answerTime  = 10 * time.Second
	maxAnswers  = 4096
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
}

type answer struct {
	key    answerKey
	done   chan struct{}
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
		a.mu.Unlock()
		select {
		case <-old.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		return old.share(), old.err
	}
	e := &answer{key: key, done: make(chan struct{})}
	a.byKey[key] = e
	a.mu.Unlock()
	result, err := run()
	a.mu.Lock()
	defer a.mu.Unlock()
	e.result, e.err, e.ended = result, err, time.Now()
	if result != nil {
		for _, t := range result.Tensors {
			e.bytes += t.ByteSize()
		}
	}
	mine := e.share() // before a large result is dropped again
	a.bytes += e.bytes
	a.queue = append(a.queue, e)
	a.trim(e.ended)
	close(e.done)
	return mine, err
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
		if e.result != nil {
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
	a.trim(time.Now().Add(2 * answerTime))
}
