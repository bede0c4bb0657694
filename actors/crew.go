package actors

import (
	"context"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// crew is the goroutines that a task's actors and steps run on. One that has done its work waits a
// while for more: a new goroutine would have to grow its stack again, which costs more than many a
// step. There are as many as work at the same time, never a queue.
type crew struct {
	work chan func()
	quit chan struct{}
	wg   sync.WaitGroup
}

var _ actor.Dispatcher = (*crew)(nil)

const (
	// crewPatience is how long an idle goroutine waits for work.
	crewPatience = time.Second
	// mailboxTurn is how many messages an actor handles before others have a turn, which is the
	// actor library's own number.
	mailboxTurn = 300
)

func newCrew() *crew { return &crew{work: make(chan func()), quit: make(chan struct{})} }

// Schedule runs f on a goroutine of the crew.
func (c *crew) Schedule(f func()) {
	select {
	case c.work <- f:
	default:
		c.wg.Go(func() { c.serve(f) })
	}
}

// Throughput is how many messages an actor handles in a turn.
func (c *crew) Throughput() int { return mailboxTurn }

func (c *crew) serve(f func()) {
	f()
	idle := time.NewTimer(crewPatience)
	defer idle.Stop()
	for {
		select {
		case f := <-c.work:
			f()
			idle.Reset(crewPatience)
		case <-idle.C:
			return
		case <-c.quit:
			return
		}
	}
}

// dismiss ends the goroutines that wait, and waits for those that work, a little longer than until
// ctx ends at most; false tells that some go on.
func (c *crew) dismiss(ctx context.Context) bool {
	close(c.quit)
	gone := make(chan struct{})
	go func() { // ends with the last of the crew
		c.wg.Wait()
		close(gone)
	}()
	grace := time.NewTimer(crewPatience)
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
