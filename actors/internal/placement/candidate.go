package placement

import (
	"math"
	"slices"
	"time"

	"github.com/troupe-run/troupe/actors/wire"
)

// poll asks all tasks whether they lead.
func (c *Core) poll(now time.Duration) {
	c.role = polling
	c.round++
	c.deadline = now + c.interval
	c.polled = map[string]uint64{c.config.Self: c.config.Boot}
	for _, t := range c.config.Tasks {
		if t != c.config.Self {
			c.send(t, 0, &wire.Placement{What: &wire.Placement_Poll{Poll: &wire.Poll{Round: c.round}}})
		}
	}
	c.polledAll(now)
}

func (c *Core) heardPolled(now time.Duration, from string, boot uint64, m *wire.Polled) {
	if c.role != polling || m.GetRound() != c.round || now >= c.deadline {
		return
	}
	c.seen = max(c.seen, m.GetTerm())
	if m.GetLeads() {
		c.role, c.next = following, now+c.config.Lead
		return
	}
	if !m.GetRefuses() {
		c.polled[from] = boot
		c.polledAll(now)
	}
}

func (c *Core) polledAll(now time.Duration) {
	if len(c.polled) == len(c.config.Tasks) {
		c.stand(now, true)
	}
}

// stand asks the voters that have been polled for their votes.
func (c *Core) stand(now time.Duration, clear bool) {
	c.role, c.standing, c.stood = voting, c.above(max(c.term, c.seen, c.config.Term)), now
	c.deadline = now + 2*c.interval
	c.votes, c.former, c.formerBy = map[string]bool{}, "", 0
	for _, v := range c.voters {
		boot, ok := c.polled[v]
		if !ok {
			continue
		}
		vote := &wire.Vote{Term: c.standing, Time: int64(now), Clear: clear}
		if v == c.config.Self {
			c.count(now, v, c.vote(now, v, vote))
			continue
		}
		c.send(v, boot, &wire.Placement{What: &wire.Placement_Vote{Vote: vote}})
	}
}

// above returns the first term above one that is the task's own. No two tasks have a term in common, even if voters forget.
func (c *Core) above(term uint64) uint64 {
	n, rank := uint64(len(c.config.Tasks)), uint64(c.rank)
	own := term - term%n + rank
	if own <= term {
		own += n
	}
	return own
}

// yield gives up standing, with the task's own vote, for a time that depends on the task's rank, so that another one succeeds.
func (c *Core) yield(now time.Duration) {
	c.role, c.next = following, now+c.turn(2)+c.interval/2
	if c.grantee == c.config.Self {
		c.granted = now
	}
}

func (c *Core) heardVote(now time.Duration, from string, boot uint64, m *wire.Vote) {
	if slices.Contains(c.voters, c.config.Self) {
		c.send(from, boot, &wire.Placement{What: &wire.Placement_Voted{Voted: c.vote(now, from, m)}})
	}
}

// vote decides on a candidate.
func (c *Core) vote(now time.Duration, candidate string, m *wire.Vote) *wire.Voted {
	forgetful := now < c.config.Lead && !m.GetClear()
	granted := m.GetTerm() > max(c.term, c.config.Term) && !c.bound(now, candidate) && !forgetful
	if granted {
		c.term, c.grantee, c.granted = m.GetTerm(), candidate, now+c.config.Lead
		if candidate != c.config.Self {
			c.follow(now)
		}
	}
	voted := &wire.Voted{Term: max(c.term, c.config.Term), Time: m.GetTime(), Granted: granted, Last: c.last, LastTerm: c.lastTerm}
	if now < c.config.Lead+c.config.Lease { // a leader that a former process has heard may have lent leases since
		voted.Last, voted.LastTerm = "", math.MaxUint64
	}
	return voted
}

// bound reports whether another candidate or leader has the task's vote.
func (c *Core) bound(now time.Duration, candidate string) bool {
	return now < c.granted && c.grantee != candidate
}

func (c *Core) heardVoted(now time.Duration, from string, m *wire.Voted) {
	if c.role == voting && m.GetTime() == int64(c.stood) {
		c.count(now, from, m)
	}
}

func (c *Core) count(now time.Duration, voter string, m *wire.Voted) {
	if c.role != voting {
		return
	}
	if !m.GetGranted() {
		if c.seen = max(c.seen, m.GetTerm()); c.seen >= c.standing && c.grantee != c.config.Self {
			c.yield(now)
		}
		return
	}
	c.votes[voter] = true
	if m.GetLastTerm() > c.formerBy {
		c.former, c.formerBy = m.GetLast(), m.GetLastTerm()
	}
	if c.quorum(func(v string) bool { return c.votes[v] }) {
		c.lead(now)
	}
}

// follow ends a candidacy or a lead. What a leader has held itself ends with its lead.
func (c *Core) follow(now time.Duration) {
	if c.role == leading {
		c.leased = min(c.leased, c.leads(true))
		c.peers, c.current = nil, nil
	}
	c.role, c.next = following, now+c.config.Lead+c.turn(2)
}

func (c *Core) heardBeat(now time.Duration, from string, boot uint64, m *wire.Beat) {
	if m.GetTerm() >= c.term {
		if from != c.config.Self {
			c.follow(now)
		}
		c.term, c.last, c.lastTerm = m.GetTerm(), from, m.GetTerm()
		c.grantee, c.granted = from, now+c.config.Lead
		if stamp := time.Duration(m.GetLeased()); stamp > 0 && stamp <= now {
			c.leased = max(c.leased, stamp+c.config.Lease-margin(c.config.Lease))
		}
		c.heardView(now, m.GetView())
	}
	answer := &wire.Beaten{Term: c.term, Time: m.GetTime(), OwnTime: int64(now), Epoch: &wire.Epoch{Term: c.kept.Term, Number: c.kept.Number},
		Acts: now < c.leased, Hosts: c.config.Hosts, Leaves: c.leaves}
	if from == c.config.Self {
		c.heardBeaten(now, from, answer)
		return
	}
	c.send(from, boot, &wire.Placement{What: &wire.Placement_Beaten{Beaten: answer}})
}

// heardView handles the view of a beat; nil if the leader has none. A task without a lease keeps to no view: an old one would come into force
// with the lease of a leader that has no view yet.
func (c *Core) heardView(now time.Duration, m *wire.View) {
	if m == nil || !c.config.Hosts || now >= c.lease() {
		return
	}
	e := Epoch{m.GetEpoch().GetTerm(), m.GetEpoch().GetNumber()}
	if c.view == nil || c.view.Epoch.Compare(e) < 0 {
		if !m.GetComplete() { // the leader takes the task for one that knows the members
			return
		}
		c.view = &View{Epoch: e, Members: slices.Clone(m.GetMembers()), Active: m.GetActive()}
		c.do(Prepare{*c.view})
		return
	}
	if c.view.Epoch == e && m.GetActive() && !c.view.Active {
		c.view.Active = true
		if c.kept == e {
			c.do(Activate{*c.view})
		}
	}
}
