package membership

import (
	"context"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/distance"
	"github.com/troupe-run/troupe/remote/internal/link"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

const (
	greetTimeout = 700 * time.Millisecond
	greetAtOnce  = 16                    // max. processes greeted at the same time
	enough       = 4                     // answering processes, after which no more are greeted
	joinWith     = 3                     // processes to exchange views with; gossip does the rest
	askVouches   = 3                     // processes asked which process is at this task's address
	confirmTries = 3                     // attempts to be found there, if that is required
	askPause     = 2 * time.Second       // before the same task is asked again for the same cluster spec
	greetPause   = 50 * time.Millisecond // between greetings beyond enough, while none has failed
	firstPause   = 250 * time.Millisecond
	alonePause   = 5 * time.Second
	joinedPause  = 5 * time.Second
)

// survey greets the other tasks, in random order, until it has found enough of them, and determines whether this process may be part of the
// cluster. It returns the tasks that it found. A start costs the same in a large cluster as in a small one, unless nobody is up.
func (m *Membership) survey(ctx context.Context) (present []spec.Task, err error) {
	var others []spec.Task
	for _, t := range m.config.Spec.Tasks() {
		if t != m.config.Self {
			others = append(others, t)
		}
	}
	var taken error
	var asked sync.WaitGroup
	asked.Go(func() { taken = m.claim(ctx) })
	present, refusals := m.greet(ctx, sample(others, len(others)))
	asked.Wait()
	if taken != nil {
		return nil, taken
	}
	// If others agree with this process, a single process with another spec at some address is at fault; if nobody agrees, this one is.
	if len(present) == 0 && len(refusals) > 0 {
		return nil, refusals[0]
	}
	for _, refusal := range refusals {
		m.log.Warn("a task of the cluster runs something else", "error", refusal)
	}
	if len(present) == 0 && m.config.Confirm {
		return nil, status.Errorf(status.Unavailable, "%v found none of the cluster's other tasks at the addresses that the cluster spec gives them.", m.config.Self)
	}
	err = m.vouched(ctx, present)
	for again := 1; m.config.Confirm && again < confirmTries && status.CodeOf(err) == status.FailedPrecondition; again++ {
		err = m.vouched(ctx, present) // they may only have been busy
	}
	return present, err
}

// claim asks at this task's own address which process is there: it must be this one.
func (m *Membership) claim(ctx context.Context) error {
	ctx, cancel := distance.Within(ctx, greetTimeout)
	defer cancel()
	id, err := m.config.Links.Greet(ctx, m.config.Self)
	switch {
	case status.CodeOf(err) == status.FailedPrecondition:
		return err
	case err != nil:
		// It cannot reach itself by its declared address, as behind some forwarded ports.
		m.log.Debug("this task does not reach itself", "address", m.config.Self.Address, "error", err)
		return nil
	}
	return m.same(id)
}

// vouched asks some of the tasks that are up which process they find at this task's address: on another machine the same name may resolve
// to another process.
func (m *Membership) vouched(ctx context.Context, present []spec.Task) error {
	ctx, cancel := distance.Within(ctx, greetTimeout)
	defer cancel()
	type voucher struct{ other, blind error } // a process that is not this one was found, or none was
	vouchers := make([]voucher, min(len(present), askVouches))
	var asked sync.WaitGroup
	for i, by := range sample(present, askVouches) {
		asked.Go(func() {
			id, err := m.config.Links.AskVouch(ctx, by, m.config.Self.Name())
			if err != nil {
				m.log.Debug("nobody was found at this task's address", "by", by.Name(), "error", err)
				vouchers[i].blind = status.Errorf(status.FailedPrecondition, "%v serves, but %v does not find it at that address: %v. The address must lead to this process.",
					m.config.Self, by, err)
				return
			}
			vouchers[i].other = m.same(id)
		})
	}
	asked.Wait()
	var unseen error
	seen := false
	for _, v := range vouchers {
		if v.other != nil {
			return v.other
		}
		if v.blind == nil {
			seen = true
		} else {
			unseen = v.blind
		}
	}
	if m.config.Confirm && !seen {
		return unseen
	}
	return nil
}

// same returns an error if the process found at this task's address is another one.
func (m *Membership) same(found *wire.Identity) error {
	self := m.config.Links.Identity()
	if found.GetBoot() == self.GetBoot() {
		return nil
	}
	return status.Errorf(status.AlreadyExists, "%s cannot start: the task is alive already as %s. Stop that process, or start this one as another task of the cluster spec.",
		link.Describe(self), link.Describe(found))
}

// meet greets a task, and records that the cluster spec it was started with belongs to this cluster.
func (m *Membership) meet(ctx context.Context, t spec.Task) error {
	id, err := m.config.Links.Greet(ctx, t)
	if err != nil {
		return err
	}
	if theirs, err := spec.Parse(id.GetSpec()); err == nil { // the links have checked it
		m.delegates.pass(t.Name(), theirs.Hash())
	}
	return nil
}

// ask starts asking a task for its cluster spec, after its gossip named one, by hash, that is not known here.
func (m *Membership) ask(t spec.Task, hash string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := passedSpec{t.Name(), hash}
	if last, ok := m.asked[key]; ok && now.Sub(last) < askPause {
		return // seek finds a task that is missed
	}
	if len(m.asked) >= maxPassed {
		clear(m.asked)
	}
	m.asked[key] = now
	m.unknown[t.Name()] = t
	if !m.asking {
		m.asking = true
		m.work.Go(m.askAll)
	}
}

// askAll greets the tasks whose specs are unknown, and joins those of this cluster. A task that did not answer is asked again after its
// next gossip.
func (m *Membership) askAll() {
	for {
		m.mu.Lock()
		tasks := slices.Collect(maps.Values(m.unknown))
		clear(m.unknown)
		m.asking = len(tasks) > 0 && m.ctx.Err() == nil
		asking := m.asking
		m.mu.Unlock()
		if !asking {
			return
		}
		m.join(m.ctx, m.meetAll(tasks))
	}
}

// meetAll greets all of the tasks, and returns those of this cluster.
func (m *Membership) meetAll(tasks []spec.Task) (present []spec.Task) {
	var mu sync.Mutex
	var met sync.WaitGroup
	slots := make(chan struct{}, greetAtOnce)
	for _, t := range tasks {
		slots <- struct{}{}
		met.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := distance.Within(m.ctx, greetTimeout)
			defer cancel()
			switch err := m.meet(ctx, t); {
			case err == nil:
				mu.Lock()
				present = append(present, t)
				mu.Unlock()
			case status.CodeOf(err) == status.FailedPrecondition:
				m.delegates.post(change{kind: changeRefuse, task: t, err: err})
			}
		})
	}
	met.Wait()
	return present
}

// greet greets the tasks in order until enough have answered. It returns the tasks that are up, and the errors of those that refuse this
// process or are refused. When all tasks start at once, each must get by with a few connections, or they keep each other from answering in
// time. So greet opens only as many as must answer, and more when one has failed or is slow.
func (m *Membership) greet(ctx context.Context, tasks []spec.Task) (present []spec.Task, refusals []error) {
	ctx, cancel := distance.Within(ctx, 2*greetTimeout)
	defer cancel()
	type answer struct {
		task spec.Task
		err  error
	}
	answers := make(chan answer)
	underWay := 0
	begin := func() {
		t := tasks[0]
		tasks = tasks[1:]
		underWay++
		go func() { // bounded by greetTimeout, and waited for below
			ctx, cancel := distance.Within(ctx, greetTimeout)
			defer cancel()
			answers <- answer{t, m.meet(ctx, t)}
		}()
	}
	pace := time.NewTicker(greetPause)
	defer pace.Stop()
	for {
		for len(tasks) > 0 && len(present)+underWay < enough {
			begin()
		}
		if underWay == 0 {
			return present, refusals
		}
		select {
		case a := <-answers:
			underWay--
			switch {
			case a.err == nil:
				present = append(present, a.task)
			case status.CodeOf(a.err) == status.FailedPrecondition:
				refusals = append(refusals, a.err)
			}
		case <-pace.C:
			if len(tasks) > 0 && len(present) < enough && underWay < greetAtOnce {
				begin()
			}
		}
	}
}

// join exchanges views with some of the tasks, which must have been greeted.
func (m *Membership) join(ctx context.Context, present []spec.Task) {
	for _, t := range sample(present, joinWith) {
		if ctx.Err() != nil {
			return
		}
		host, port, err := spec.SplitAddress(t.Address)
		if err != nil {
			continue // a checked spec has no such address
		}
		ips, err := lookup(ctx, m.config.Port, host)
		if err == nil {
			at := net.JoinHostPort(ips[0].String(), strconv.Itoa(port))
			m.transport.names.Store(at, t.Address)
			_, err = m.list.Join([]string{at})
		}
		if err != nil {
			m.log.Debug("gossip could not be exchanged", "task", t.Name(), "error", err)
		}
	}
}

// seek looks for the tasks that are not up for as long as the membership lives: among all of them while this task is alone, then for a few
// in each round, since the network may have been partitioned.
func (m *Membership) seek() {
	pause := firstPause
	for {
		wait := time.NewTimer(pause + rand.N(pause/4))
		select {
		case <-m.ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
		absent, alone := m.absent()
		if !alone {
			pause = joinedPause
			absent = sample(absent, joinWith)
		} else {
			pause = min(2*pause, alonePause)
			absent = sample(absent, len(absent))
		}
		present, refusals := m.greet(m.ctx, absent)
		for _, err := range refusals {
			m.delegates.post(change{kind: changeRefuse, err: err})
		}
		m.join(m.ctx, present)
	}
}

func (m *Membership) absent() (tasks []spec.Task, alone bool) {
	alone = true
	for _, v := range m.View() {
		switch {
		case v.Task == m.config.Self:
		case v.Health == Up:
			alone = false
		default:
			tasks = append(tasks, v.Task)
		}
	}
	return tasks, alone
}

// sample returns n of the tasks, chosen at random.
func sample(tasks []spec.Task, n int) []spec.Task {
	picked := make([]spec.Task, 0, n)
	for _, i := range rand.Perm(len(tasks)) {
		if len(picked) == n {
			break
		}
		picked = append(picked, tasks[i])
	}
	return picked
}
