package placement

import (
	"slices"
	"time"

	"github.com/troupe-run/troupe/actors/wire"
)

// lead begins the task's lead.
func (c *Core) lead(now time.Duration) {
	c.role, c.elected, c.term = leading, now, c.standing
	c.number, c.current = 0, nil
	c.peers = map[string]*peer{}
	for _, t := range c.config.Tasks {
		p := &peer{busy: now + c.config.Lease + margin(c.config.Lease)}
		if t == c.former {
			p.busy = 0
		}
		c.peers[t] = p
	}
	c.identify(c.config.Self, c.config.Boot)
	c.beats(now)
}

// leads returns until when the task leads: a lease after it has sent what a quorum of voters has answered. With votes, the vote counts until
// then.
func (c *Core) leads(votes bool) time.Duration {
	var times []time.Duration
	for _, v := range c.voters {
		times = append(times, c.peers[v].answered)
	}
	slices.Sort(times)
	slices.Reverse(times)
	var until time.Duration
	for _, t := range times {
		if t > 0 && c.quorum(func(v string) bool { return c.peers[v].answered >= t }) {
			until = t + c.config.Lead - margin(c.config.Lead)
			break
		}
	}
	if votes {
		until = max(until, c.stood+c.config.Lead-margin(c.config.Lead))
	}
	return until
}

// beats sends a beat to all tasks.
func (c *Core) beats(now time.Duration) {
	c.beatAt = now + c.interval
	for _, t := range c.config.Tasks {
		c.beat(now, t)
	}
}

// beat sends a beat to a task.
func (c *Core) beat(now time.Duration, task string) {
	p := c.peers[task]
	m := &wire.Beat{Term: c.term, Time: int64(now)}
	if p.stamp != 0 && p.hosts && now < c.leads(false) {
		m.Leased, p.lent = p.stamp, now
		p.busy = max(p.busy, p.heard+c.config.Lease+margin(c.config.Lease))
	}
	if v := c.current; v != nil {
		m.View = &wire.View{Epoch: &wire.Epoch{Term: v.Epoch.Term, Number: v.Epoch.Number}, Active: v.Active}
		if p.kept != v.Epoch {
			m.View.Complete, m.View.Members = true, v.Members
		}
	}
	if task == c.config.Self {
		c.heardBeat(now, task, c.config.Boot, m)
		return
	}
	c.send(task, p.boot, &wire.Placement{What: &wire.Placement_Beat{Beat: m}})
}

// identify notes the process of a task. If it is another one than before, that one has ended, with all that it held.
func (c *Core) identify(task string, boot uint64) {
	p := c.peers[task]
	if p == nil || p.boot == boot {
		return
	}
	if p.boot != 0 {
		*p = peer{}
	}
	p.boot = boot
}

func (c *Core) heardBeaten(now time.Duration, from string, m *wire.Beaten) {
	p := c.peers[from]
	if c.role != leading || p == nil {
		return
	}
	if m.GetTerm() > c.term {
		c.term = m.GetTerm()
		c.follow(now)
		return
	}
	if m.GetTerm() != c.term || m.GetTime() < int64(p.answered) { // it has answered a beat of a former lead, or a later one since
		return
	}
	p.heard, p.answered, p.stamp = now, time.Duration(m.GetTime()), m.GetOwnTime()
	p.kept, p.hosts, p.leaves = Epoch{m.GetEpoch().GetTerm(), m.GetEpoch().GetNumber()}, m.GetHosts(), m.GetLeaves()
	if !m.GetActs() && p.answered >= p.lent {
		p.busy = 0
	}
	if from != c.config.Self { // its own answers come while it does something else
		c.review(now)
	}
}

// review makes a new view if other tasks are there than in the current one, and makes the current one active if all keep to it.
func (c *Core) review(now time.Duration) {
	if c.role != leading {
		return
	}
	var members []string
	all := true
	for _, t := range c.config.Tasks {
		p := c.peers[t]
		switch {
		case p.answered == 0:
			all = false
		case p.hosts && !p.leaves && now < p.heard+c.config.Lease:
			members = append(members, t)
		}
	}
	slices.Sort(members)
	if c.current == nil && !all && now < c.elected+2*c.interval {
		return // the others are about to answer
	}
	if c.current == nil || !slices.Equal(members, c.current.Members) {
		c.number++
		c.current = &View{Epoch: Epoch{c.term, c.number}, Members: members}
		c.beats(now)
	}
	if c.role != leading || c.current == nil || c.current.Active {
		return
	}
	for _, p := range c.peers {
		if p.kept != c.current.Epoch && now < p.busy {
			return
		}
	}
	c.current.Active = true
	c.beats(now)
}
