package node

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/remote/spec"
)

// poolTask is a task on which a pool has workers.
type poolTask struct {
	name    string
	boot    uint64
	workers []*poolWorker // by number; those that are leaving are not among them
}

// poolWorker is the place of a worker on a task, which has one worker after another.
type poolWorker struct {
	task     string
	number   int
	ref      ActorRef
	starts   int           // how often it became ready
	since    time.Time     // when it became ready last
	backoff  time.Duration // before it was made last, if it failed soon
	ready    bool
	leaving  bool // it ends when it has answered its requests
	gone     bool // its task is, or it has ended and is not replaced
	inFlight int
}

// poolReplace makes a worker anew after a failure.
type poolReplace struct{ worker *poolWorker }

// taskChanged adds a task that is up, and removes one that is down or another process than before.
func (p *pool) taskChanged(c *ActorContext, t TaskStatus) {
	job, _, err := spec.ParseTaskName(t.Task)
	if err != nil || p.Job != "" && job != p.Job {
		return
	}
	up := t.State == "up"
	if known := p.tasks[t.Task]; known != nil {
		if up && known.boot == t.Boot {
			return
		}
		delete(p.tasks, t.Task)
		for _, w := range p.workers {
			if w.task == t.Task {
				p.remove(w)
			}
		}
	}
	if up {
		p.tasks[t.Task] = &poolTask{name: t.Task, boot: t.Boot}
	}
	p.balance(c)
}

// balance makes and ends workers so that each task has as many as it should.
func (p *pool) balance(c *ActorContext) {
	tasks := make([]*poolTask, 0, len(p.tasks))
	for _, t := range p.tasks {
		tasks = append(tasks, t)
	}
	slices.SortFunc(tasks, func(a, b *poolTask) int { return cmp.Compare(a.name, b.name) })
	for i, t := range tasks {
		want := p.wanted(i, len(tasks))
		for len(t.workers) > want {
			w := t.workers[len(t.workers)-1]
			t.workers = t.workers[:len(t.workers)-1]
			w.leaving = true
			p.leave(c, w)
		}
		for len(t.workers) < want {
			w := &poolWorker{task: t.name, number: len(t.workers), ref: ActorAt(t.name, fmt.Sprintf("pool-%016x", rand.Uint64()))}
			t.workers = append(t.workers, w)
			p.workers[w.ref] = w
			p.spawn(c, w)
		}
	}
	p.refresh()
}

// wanted returns how many workers the i-th of n tasks should have.
func (p *pool) wanted(i, n int) int {
	if p.Each > 0 {
		return p.Each
	}
	want := p.Total / n
	if i < p.Total%n {
		want++
	}
	return want
}

// spawn begins to make a worker.
func (p *pool) spawn(c *ActorContext, w *poolWorker) {
	if w.gone || w.leaving {
		p.remove(w)
		return
	}
	c.context.SpawnWorker(p.Kind, w.ref.ref, p.anchor, p.arguments, poolSpawnLimit, w)
}

// spawned makes a worker ready, or has it made again later.
func (p *pool) spawned(c *ActorContext, s cast.Spawned) {
	w := s.Tag.(*poolWorker)
	err := s.Err
	if err == nil && (w.gone || w.leaving) {
		c.context.EndWorker(w.ref.ref, poolSpawnLimit)
		p.remove(w)
		return
	}
	if err == nil {
		err = c.Watch(w.ref)
	}
	if err != nil {
		c.context.Log().Warn("a worker of a pool could not be made", "pool", p.name, "kind", p.Kind, "task", w.task, "error", err)
		p.replace(c, w)
		return
	}
	w.ready, w.since = true, time.Now()
	w.starts++
	p.refresh()
}

// ended has a worker that failed or was lost made again later.
func (p *pool) ended(c *ActorContext, e ActorEnded) {
	w := p.workers[e.Actor]
	if w == nil {
		return
	}
	if time.Since(w.since) > p.MaxBackoff {
		w.backoff = 0
	}
	w.ready = false
	if e.Err == nil || w.leaving {
		p.remove(w) // its place stays empty until its task comes again
	} else {
		p.replace(c, w)
	}
	p.refresh()
}

// replace makes a worker again after a wait.
func (p *pool) replace(c *ActorContext, w *poolWorker) {
	if w.gone || w.leaving {
		p.remove(w)
		return
	}
	w.backoff = min(max(2*w.backoff, p.Backoff), p.MaxBackoff)
	c.After(w.backoff, poolReplace{w})
}

// leave ends a worker that is leaving, if it has no requests and is up. Otherwise this is done later.
func (p *pool) leave(c *ActorContext, w *poolWorker) {
	if w.leaving && w.ready && w.inFlight == 0 {
		w.ready = false // and is removed when it has ended
		c.context.EndWorker(w.ref.ref, poolSpawnLimit)
	}
}

// remove forgets a worker. Requests that it has end with their answers.
func (p *pool) remove(w *poolWorker) {
	w.gone, w.ready = true, false
	delete(p.workers, w.ref)
}

// refresh finds the workers that are ready, and passes on what waits for them.
func (p *pool) refresh() {
	p.ready, p.keys = p.ready[:0], nil
	for _, w := range p.workers {
		if w.ready && !w.leaving {
			p.ready = append(p.ready, w)
		}
	}
	slices.SortFunc(p.ready, func(a, b *poolWorker) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.task, b.task))
	})
	for _, w := range p.ready {
		p.keys = append(p.keys, fmt.Sprint(w.task, "/", w.number))
	}
	p.owners = cast.NewOwners(p.keys)
	p.flush()
}
