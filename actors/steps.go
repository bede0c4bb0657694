package actors

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors/internal/lifecycle"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels"
)

// stepTable is the task's table of live steps, with a lock and a timer.
//
// It is no state of an actor: steps enter and leave it on the goroutines that run
// them, and large tensors arrive on the goroutines of their streams, which need only the step from the actor. A
// dropped tensor costs 30 to 90 ns here; through a mailbox it costs 170 to 330 ns and an allocation, behind the messages
// of all masters.
type stepTable struct {
	mu    sync.Mutex // guards the rest: see above
	table *lifecycle.Table[*step, *stepPart]
	task  string

	stepsOf shares // steps of the task's own sessions, by client
	partsOf shares // live parts, likewise

	timer *time.Timer   // of parked tensors; nil if there are none
	idle  chan struct{} // closed when the task stops and the last part is gone
}

// stepEntry is a step in the table, and sessionSteps are the steps of a session.
type (
	stepEntry    = lifecycle.Entry[*step, *stepPart]
	sessionSteps = lifecycle.Session[*step, *stepPart]
)

func (s *stepTable) init(task string) {
	s.table = lifecycle.NewTable[*step, *stepPart](task, lifecycle.Limits{Session: maxSessionSteps, Steps: maxSteps, Full: tooManySteps(task, maxSteps)})
	s.task, s.stepsOf, s.partsOf = task, halves(stepsUnderWay, maxSteps, insteadOfSteps), halves(stepsUnderWay, maxSteps, insteadOfSteps)
	s.idle = make(chan struct{})
}

// enter adds a step to its session, unless the session is closed or too many steps are in progress.
func (s *stepTable) enter(of *Session, st *step) error {
	client := of.rights.Client
	s.mu.Lock()
	err := s.table.Enter(&of.steps, &st.own.entry)
	if err == nil {
		if err = s.stepsOf.add(s.task, client, 1); err != nil {
			s.table.Leave(&st.own.entry)
		}
	}
	st.own.client = client
	s.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, lifecycle.ErrSessionClosed):
		return errClosed()
	case errors.Is(err, lifecycle.ErrSessionFull):
		return tooManySteps("Session "+of.handle, maxSessionSteps)
	}
	return err
}

// leave removes a step from its session, and reports what lifecycle.Table.Leave reports.
func (s *stepTable) leave(st *step) (gone, idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if gone, idle = s.table.Leave(&st.own.entry); gone {
		s.stepsOf.drop(st.own.client, 1)
	}
	return gone, idle
}

// close keeps further steps from entering a session, and returns those that run; first is false if it is closed already.
func (s *stepTable) close(of *Session) (first bool, running []*step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, running = s.table.CloseSession(&of.steps)
	return first, keep(running)
}

// running returns the steps of a session.
func (s *stepTable) running(of *Session) []*step {
	s.mu.Lock()
	defer s.mu.Unlock()
	return keep(of.steps.All())
}

// mastered returns the steps of all of the task's sessions, also of those that are being closed: the master does not know these sessions any more.
func (s *stepTable) mastered() []*step {
	s.mu.Lock()
	defer s.mu.Unlock()
	return keep(s.table.MasterSteps())
}

// keep keeps steps that are in the table from being recycled. The table is locked.
func keep(all []*step) []*step {
	for _, st := range all {
		st.shared.Store(true)
	}
	return all
}

// count returns how many steps a session has.
func (s *stepTable) count(of *Session) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return of.steps.Len()
}

// masters returns how many steps the task is the master of.
func (s *stepTable) masters() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.Masters()
}

// master returns a step of the task's own sessions, or nil.
func (s *stepTable) master(id uint64) *step {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, ok := s.table.Master(id)
	if ok {
		st.shared.Store(true)
	}
	return st
}

// begin makes a part a live one, and deposits the tensors that were parked for it.
func (s *stepTable) begin(st *stepPart) error {
	client := ""
	if st.session != nil {
		client = st.session.client
	}
	s.mu.Lock()
	arrived, err := s.table.Begin(&st.entry)
	if err == nil {
		if err = s.partsOf.add(s.task, client, 1); err != nil {
			s.table.End(&st.entry)
		}
	}
	st.client = client
	s.mu.Unlock()
	if err != nil {
		lifecycle.Release(arrived)
		return err
	}
	for _, a := range arrived {
		st.deposit(a.Key, a.Tensor, a.Dead)
	}
	return nil
}

// end removes a live part.
func (s *stepTable) end(st *stepPart) {
	s.mu.Lock()
	idle := s.table.End(&st.entry)
	s.partsOf.drop(st.client, 1)
	s.mu.Unlock()
	if idle {
		close(s.idle)
	}
}

// deposit passes an arrived tensor to its part, parks it, or drops it.
func (s *stepTable) deposit(id uint64, key kernels.Key, t *tensor.Tensor, dead bool) {
	s.mu.Lock()
	part, live, dropped := s.table.Deposit(time.Now(), id, lifecycle.Arrival{Key: key, Tensor: t, Dead: dead})
	if s.timer == nil && s.table.Parked() > 0 {
		s.wait(lifecycle.ParkTime)
	}
	s.mu.Unlock()
	if live {
		part.deposit(key, t, dead)
	}
	lifecycle.Release(dropped)
}

// wait calls tick later. mu is held.
func (s *stepTable) wait(d time.Duration) {
	s.timer = time.AfterFunc(d, contain.Func(nil, "The end of parked tensors", func() { s.tick(time.Now()) }, nil))
}

// tick drops tensors that were parked for steps which did not begin in time.
func (s *stepTable) tick(now time.Time) {
	s.mu.Lock()
	dropped, next := s.table.Tick(now)
	if s.timer = nil; !next.IsZero() {
		s.wait(next.Sub(now))
	}
	s.mu.Unlock()
	lifecycle.Release(dropped)
}

// refuse fails a part that must not continue, or whose tensor cannot be kept: now, or when it begins.
func (s *stepTable) refuse(id uint64, err error) {
	s.mu.Lock()
	part, live, dropped := s.table.Refuse(id, err)
	s.mu.Unlock()
	if live {
		part.fail(err)
	}
	lifecycle.Release(dropped)
}

// parts returns the live parts.
func (s *stepTable) parts() []*stepPart {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.Parts()
}

// own returns the live parts of the steps of the task's own sessions.
func (s *stepTable) own() []*stepPart {
	return slices.DeleteFunc(s.parts(), func(st *stepPart) bool { return st.master != st.task.name })
}

// peerDown fails the steps that exchange tensors with the lost task, since some may have been in flight: the given steps
// of the task's own sessions, and all steps of other masters.
func (s *stepTable) peerDown(own []*stepPart, task string, err error) {
	for _, st := range own {
		if st.meets(task) {
			st.fail(err)
		}
	}
	for _, st := range s.parts() {
		if st.master != task && st.master != st.task.name && st.meets(task) {
			st.fail(err)
		}
	}
}

// masterDown fails the steps that the lost task began. Their master may live, and learn of it over another connection before
// it misses the one that broke. The error therefore names this end, too.
func (s *stepTable) masterDown(task string, err error) {
	for _, st := range s.parts() {
		if st.master == task {
			e := status.From(err)
			st.fail(status.Derive(status.Errorf(e.Code, "%s (%s) lost the connection to the step's master: %s", st.task.name, st.task.System.Address(), e.Message)))
		}
	}
}

// drain refuses new parts, waits for the running ones until ctx ends, and cancels the rest with an error that ends in more.
func (s *stepTable) drain(ctx context.Context, more string) error {
	s.mu.Lock()
	dropped, idle := s.table.Close()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	s.mu.Unlock()
	lifecycle.Release(dropped)
	if idle {
		return nil
	}
	select {
	case <-s.idle:
		return nil
	case <-ctx.Done():
	}
	for _, st := range s.parts() {
		if st.master != st.task.name { // the task's own were named with their sessions
			st.task.logCut(uint64(st.ID), view.SessionName(st.session.handle), st.master, st.Origin.Began)
		}
		st.fail(status.Errorf(status.Unavailable, "The server of %s is shutting down%s", st.task.name, more))
	}
	select {
	case <-s.idle:
		return nil
	case <-time.After(2 * time.Second):
		return status.Errorf(status.DeadlineExceeded, "%d steps did not end", len(s.parts()))
	}
}
