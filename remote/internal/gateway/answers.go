package gateway

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/internal/port"
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

// answerKey says which requests are the same one: those of an id that ask for the same.
type answerKey struct {
	session string
	request int64
	asked   uint64 // a hash of the fetches, or a callable's handle
}

var fetchSeed = maphash.MakeSeed()

// hashFetches tells requests apart that fetch different things.
func hashFetches(fetches []string) uint64 {
	var h maphash.Hash
	h.SetSeed(fetchSeed)
	for _, f := range fetches {
		// A maphash takes everything.
		_, _ = h.WriteString(f)
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}

// answers are the steps that run and the results of those that ended a short time ago.
type answers struct {
	mu    sync.Mutex
	byKey map[answerKey]*answer
	ended [maxAnswers + 1]*answer // a ring: count of them, the oldest first
	first int
	count int
	bytes int
	spare []*answer   // whose memory is used again
	sweep *time.Timer // runs while something is kept
}

type answer struct {
	key      answerKey
	done     chan struct{} // made by the first who waits for the answer; closed with it
	over     bool
	gone     bool // and not kept any more
	tensors  []*tensor.Tensor
	metadata *corepb.RunMetadata
	err      error
	bytes    int
	ended    time.Time
}

func (a *answers) init() { a.byKey = map[answerKey]*answer{} }

var errPanicked = status.Internalf("The step panicked")

// once runs a request, or gives the result of the one with the same id. The caller releases the
// result. Requests without an id (0) are always run. A repetition of one that still runs waits.
func (a *answers) once(ctx context.Context, key answerKey, run func() (*actors.StepResult, error)) (result *actors.StepResult, err error) {
	if key.request == 0 {
		return run()
	}
	a.mu.Lock()
	if old := a.byKey[key]; old != nil {
		return a.await(ctx, old)
	}
	e := a.takeLocked()
	e.key = key
	a.byKey[key] = e
	a.mu.Unlock()
	err = errPanicked // unless run returns
	defer func() { a.keep(e, result, err) }()
	return run()
}

// takeLocked gives an empty answer.
func (a *answers) takeLocked() *answer {
	if n := len(a.spare); n > 0 {
		e := a.spare[n-1]
		a.spare = a.spare[:n-1]
		return e
	}
	return &answer{}
}

// keep notes that a request was answered, with references of its own to the result's tensors.
func (a *answers) keep(e *answer, result *actors.StepResult, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e.ended, e.over, e.err = time.Now(), true, err
	if result != nil {
		for _, t := range result.Tensors {
			e.tensors = append(e.tensors, t.Retain())
			e.bytes += t.ByteSize()
		}
		e.metadata = result.Metadata
	}
	if e.done != nil {
		close(e.done)
	}
	a.bytes += e.bytes
	a.ended[(a.first+a.count)%len(a.ended)] = e
	a.count++
	a.trim(e.ended)
	if a.sweep == nil && a.count > 0 {
		a.sweep = time.AfterFunc(answerTime, a.expire)
	}
}

// expire drops what is too old, and comes again while something is left.
func (a *answers) expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.trim(time.Now())
	if a.sweep = nil; a.count > 0 {
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
		port.Detach(ctx)
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
	if e.err != nil {
		return nil
	}
	for _, t := range e.tensors {
		t.Retain()
	}
	return &actors.StepResult{Tensors: slices.Clone(e.tensors), Metadata: e.metadata}
}

// trim drops answers that are too old or too many; the caller holds the lock.
func (a *answers) trim(now time.Time) {
	for a.count > 0 {
		e := a.ended[a.first]
		if a.count <= maxAnswers && a.bytes <= answerBytes && now.Sub(e.ended) <= answerTime {
			return
		}
		a.ended[a.first] = nil
		a.first = (a.first + 1) % len(a.ended)
		a.count--
		a.bytes -= e.bytes
		delete(a.byKey, e.key)
		for _, t := range e.tensors {
			t.Release()
		}
		if e.done != nil { // somebody may still be about to look
			e.gone = true
			continue
		}
		if len(a.spare) < maxAnswers {
			clear(e.tensors)
			*e = answer{tensors: e.tensors[:0]}
			a.spare = append(a.spare, e)
		}
	}
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
