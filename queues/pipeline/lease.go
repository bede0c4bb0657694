package pipeline

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Steps that end or renew leases: the names of their nodes.
const (
	acknowledge = "acknowledge"
	giveBack    = "return"
	renew       = "renew"
)

// checkLease returns INVALID_ARGUMENT for options of leases that are invalid or do not apply.
func (q *Of[T]) checkLease(o ConsumerOptions) error {
	switch {
	case o.Lease < 0 || o.Lease > 0 && o.Lease < time.Millisecond || o.MaxDeliveries < 0 || o.Retry < 0:
		return status.InvalidArgumentf("Queue %s: a lease of %v, %d deliveries, retries for %v", q.Name, o.Lease, o.MaxDeliveries, o.Retry)
	case o.Lease == 0 && (o.MaxDeliveries > 0 || o.DeadLetters != nil || o.Retry > 0):
		return status.InvalidArgumentf("Queue %s: MaxDeliveries, DeadLetters and Retry need a Lease", q.Name)
	case o.DeadLetters == nil:
		return nil
	case o.MaxDeliveries == 0:
		return status.InvalidArgumentf("Queue %s: DeadLetters needs MaxDeliveries", q.Name)
	case o.DeadLetters.Capacity < 0:
		return status.InvalidArgumentf("Queue %s: a capacity of %d for dead letters", q.Name, o.DeadLetters.Capacity)
	case o.DeadLetters.Name == "" || o.DeadLetters.Device == "" || o.DeadLetters.Device != q.Device:
		return status.InvalidArgumentf("Queue %s on device %q: the queue for its dead letters, %q on device %q, needs a name and the same device, and both must name it",
			q.Name, q.Device, o.DeadLetters.Name, o.DeadLetters.Device)
	}
	return nil
}

// addLease adds the operations of a consumer that leases elements.
func (q *Of[T]) addLease(s *op.Scope, queue, count op.Output, types []tensor.DType, o ConsumerOptions) {
	var dead op.List
	if o.DeadLetters != nil {
		_, shapes := q.Signature()
		dead = op.List{o.DeadLetters.withDefaults().add(s.WithName("dead_letters"), types, shapes)}
	}
	tokens := s.WithName("leases").Add(op.Spec{Op: "Placeholder", Attrs: map[string]any{"dtype": tensor.String, "shape": shape.Of(-1)}}).Output(0)
	lease := func(name string, attrs map[string]any) {
		attrs["component_types"], attrs["lease_ms"], attrs["max_deliveries"] = types, o.Lease.Milliseconds(), o.MaxDeliveries
		s.WithName(name).Add(op.Spec{Op: "TroupeQueueLease", Inputs: []op.Input{queue, count, tokens, dead}, Attrs: attrs})
	}
	lease("first", map[string]any{graph.OpenWaitAttr: q.openWaitMs()})
	lease("dequeue", map[string]any{})
	s.WithName(acknowledge).Add(op.Spec{Op: "TroupeQueueAcknowledge", Inputs: []op.Input{queue, tokens}})
	s.WithName(giveBack).Add(op.Spec{Op: "TroupeQueueReturn", Inputs: []op.Input{queue, tokens}})
	s.WithName(renew).Add(op.Spec{Op: "TroupeQueueRenew", Inputs: []op.Input{queue, tokens}})
}

// lease is the result of a step that leases a batch.
type lease struct {
	token      string
	held       []bool // for each lease that was acknowledged, whether it had not ended before
	components []*tensor.Tensor
}

// lease acknowledges leases and leases a batch.
func (n *nodes) lease(ctx context.Context, fetches, acknowledged []string) (lease, error) {
	out, err := n.feedLeases(ctx, acknowledged, fetches)
	if err != nil {
		return lease{}, err
	}
	l := lease{components: out[min(2, len(out)):]}
	if len(out) < 2 || out[0].DType() != tensor.String || out[0].Len() != 1 || out[1].DType() != tensor.Bool || out[1].Len() != len(acknowledged) {
		release(out)
		return lease{}, status.Internalf("The queue answered a lease, with %d acknowledged, in another form", len(acknowledged))
	}
	l.token, l.held = out[0].Strings()[0], slices.Clone(tensor.Of[bool](out[1]))
	release(out[:2])
	return l, nil
}

// settle ends or renews leases in one step. It reports for each whether it had not ended before.
func (n *nodes) settle(ctx context.Context, how string, tokens []string) ([]bool, error) {
	out, err := n.feedLeases(ctx, tokens, []string{n.name(how + ":0")})
	if err != nil {
		return nil, err
	}
	defer release(out)
	if len(out) != 1 || out[0].DType() != tensor.Bool || out[0].Len() != len(tokens) {
		return nil, status.Internalf("The queue answered for other leases than the %d that it was asked for", len(tokens))
	}
	return slices.Clone(tensor.Of[bool](out[0])), nil
}

// feedLeases runs a step on leases.
func (n *nodes) feedLeases(ctx context.Context, tokens, fetches []string) ([]*tensor.Tensor, error) {
	feed, err := tensor.New(tensor.Host, tensor.String, tensor.Shape{int64(len(tokens))})
	if err != nil {
		return nil, err
	}
	defer feed.Release()
	copy(feed.Strings(), tokens)
	return n.session.Run(ctx, map[string]*tensor.Tensor{n.name("leases:0"): feed}, fetches, nil)
}

// leases are what one loop of a consumer has leased. The step that leases the next batch acknowledges those that the loop has used. While
// that step waits for elements, a goroutine acknowledges them; it also renews the leases of the others. It ends with the loop.
type leases struct {
	nodes   *nodes
	options ConsumerOptions
	expired func(elements int) // counts elements that were used, and will be delivered again
	ctx     context.Context    // of the goroutine's steps
	cancel  context.CancelFunc
	wake    chan struct{} // has a value when there is something to acknowledge while a step leases a batch
	ended   chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	leasing bool           // a step is leasing a batch
	held    map[string]int // elements of each lease that is being used or was prefetched
	used    map[string]int // elements of each lease that is to be acknowledged
	sent    map[string]int // and of each that a step is acknowledging
	err     error          // why acknowledging failed
}

func (n *nodes) newLeases(ctx context.Context, o ConsumerOptions, expired func(int)) *leases {
	l := &leases{nodes: n, options: o, expired: expired, wake: make(chan struct{}, 1), ended: make(chan struct{}),
		held: map[string]int{}, used: map[string]int{}, sent: map[string]int{}}
	l.ctx, l.cancel = context.WithCancel(ctx)
	go l.keep()
	return l
}

// leaseTime is the time after which a step that leases a batch is taken to wait for elements.
const leaseTime = time.Millisecond

// keep is the goroutine.
func (l *leases) keep() {
	defer close(l.ended)
	renewals := time.NewTicker(max(l.options.Lease/3, time.Millisecond))
	defer renewals.Stop()
	waits := time.NewTimer(leaseTime)
	waits.Stop()
	defer waits.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.wake:
			waits.Reset(leaseTime)
		case <-waits.C:
			if err := l.acknowledgeUsed(l.ctx); err != nil {
				l.fail(err)
			}
		case <-renewals.C:
			l.renew()
		}
	}
}

// lease leases the next batch.
func (l *leases) lease(ctx context.Context, fetches []string) (lease, error) {
	l.mu.Lock()
	l.leasing = true
	l.mu.Unlock()
	tokens := l.send()
	got, err := retried(ctx, l.options.Retry, func() (lease, error) { return l.nodes.lease(ctx, fetches, tokens) })
	l.answered(tokens, got.held)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leasing = false
	return got, err
}

// send returns the leases that a step is to acknowledge.
func (l *leases) send() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	tokens := slices.Collect(maps.Keys(l.used))
	maps.Copy(l.sent, l.used)
	clear(l.used)
	return tokens
}

// answered handles the answer of a step that acknowledged leases. held is nil if there is none: another step acknowledges them again.
func (l *leases) answered(tokens []string, held []bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, token := range tokens {
		n := l.sent[token]
		delete(l.sent, token)
		switch {
		case held == nil:
			l.used[token] = n
		case !held[i]:
			l.expired(n)
		}
	}
}

// fail makes the loop end with an error, unless it has ended.
func (l *leases) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil && l.ctx.Err() == nil {
		l.err = err
	}
}

// failed returns the error that ends the loop.
func (l *leases) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// add holds the lease of a batch.
func (l *leases) add(token string, elements int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[token] = elements
}

// use marks a batch as used, to be acknowledged. A batch that was acknowledged or returned is not held.
func (l *leases) use(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, ok := l.held[token]
	if !ok {
		return
	}
	delete(l.held, token)
	l.used[token] = n
	if !l.leasing {
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// acknowledgeUsed acknowledges the batches that have been used.
func (l *leases) acknowledgeUsed(ctx context.Context) error {
	tokens := l.send()
	if len(tokens) == 0 {
		return nil
	}
	held, err := retried(ctx, l.options.Retry, func() ([]bool, error) { return l.nodes.settle(ctx, acknowledge, tokens) })
	l.answered(tokens, held)
	return err
}

// renew renews the leases that no step is acknowledging. Those that have ended are left to be reported when they are acknowledged.
func (l *leases) renew() {
	l.mu.Lock()
	tokens := slices.AppendSeq(slices.Collect(maps.Keys(l.held)), maps.Keys(l.used))
	l.mu.Unlock()
	if len(tokens) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, l.options.Lease)
	defer cancel()
	if _, err := l.nodes.settle(ctx, renew, tokens); err != nil && !sessionLost(err) && ctx.Err() == nil {
		l.fail(err) // after an outage, the next renewal may still be in time
	}
}

// settle acknowledges or returns one batch now.
func (l *leases) settle(ctx context.Context, how, token string) error {
	held, err := retried(ctx, l.options.Retry, func() ([]bool, error) { return l.nodes.settle(ctx, how, []string{token}) })
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.held[token]
	delete(l.held, token)
	if !held[0] {
		if how == acknowledge {
			l.expired(n)
		}
		return status.Errorf(status.FailedPrecondition, "the batch was returned to the queue before, by its consumer or because it had not been acknowledged within %v: "+
			"it goes to another consumer", l.options.Lease)
	}
	return nil
}

// close ends the goroutine. It acknowledges the batches that have been used, and returns the others.
func (l *leases) close(ctx context.Context) {
	l.cancel()
	<-l.ended
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	failed := l.acknowledgeUsed(ctx)
	l.mu.Lock()
	if failed != nil {
		for _, n := range l.used {
			l.expired(n)
		}
	}
	tokens := slices.Collect(maps.Keys(l.held))
	l.mu.Unlock()
	if len(tokens) > 0 {
		// If this fails, they come back when their leases expire.
		_, _ = l.nodes.settle(ctx, giveBack, tokens)
	}
}

// Acknowledge ends the batch's lease, so that it is not delivered again. The loop does this by itself when it asks for the next batch; a
// program that leaves the loop early acknowledges its last batch. The error is FAILED_PRECONDITION if the lease had ended before: the
// elements go to another consumer. Without leases, Acknowledge does nothing.
func (b *Batch[T]) Acknowledge(ctx context.Context) error {
	if b.leases == nil {
		return nil
	}
	return b.leases.settle(ctx, acknowledge, b.token)
}

// Return ends the batch's lease and puts its elements back to the front of the queue, for any consumer. The error is FAILED_PRECONDITION if
// the lease had ended before, or without leases.
func (b *Batch[T]) Return(ctx context.Context) error {
	if b.leases == nil {
		return status.Errorf(status.FailedPrecondition, "a batch of a consumer without a Lease cannot be returned: it has left the queue")
	}
	return b.leases.settle(ctx, giveBack, b.token)
}
