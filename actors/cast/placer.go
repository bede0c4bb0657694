package cast

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/placement"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/internal/contain"
)

const (
	// placementLease is how long a task may go on with virtual actors after it was last heard, and placementLead how long a leader leads.
	placementLease = 3500 * time.Millisecond
	placementLead  = 1500 * time.Millisecond
	// handOver is how long the end of virtual actors that move is waited for, and leaveTime for another task to have what a task has that stops.
	handOver  = 10 * time.Second
	leaveTime = 2 * time.Second
	// sweepEvery is how often idle virtual actors are looked for.
	sweepEvery = time.Second
	// maxHeard bounds the messages from other tasks' placements that wait, and maxUnsent those to a task.
	maxHeard  = 1024
	maxUnsent = 4
)

// placer runs the task's placement, on a goroutine of its own while the cast lives. It begins with the first message of another task's, or at
// once if the program has virtual kinds.
type placer struct {
	cast *Cast
	core *placement.Core // owned by the goroutine
	born time.Time
	used atomic.Bool // it runs

	heard chan heard
	sent  chan string   // tasks that a message has been sent to, or could not be
	ended chan struct{} // a message if no actor moves any more
	leave chan chan struct{}

	view   atomic.Pointer[located] // the latest; nil if there is none
	active atomic.Pointer[located] // in which virtual actors may begin; nil while there is none
	until  atomic.Int64            // the time since born until which virtual actors may act
	moving atomic.Int64            // virtual actors that end because they move

	// Owned by the goroutine.
	unsent   map[string][]*wire.Placement // by task; a task with an entry has a message in flight
	prepares placement.Epoch              // the view that is prepared, from when
	since    time.Duration
	leaving  []chan struct{} // closed when the task has nothing more
}

// heard is a message of another task's placement.
type heard struct {
	from    string
	boot    uint64
	message *wire.Placement
}

// located has the owners of identities in a view by job; those of all jobs are under "".
type located struct {
	epoch  placement.Epoch
	owners map[string]placement.Owners
}

func locatedIn(v placement.View) *located {
	jobs := map[string][]string{}
	for _, m := range v.Members {
		job, _, _ := strings.Cut(strings.TrimPrefix(m, "/job:"), "/")
		jobs[job] = append(jobs[job], m)
	}
	l := &located{v.Epoch, map[string]placement.Owners{"": placement.NewOwners(v.Members)}}
	for job, members := range jobs {
		l.owners[job] = placement.NewOwners(members)
	}
	return l
}

// home returns the task that the virtual actor of a name lives on; "" if there is none.
func (l *located) home(name string, v *Virtual) string { return l.owners[v.Job].Owner(name) }

func newPlacer(s *Cast) *placer {
	hosts := false
	for _, k := range s.kinds {
		hosts = hosts || k.Virtual != nil
	}
	now := time.Now()
	p := &placer{cast: s, born: now, heard: make(chan heard, maxHeard), sent: make(chan string), ended: make(chan struct{}, 1), leave: make(chan chan struct{}),
		unsent: map[string][]*wire.Placement{}}
	p.core = placement.New(placement.Config{Self: s.config.Self, Tasks: s.config.Tasks, Boot: s.config.Boot, Hosts: hosts, Lease: placementLease, Lead: placementLead, Term: uint64(now.UnixMicro())})
	if hosts {
		p.begin()
	}
	return p
}

// begin starts the goroutine.
func (p *placer) begin() {
	if p.used.CompareAndSwap(false, true) {
		p.cast.work.Go(contain.Func(p.cast.log, "The placement of virtual actors", p.run, nil))
	}
}

// receive takes a message of another task's placement. It does not block: a message too many is lost, as messages may be.
func (p *placer) receive(from string, boot uint64, m *wire.Placement) {
	if !p.used.Load() {
		p.cast.mu.Lock()
		if !p.cast.stopped {
			p.begin()
		}
		p.cast.mu.Unlock()
	}
	select {
	case p.heard <- heard{from, boot, m}:
	default:
	}
}

// votersText names the voters, for errors.
func (p *placer) votersText() string {
	return strings.Join(placement.Voters(p.cast.config.Tasks), ", ")
}

// acts reports whether the task may go on with virtual actors.
func (p *placer) acts() bool { return int64(time.Since(p.born)) < p.until.Load() }

// begins reports whether a virtual actor may begin here.
func (p *placer) begins(name string, v *Virtual) bool {
	a := p.active.Load()
	return a != nil && p.acts() && a.home(name, v) == p.cast.config.Self
}

// HandOver lets the task's virtual actors move to other tasks, and others no longer begin on it, before Stop. It waits for that, until ctx ends and
// for two seconds at most.
func (s *Cast) HandOver(ctx context.Context) {
	p := s.placer
	if p.active.Load() == nil && len(s.virtuals()) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	left := make(chan struct{})
	select {
	case p.leave <- left:
	case <-ctx.Done():
		return
	case <-s.life.Done():
		return
	}
	select {
	case <-left:
	case <-ctx.Done():
	}
}

func (p *placer) run() {
	ticks, sweeps := time.NewTicker(p.core.Every()), time.NewTicker(sweepEvery)
	defer ticks.Stop()
	defer sweeps.Stop()
	p.core.Tick(0)
	for {
		p.follow()
		select {
		case <-p.cast.life.Done():
			return
		case <-ticks.C:
			p.core.Tick(p.now())
			p.hurry()
		case h := <-p.heard:
			p.core.Receive(p.now(), h.from, h.boot, h.message)
		case task := <-p.sent:
			p.sendNext(task)
		case <-p.ended:
			p.keepIfMoved()
		case left := <-p.leave:
			p.leaving = append(p.leaving, left)
			p.core.Leave(p.now())
		case <-sweeps.C:
			if p.active.Load() == nil {
				continue
			}
			for _, a := range p.cast.virtuals() {
				if a.idles(sweepEvery) {
					a.tell(passivate{})
				}
			}
			p.cast.keepUp()
		}
	}
}

func (p *placer) now() time.Duration { return time.Since(p.born) }

// follow does what the core answers, and publishes its state.
func (p *placer) follow() {
	for {
		p.until.Store(int64(p.core.Until()))
		if v, ok := p.core.View(); ok {
			p.view.Store(p.located(v))
		} else {
			p.view.Store(nil)
		}
		effects := p.core.Effects()
		if len(effects) == 0 {
			break
		}
		for _, e := range effects {
			p.do(e)
		}
	}
	if len(p.leaving) > 0 && p.core.Free(p.now()) {
		for _, left := range p.leaving {
			close(left)
		}
		p.leaving = nil
	}
}

// located returns a view with the owners of identities, which are computed once for the latest view.
func (p *placer) located(v placement.View) *located {
	if l := p.view.Load(); l != nil && l.epoch == v.Epoch {
		return l
	}
	return locatedIn(v)
}

func (p *placer) do(e placement.Effect) {
	switch e := e.(type) {
	case placement.Send:
		p.send(e.To, e.Message)
	case placement.Prepare:
		p.active.Store(nil)
		p.prepares, p.since = e.View.Epoch, p.now()
		view := p.located(e.View)
		p.dismiss(func(a *performer) bool { return view.home(a.name, a.kind.Virtual) != p.cast.config.Self })
		p.keepIfMoved()
	case placement.Activate:
		p.active.Store(p.located(e.View))
		p.cast.log.Info("virtual actors may live on these tasks", "tasks", strings.Join(e.View.Members, " "), "epoch", fmt.Sprintf("%d.%d", e.View.Epoch.Term, e.View.Epoch.Number))
		p.cast.keepUp()
	case placement.Expire:
		p.active.Store(nil)
		if n := p.dismiss(func(*performer) bool { return true }); n > 0 {
			p.cast.log.Warn("virtual actors of this task end: it reaches no majority of the tasks that vote", "actors", n, "voters", p.votersText())
		}
	}
}

// dismiss ends virtual actors, and returns how many.
func (p *placer) dismiss(moves func(*performer) bool) (n int) {
	for _, a := range p.cast.virtuals() {
		if moves(a) && a.move() {
			p.moving.Add(1)
			a.dismiss(elsewhere("The virtual actor %s moves to another task than %s", a.name, a.cast.config.Self))
			n++
		}
	}
	return n
}

// move marks an actor as one that moves. It returns false if it was marked or has ended.
func (p *performer) move() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.moves || p.closed {
		return false
	}
	p.moves = true
	return true
}

// moved is called when a virtual actor has ended.
func (p *performer) moved() {
	p.mu.Lock()
	moves := p.moves
	p.mu.Unlock()
	placer := p.cast.placer
	if moves && placer.moving.Add(-1) == 0 {
		select {
		case placer.ended <- struct{}{}:
		default: // it will be read
		}
	}
}

// keep says that the view that is prepared, if one is, is kept to.
func (p *placer) keep() {
	if p.prepares != (placement.Epoch{}) {
		p.core.Kept(p.now(), p.prepares)
		p.prepares = placement.Epoch{}
	}
}

func (p *placer) keepIfMoved() {
	if p.moving.Load() == 0 {
		p.keep()
	}
}

// hurry keeps to the view that is prepared although actors that move do not return.
func (p *placer) hurry() {
	if p.prepares != (placement.Epoch{}) && p.now() >= p.since+handOver {
		p.cast.log.Error("virtual actors that move have not returned from Receive since their contexts ended: others begin in their places", "count", p.moving.Load(), "after", handOver)
		p.keep()
	}
}

// send sends a message to another task, after those that wait for it. Of too many, the oldest are lost.
func (p *placer) send(task string, m *wire.Placement) {
	waiting, busy := p.unsent[task]
	if len(waiting) >= maxUnsent {
		waiting = waiting[1:]
	}
	p.unsent[task] = append(waiting, m)
	if !busy {
		p.sendNext(task)
	}
}

func (p *placer) sendNext(task string) {
	waiting := p.unsent[task]
	if len(waiting) == 0 {
		delete(p.unsent, task)
		return
	}
	m := waiting[0]
	p.unsent[task] = waiting[1:]
	s := p.cast
	if !s.dispatch(task, func(ctx context.Context) {
		try, cancel := context.WithTimeout(ctx, placementLead)
		defer cancel()
		if err := s.mail(try, task, &wire.Mail{What: &wire.Mail_Placement{Placement: m}}); err != nil {
			s.log.Debug("a message about the placement of virtual actors was not sent", "task", task, "error", err)
		}
		select {
		case p.sent <- task:
		case <-ctx.Done():
		}
	}) {
		delete(p.unsent, task)
	}
}
