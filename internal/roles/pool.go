package roles

import (
	"context"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/internal/contain"
)

// Pool runs the work of a task's actors and steps on goroutines. A goroutine that has done its work waits a while for more: a new goroutine
// would have to grow its stack again, which costs more than many steps. There are as many goroutines as concurrent work needs, and never a
// queue. All methods may be called concurrently.
type Pool struct {
	work chan Runner
	quit chan struct{}
	wg   sync.WaitGroup
}

var _ actor.Dispatcher = (*Pool)(nil)

// Runner is what a pool runs.
type Runner interface{ Run() }

// call is a function as a Runner. A conversion to Runner takes no memory.
type call func()

func (f call) Run() { f() }

const (
	// idleTime is how long an idle goroutine waits for work.
	idleTime = time.Second
	// poolTurn is the number of messages that an actor handles before others get a turn. It is the actor library's default.
	poolTurn = 300
)

// NewPool makes a pool without goroutines.
func NewPool() *Pool { return &Pool{work: make(chan Runner), quit: make(chan struct{})} }

// Schedule runs f on a goroutine of the pool.
func (p *Pool) Schedule(f func()) { p.Run(call(f)) }

// Run is Schedule of what has no function of its own, which would take memory each time.
func (p *Pool) Run(w Runner) {
	select {
	case p.work <- w:
	default:
		p.wg.Go(contain.Func(nil, "A goroutine of the pool", func() { p.serve(w) }, nil))
	}
}

// Throughput returns the number of messages that an actor handles in a turn.
func (p *Pool) Throughput() int { return poolTurn }

// run does the work. A panic ends only that; callers that must report a panic recover it first.
func (p *Pool) run(w Runner) {
	defer contain.Recover(nil, "Work on the pool", nil)
	w.Run()
}

func (p *Pool) serve(w Runner) {
	p.run(w)
	idle := time.NewTimer(idleTime)
	defer idle.Stop()
	for {
		select {
		case w := <-p.work:
			p.run(w)
			idle.Reset(idleTime)
		case <-idle.C:
			return
		case <-p.quit:
			return
		}
	}
}

// Close ends the idle goroutines and waits for the working ones, at most a little longer than until ctx ends. It returns false if some are
// still working. It must be called once.
func (p *Pool) Close(ctx context.Context) bool {
	close(p.quit)
	gone := make(chan struct{})
	contain.Go(nil, "The pool's end", func() { // ends with the last goroutine of the pool
		p.wg.Wait()
		close(gone)
	}, nil)
	grace := time.NewTimer(idleTime)
	defer grace.Stop()
	select {
	case <-gone:
		return true
	case <-ctx.Done():
	}
	select {
	case <-gone:
		return true
	case <-grace.C:
		return false
	}
}
