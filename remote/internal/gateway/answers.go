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
	"google.golang.org/protobuf/proto"
)

// TensorFlow's client retries a step, with the same request id, if its connection broke before the answer arrived. The step must not run
// twice: a retry waits for the first request's answer, or gets it again while it is kept. An answer is kept for answerTime, or until there
// are more than maxAnswers or answerBytes of answers.
const (
	answerTime  = 10 * time.Second
	maxAnswers  = 1024
	answerBytes = 32 << 20
)

// answerKey identifies a request: retries have the same id and ask for the same. They also have the same feeds. If the feeds differ, the
// client has used an id twice, and the previous answer would be wrong.
type answerKey struct {
	session string
	request int64
	asked   uint64 // a hash of the fetches, or a callable's handle
	given   uint64 // a hash of the feeds and everything else; not part of the identity
}

// same returns the part of the key that identifies the request.
func (k answerKey) same() answerKey {
	k.given = 0
	return k
}

var fetchSeed, givenSeed = maphash.MakeSeed(), maphash.MakeSeed()

// hashRest adds what a step is given besides feeds and fetches to the hash of its feeds.
func hashRest(h *maphash.Hash, q *actors.StepRequest) uint64 {
	hashText(h, q.Partial)
	maphash.WriteComparable(h, len(q.Targets))
	for _, t := range q.Targets {
		hashText(h, t)
	}
	if q.Options != nil {
		hashMessage(h, q.Options)
	}
	return h.Sum64()
}

func hashText(h *maphash.Hash, s string) {
	maphash.WriteComparable(h, len(s))
	_, _ = h.WriteString(s) // never fails
}

// hashTensor adds a fed tensor. added is how many bytes of its contents were already added while they were read. nil is a value that could
// not be accepted, with which no step runs.
func hashTensor(h *maphash.Hash, t *tensor.Tensor, added int) {
	if t == nil {
		_ = h.WriteByte(0)
		return
	}
	maphash.WriteComparable(h, t.DType())
	maphash.WriteComparable(h, t.Rank())
	for _, d := range t.Shape() {
		maphash.WriteComparable(h, d)
	}
	switch {
	case t.DType() == tensor.String:
		least := t.Len() // for packed strings, where each length takes at least a byte
		for _, s := range t.Strings() {
			least += len(s)
		}
		if added >= least {
			return
		}
		for _, s := range t.Strings() {
			hashText(h, s)
		}
	case t.DType() == tensor.Resource || t.DType() == tensor.Variant:
		if p, err := t.Proto(); err == nil {
			hashMessage(h, p)
		} // otherwise it cannot be fed either
	case added < t.ByteSize():
		_, _ = h.Write(t.Data())
	}
}

func hashMessage(h *maphash.Hash, m proto.Message) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err == nil { // m was just decoded
		_, _ = h.Write(b)
	}
}

// hashFetches distinguishes requests that fetch different things.
func hashFetches(fetches []string) uint64 {
	var h maphash.Hash
	h.SetSeed(fetchSeed)
	for _, f := range fetches {
		// A maphash accepts everything.
		_, _ = h.WriteString(f)
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}

// answers are the running steps and the results of those that ended recently.
type answers struct {
	mu    sync.Mutex
	byKey map[answerKey]*answer
	ended [maxAnswers + 1]*answer // a ring of count answers, the oldest first
	first int
	count int
	bytes int
	spare []*answer   // for reuse
	sweep *time.Timer // runs while an answer is kept
}

type answer struct {
	key      answerKey
	done     chan struct{} // created by the first waiter; closed with the answer
	over     bool
	gone     bool // ended and no longer kept
	tensors  []*tensor.Tensor
	metadata *corepb.RunMetadata
	err      error
	bytes    int
	ended    time.Time
}

func (a *answers) init() { a.byKey = map[answerKey]*answer{} }

var (
	errPanicked = status.Internalf("The step panicked")
	// errInterrupted is ABORTED rather than CANCELLED, which a program would take for its own doing: TensorFlow's monitored sessions recover from it.
	errInterrupted = status.Errorf(status.Aborted, "The step was cancelled when the connection to its client broke, and may have changed something by then. It is not run a second time for the same request; a new one runs it again")
)

// once runs a request, or returns the result of the earlier one with the same id. The caller releases the result. Requests without an id
// (0) always run. A retry of a running request waits for it.
func (a *answers) once(ctx context.Context, key answerKey, run func() (*actors.StepResult, error)) (result *actors.StepResult, err error) {
	if key.request == 0 {
		return run()
	}
	a.mu.Lock()
	if old := a.byKey[key.same()]; old != nil {
		if old.key.given != key.given {
			a.mu.Unlock()
			return nil, status.Errorf(status.AlreadyExists, "The session has run a step with the request id %d and other feeds, targets or options. A step that is sent again is the same; a new one has a new id (request_id)", key.request)
		}
		return a.await(ctx, old)
	}
	e := a.takeLocked()
	e.key = key
	a.byKey[key.same()] = e
	a.mu.Unlock()
	err = errPanicked // unless run returns
	defer func() {
		kept := err
		if status.CodeOf(err) == status.Cancelled && ctx.Err() != nil {
			kept = errInterrupted
		}
		a.keep(e, result, kept)
	}()
	return run()
}

// takeLocked returns an empty answer.
func (a *answers) takeLocked() *answer {
	if n := len(a.spare); n > 0 {
		e := a.spare[n-1]
		a.spare = a.spare[:n-1]
		return e
	}
	return &answer{}
}

// keep records the answer of a request and retains the result's tensors.
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

// expire drops old answers, and runs again while any are left.
func (a *answers) expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.trim(time.Now())
	if a.sweep = nil; a.count > 0 {
		a.sweep = time.AfterFunc(answerTime, a.expire)
	}
}

// await waits for the answer of an earlier request. The caller holds the lock, which await releases.
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
		return nil, status.Errorf(status.Aborted, "The same request was received twice, and its answer is no longer kept")
	}
	return old.share(), old.err
}

// share returns the result with retained tensors for one more receiver, or nil after an error.
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
		delete(a.byKey, e.key.same())
		for _, t := range e.tensors {
			t.Release()
		}
		if e.done != nil { // a waiter may still read it
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

// close drops all answers.
func (a *answers) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sweep != nil {
		a.sweep.Stop()
	}
	a.trim(time.Now().Add(2 * answerTime))
}
