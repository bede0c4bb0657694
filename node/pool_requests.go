package node

import (
	"fmt"
	"slices"
	"time"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/proto"
)

// poolRequest is a message that a pool has until a worker has answered it, or, if it is not of a caller of Ask, until it is passed on.
type poolRequest struct {
	from    *ActorContext // with which it arrived
	message proto.Message
	request *ActorRequest // nil if nobody waits for an answer
	key     string
	size    int
	end     time.Time
	retries int
	worker  *poolWorker // that has it, or had it last

	// Until a time, the worker that failed it does not get it again, nor do others of its task if that is out of reach: the pool may not
	// know yet that they have ended. start is the worker's start that had it.
	until      time.Time
	start      int
	outOfReach bool

	stop     func() // ends the wait for a worker
	timesOut bool   // it waits until its end, which comes before the limit of the wait
}

// poolExpired says that a request has waited for a worker for too long, and poolRetry that a request may go to the worker that failed it.
type (
	poolExpired struct{ request *poolRequest }
	poolRetry   struct{}
)

// accept passes a message on to a worker, or lets it wait.
func (p *pool) accept(c *ActorContext, message any) {
	m, err := cast.Enclose(message)
	if err != nil { // it is no message, but a notice that is of no concern
		c.context.Drop(message)
		return
	}
	r := &poolRequest{from: c, message: m, end: time.Now().Add(p.Timeout), size: proto.Size(m)}
	if p.Key != nil {
		r.key = p.Key(message)
	}
	r.request = c.Keep()
	switch {
	case r.request == nil && len(p.ready) > 0:
		p.pass(r)
		return
	case r.request != nil && p.Route == ToAll:
		p.fail(c, r, status.InvalidArgumentf("The pool %s passes each message on to all of its workers: it can be sent to, but not asked", p.name))
		return
	case p.bytes+r.size > maxPoolBytes:
		p.fail(c, r, status.Errorf(status.ResourceExhausted, "The pool %s has messages of %d bytes, and the limit is %d", p.name, p.bytes, maxPoolBytes))
		return
	}
	p.bytes += r.size
	if !p.place(r) {
		p.wait(c, r)
	}
}

// pass passes on a message that nobody waits for an answer to. Workers are ready.
func (p *pool) pass(r *poolRequest) {
	if p.Route == ToAll {
		for _, w := range p.ready {
			p.passTo(w, r)
		}
		return
	}
	if p.Key == nil {
		for range p.ready {
			if w := p.pick(r); w != nil && r.from.context.Pass(w.ref.ref, r.message, false) == nil {
				return
			}
		}
	}
	p.passTo(p.pick(r), r)
}

func (p *pool) passTo(w *poolWorker, r *poolRequest) {
	if err := r.from.context.Pass(w.ref.ref, r.message, true); err != nil {
		r.from.context.Discard(err)
	}
}

// place gives a request to a worker. It returns false if no worker can take it now.
func (p *pool) place(r *poolRequest) bool {
	if r.request == nil {
		if len(p.ready) == 0 {
			return false
		}
		p.bytes -= r.size
		p.pass(r)
		return true
	}
	if p.inFlight >= MaxActorAsks {
		return false
	}
	w := p.pick(r)
	if w == nil {
		return false
	}
	r.worker, r.start = w, w.starts
	w.inFlight++
	p.inFlight++
	r.from.askFor(r.request, w.ref, r.message, time.Until(r.end), r)
	return true
}

// pick returns the worker for a message; nil if none can take it now. A message that nobody waits for has no part in what workers have in flight.
func (p *pool) pick(r *poolRequest) *poolWorker {
	if p.Key != nil {
		return p.pickByKey(r)
	}
	var best *poolWorker
	n := len(p.ready)
	for i := range n {
		w := p.ready[(p.next+i)%n]
		if !p.takes(w, r) || best != nil && w.inFlight >= best.inFlight {
			continue
		}
		best = w
		if p.Route != LeastLoaded {
			p.next += i
			break
		}
	}
	p.next++
	return best
}

// pickByKey returns the worker that a key belongs to. A request that it has failed belongs to the next one.
func (p *pool) pickByKey(r *poolRequest) *poolWorker {
	owners := p.owners
	if !r.until.IsZero() {
		var keys []string
		for i, w := range p.ready {
			if !r.avoids(w) {
				keys = append(keys, p.keys[i])
			}
		}
		owners = cast.NewOwners(keys)
	}
	i := slices.Index(p.keys, owners.Owner(r.key))
	if i < 0 || !p.takes(p.ready[i], r) {
		return nil
	}
	return p.ready[i]
}

func (p *pool) takes(w *poolWorker, r *poolRequest) bool {
	return r.request == nil || w.inFlight < p.InFlight && !r.avoids(w)
}

func (r *poolRequest) avoids(w *poolWorker) bool {
	failed := !r.until.IsZero() && (w == r.worker && w.starts == r.start || r.outOfReach && w.task == r.worker.task)
	return failed && time.Now().Before(r.until)
}

// wait lets a message wait until a worker can take it.
func (p *pool) wait(c *ActorContext, r *poolRequest) {
	if len(p.waiting) >= p.Waiting {
		p.giveUp(c, r, "%d messages wait for one, which is the limit", len(p.waiting))
		return
	}
	p.waiting = append(p.waiting, r)
	limit := p.WaitLimit
	if left := time.Until(r.end); r.request != nil && left < limit {
		limit, r.timesOut = left, true
	}
	r.stop = c.After(limit, poolExpired{r})
}

// expired gives up a request that has waited for too long.
func (p *pool) expired(c *ActorContext, r *poolRequest) {
	p.waiting = slices.DeleteFunc(p.waiting, func(w *poolRequest) bool { return w == r })
	if r.timesOut {
		p.bytes -= r.size
		_, why := p.unready()
		p.fail(c, r, status.Errorf(status.DeadlineExceeded, "%s: the request has taken %v, which is the limit", why, p.Timeout))
		return
	}
	p.giveUp(c, r, "it has waited for %v, which is the limit", p.WaitLimit)
}

// giveUp fails a message that no worker could take.
func (p *pool) giveUp(c *ActorContext, r *poolRequest, format string, args ...any) {
	p.bytes -= r.size
	code, why := p.unready()
	p.fail(c, r, status.Errorf(code, "%s: "+format, append([]any{why}, args...)...))
}

// unready returns why no worker takes a message.
func (p *pool) unready() (code status.Code, why string) {
	if len(p.ready) == 0 {
		return status.Unavailable, fmt.Sprintf("The pool %s has no workers that are up", p.name)
	}
	return status.ResourceExhausted, fmt.Sprintf("The %d workers of the pool %s are busy", len(p.ready), p.name)
}

// flush passes on what waits and can be taken now.
func (p *pool) flush() {
	if len(p.waiting) == 0 || len(p.ready) == 0 {
		return
	}
	waiting := p.waiting
	p.waiting = nil
	busy := false // no worker can take any request
	for _, r := range waiting {
		if !busy && r.request != nil && !r.request.request.Awaited() { // a worker would answer nobody
			r.stop()
			p.bytes -= r.size
			continue
		}
		if busy && r.request != nil || !p.place(r) {
			p.waiting = append(p.waiting, r)
			busy = busy || p.Key == nil && r.retries == 0
			continue
		}
		r.stop()
	}
}

// answered passes an answer on to the requester, or a request on to another worker.
func (p *pool) answered(c *ActorContext, a ActorAnswer) {
	r := a.Tag.(*poolRequest)
	w := r.worker
	w.inFlight--
	p.inFlight--
	if r.request.request.Awaited() && (a.notBegun || r.retries < p.Retries && lost(a)) {
		if !a.notBegun {
			r.retries++
		}
		r.until, r.outOfReach = time.Now().Add(p.Backoff), status.CodeOf(a.Err) == status.Unavailable
		if !p.place(r) {
			p.wait(c, r)
			c.After(p.Backoff, poolRetry{})
		}
	} else {
		p.bytes -= r.size
		if err := a.Err; err != nil {
			p.fail(c, r, err)
		} else if err := r.request.Reply(a.Message); err != nil {
			p.fail(c, r, err)
		}
	}
	p.leave(c, w)
	p.flush()
}

// lost reports whether a worker ended or failed, or its task was lost, before it answered.
func lost(a ActorAnswer) bool {
	if a.Err == nil || a.own {
		return false
	}
	switch status.CodeOf(a.Err) {
	case status.DeadlineExceeded, status.InvalidArgument, status.ResourceExhausted:
		return false // the request took too long, or is refused
	}
	return true
}

// fail answers a request with an error. A message that nobody waits for is logged.
func (p *pool) fail(c *ActorContext, r *poolRequest, err error) {
	if r.request == nil {
		c.context.Discard(err)
		return
	}
	_ = r.request.Fail(err) // It fails only if the request has been answered.
}
