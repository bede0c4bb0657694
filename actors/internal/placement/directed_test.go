package placement

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/troupe-run/troupe/actors/wire"
)

// The tests in this file drive cores by hand, through what random schedules do not reach.

// cluster is a cluster without delays, whose clocks agree.
type cluster struct {
	now   time.Duration
	names []string
	cores map[string]*Core
	born  map[string]time.Duration
	boots map[string]uint64
	cut   map[string]bool // tasks that reach no other one
}

func clusterOf(n int) *cluster {
	c := &cluster{cores: map[string]*Core{}, born: map[string]time.Duration{}, boots: map[string]uint64{}, cut: map[string]bool{}}
	for i := range n {
		c.names = append(c.names, fmt.Sprint("t", i))
	}
	for _, name := range c.names {
		c.start(name)
	}
	return c
}

// start starts a task's process, or another one.
func (c *cluster) start(name string) {
	c.born[name] = c.now
	c.boots[name]++
	c.cores[name] = New(Config{Self: name, Tasks: c.names, Boot: c.boots[name], Hosts: true, Lease: lease, Lead: lead, Term: uint64((c.now + time.Second) / time.Microsecond)})
}

func (c *cluster) local(name string) time.Duration { return c.now - c.born[name] }

// carry does what a task's core answers, and delivers its messages.
func (c *cluster) carry(name string) {
	for k := c.cores[name]; ; {
		effects := k.Effects()
		if len(effects) == 0 {
			return
		}
		for _, e := range effects {
			switch e := e.(type) {
			case Prepare:
				k.Kept(c.local(name), e.View.Epoch)
			case Send:
				if !c.cut[name] && !c.cut[e.To] {
					c.cores[e.To].Receive(c.local(e.To), name, c.boots[name], e.Message)
					c.carry(e.To)
				}
			}
		}
	}
}

func (c *cluster) run(d time.Duration, each func()) {
	for end := c.now + d; c.now < end; {
		c.now += 25 * time.Millisecond
		for _, name := range c.names {
			c.cores[name].Tick(c.local(name))
			c.carry(name)
		}
		if each != nil {
			each()
		}
	}
}

func (c *cluster) acts(name string) bool { return c.local(name) < c.cores[name].Until() }

func (c *cluster) leader() string {
	for _, name := range c.names {
		if c.cores[name].role == leading && !c.cut[name] {
			return name
		}
	}
	return ""
}

// TestRestartsKeepTheLeader checks that a task that starts again and again, with higher terms, costs the others neither leader nor lease.
func TestRestartsKeepTheLeader(t *testing.T) {
	c := clusterOf(3)
	c.run(3*time.Second, nil)
	leader, term := c.leader(), c.cores[c.leader()].term
	restarted := c.names[(slices.Index(c.names, leader)+1)%3]
	for range 20 {
		c.start(restarted)
		c.run(time.Second, func() {
			for _, name := range c.names {
				if name != restarted && !c.acts(name) {
					t.Fatalf("%s may not act at %v", name, c.now)
				}
			}
		})
	}
	if now := c.leader(); now != leader || c.cores[now].term != term {
		t.Errorf("%s leads, and %s did", now, leader)
	}
}

// TestForgottenLeader loses a leader's only other voter than itself, and then the leader: who leads next must not take the one that led before
// for one without a lease.
func TestForgottenLeader(t *testing.T) {
	c := clusterOf(3)
	c.run(3*time.Second, nil)
	first := c.leader()
	c.cut[first] = true
	c.run(3*time.Second, nil)
	second := c.leader()
	third := c.names[3-slices.Index(c.names, first)-slices.Index(c.names, second)]
	c.cut[first], c.cut[third] = false, true // third has heard from first only, if it forgets second
	c.cores[third].last, c.cores[third].lastTerm = first, 1
	c.run(lease+3*time.Second, nil)
	if c.leader() != second || !c.acts(first) {
		t.Fatalf("%s leads, and not %s; %s acts: %v", c.leader(), second, first, c.acts(first))
	}
	c.start(second) // it forgets that it led
	c.cut[first], c.cut[third] = true, false
	c.run(lead+3*time.Second, func() {
		for _, name := range []string{second, third} {
			if v, ok := c.cores[name].View(); ok && v.Active && c.acts(name) && c.acts(first) {
				t.Fatalf("%s acts under %v while %s may act too", name, v, first)
			}
		}
	})
	c.run(lease, nil)
	if !c.acts(second) || !c.acts(third) {
		t.Errorf("%s and %s may not act", second, third)
	}
}

// TestLateTasksLead checks that a program that hosts virtual actors far down in the spec is soon elected.
func TestLateTasksLead(t *testing.T) {
	for _, rank := range []int{9, 100, 5000} {
		var tasks []string
		for i := range rank + 1 {
			tasks = append(tasks, fmt.Sprint("t", i))
		}
		k := New(Config{Self: tasks[rank], Tasks: tasks, Boot: 1, Hosts: true, Lease: lease, Lead: lead})
		for range 20 {
			if start := k.turn(4); start > lead/2 {
				t.Errorf("task %d waits %v for its turn", rank, start)
			}
			if again := k.turn(2); again > lead {
				t.Errorf("task %d waits %v for its turn after a leader is lost", rank, again)
			}
			k.round++
		}
	}
}

// part is a core of the task a of a, b and c, whose messages are written and read by the test.
type part struct {
	*Core
	t *testing.T
}

func newPart(t *testing.T) *part {
	return &part{New(Config{Self: "a", Tasks: []string{"a", "b", "c"}, Boot: 1, Hosts: true, Lease: lease, Lead: lead}), t}
}

// sent returns the messages to a task since the last call. It keeps to views at once.
func (p *part) sent(now time.Duration, to string) (all []*wire.Placement) {
	for {
		effects := p.Effects()
		if len(effects) == 0 {
			return all
		}
		for _, e := range effects {
			switch e := e.(type) {
			case Prepare:
				p.Kept(now, e.View.Epoch)
			case Send:
				if e.To == to {
					all = append(all, e.Message)
				}
			}
		}
	}
}

func (p *part) get(now time.Duration, from string, m *wire.Placement) {
	m.Voters = p.hash
	p.Receive(now, from, 1, m)
}

func (p *part) polled(now time.Duration, from string) {
	p.get(now, from, &wire.Placement{What: &wire.Placement_Polled{Polled: &wire.Polled{Round: p.round}}})
}

func (p *part) voted(now time.Duration, from, last string, lastTerm uint64) {
	p.get(now, from, &wire.Placement{What: &wire.Placement_Voted{Voted: &wire.Voted{Time: int64(p.stood), Granted: true, Last: last, LastTerm: lastTerm}}})
}

func (p *part) beaten(now time.Duration, from string, m *wire.Beaten) {
	m.Term, m.Hosts = max(m.Term, p.term), true
	p.get(now, from, &wire.Placement{What: &wire.Placement_Beaten{Beaten: m}})
}

// lead makes the task the leader, by its own vote and that of b.
func (p *part) lead(now time.Duration) {
	p.t.Helper()
	p.next = now
	p.Tick(now)
	p.polled(now, "b")
	p.polled(now, "c")
	p.voted(now, "b", "", 0)
	if p.role != leading {
		p.t.Fatalf("the task does not lead with two votes of three")
	}
	p.Effects()
}

func TestNoStandAfterAFreeze(t *testing.T) {
	p := newPart(t)
	p.Tick(0)
	p.polled(2*lead, "b")
	p.polled(2*lead, "c")
	for _, m := range p.sent(2*lead, "b") {
		if m.GetVote() != nil {
			t.Errorf("a task whose poll is long over stands by its answers: %v", m)
		}
	}
}

func TestNoLeadAfterItsEnd(t *testing.T) {
	p := newPart(t)
	p.lead(10 * time.Second)
	late := 10*time.Second + lead
	p.get(late, "c", &wire.Placement{What: &wire.Placement_Poll{Poll: &wire.Poll{Round: 1}}})
	for _, m := range p.sent(late, "c") {
		if m.GetPolled().GetLeads() {
			t.Error("the task leads after its time")
		}
	}
	p.beaten(late, "b", &wire.Beaten{Time: int64(10*time.Second + lead/2), OwnTime: 1})
	if p.role == leading {
		t.Error("an answer that came too late made the task lead again, after it had said that it does not")
	}
}

func TestNoLeaseBeforeAQuorumAnswers(t *testing.T) {
	p := newPart(t)
	p.quorumless(10 * time.Second)
	for _, m := range p.sent(10*time.Second, "c") {
		if m.GetBeat().GetLeased() != 0 {
			t.Errorf("a leader whom no quorum has heard lends a lease: %v", m)
		}
	}
}

// quorumless makes the task a leader that only c, of five voters, has answered.
func (p *part) quorumless(now time.Duration) {
	p.Core = New(Config{Self: "a", Tasks: []string{"a", "b", "c", "d", "e"}, Boot: 1, Hosts: true, Lease: lease, Lead: lead})
	p.next = now
	p.Tick(now)
	for _, v := range []string{"b", "c", "d", "e"} {
		p.polled(now, v)
	}
	p.voted(now, "b", "", 0)
	p.voted(now, "c", "", 0)
	p.beaten(now, "c", &wire.Beaten{Time: int64(now), OwnTime: 5})
	p.Effects()
	p.beats(now)
}

// TestLeaseInFlight checks that a task counts as one with a lease until it has answered the beat that lent it.
func TestLeaseInFlight(t *testing.T) {
	p := newPart(t)
	at := 10 * time.Second
	p.lead(at)
	p.beaten(at, "b", &wire.Beaten{Time: int64(at), OwnTime: 5})
	p.beaten(at, "c", &wire.Beaten{Time: int64(at), OwnTime: 5})
	later := at + p.interval
	p.Tick(later) // lends
	p.beaten(later, "c", &wire.Beaten{Time: int64(at), OwnTime: 6})
	if p.peers["c"].busy <= later {
		t.Error("an answer to an earlier beat frees a task to which a lease is on its way")
	}
	p.beaten(later, "c", &wire.Beaten{Time: int64(later), OwnTime: 7})
	if p.peers["c"].busy > later {
		t.Error("a task that has no lease after the last beat counts as one that has")
	}
}

func TestAnswersOfAFormerLead(t *testing.T) {
	p := newPart(t)
	p.lead(10 * time.Second)
	former := p.term
	p.Tick(20 * time.Second)
	p.lead(20 * time.Second)
	p.get(20*time.Second, "c", &wire.Placement{What: &wire.Placement_Beaten{Beaten: &wire.Beaten{Term: former, Time: int64(10 * time.Second), OwnTime: 5}}})
	if p.peers["c"].busy <= 20*time.Second {
		t.Error("an answer to a former lead's beat frees a task that may have got a lease since")
	}
}

// TestLeaseEndsWithTheLead checks that what a leader has itself ends with its lead, as the next leader believes.
func TestLeaseEndsWithTheLead(t *testing.T) {
	p := newPart(t)
	at := 10 * time.Second
	p.lead(at)
	p.sent(at, "")
	p.beaten(at, "b", &wire.Beaten{Time: int64(at), OwnTime: 5})
	p.beaten(at, "c", &wire.Beaten{Time: int64(at), OwnTime: 5})
	p.Tick(at + p.interval)
	p.sent(at+p.interval, "")
	if p.kept == (Epoch{}) || p.Until() > at+lead {
		t.Fatalf("a leader acts until %v under the view %v", p.Until(), p.kept)
	}
	p.beaten(at+p.interval, "b", &wire.Beaten{Term: p.term + 1, Time: int64(at)})
	if p.role == leading || p.Until() > at+lead {
		t.Errorf("a former leader acts until %v; its lead would have ended before %v", p.Until(), at+lead)
	}
}

// TestViewsNeedALease checks that a view that comes late is not in force when another leader, which has no view yet, lends a lease.
func TestViewsNeedALease(t *testing.T) {
	p := newPart(t)
	view := &wire.View{Epoch: &wire.Epoch{Term: 4, Number: 3}, Active: true, Complete: true, Members: []string{"a", "b"}}
	p.get(10*time.Second, "b", &wire.Placement{What: &wire.Placement_Beat{Beat: &wire.Beat{Term: 4, Time: 1, View: view}}})
	if v, ok := p.View(); ok {
		t.Errorf("the task keeps to %v without a lease", v)
	}
	p.sent(10*time.Second, "")
	p.get(11*time.Second, "c", &wire.Placement{What: &wire.Placement_Beat{Beat: &wire.Beat{Term: 5, Time: 1, Leased: int64(10 * time.Second)}}})
	if p.Until() > 0 {
		t.Errorf("the task acts until %v under a view that it got without a lease", p.Until())
	}
}

// TestTermsAreUnlike checks that no two tasks stand for the same term, whatever terms they know of.
func TestTermsAreUnlike(t *testing.T) {
	c := clusterOf(3)
	for term := range uint64(20) {
		var all []uint64
		for _, name := range c.names {
			next := c.cores[name].above(term)
			if next <= term || next > term+3 || slices.Contains(all, next) {
				t.Errorf("%s stands for the term %d after %d, and others for %v", name, next, term, all)
			}
			all = append(all, next)
		}
	}
}

// TestVotes is the table of what a voter answers to a candidate.
func TestVotes(t *testing.T) {
	const floor = 100
	for _, c := range []struct {
		name    string
		now     time.Duration
		term    uint64
		clear   bool
		boot    uint64
		bound   bool
		granted bool
	}{
		{"after the time of former votes", lead, floor + 1, false, 1, false, true},
		{"too soon", lead - 1, floor + 1, false, 1, false, false},
		{"soon, but all are known", lead - 1, floor + 1, true, 1, false, true},
		{"in a term that a former process may have voted in", lead, floor, false, 1, false, false},
		{"while another task leads", lead, floor + 1, true, 1, true, false},
		{"of a former process", lead, floor + 1, true, 7, false, false},
	} {
		p := newPart(t)
		p.config.Term = floor
		if c.bound {
			p.grantee, p.granted = "c", c.now+1
		}
		p.get(c.now, "b", &wire.Placement{Boot: c.boot, What: &wire.Placement_Vote{Vote: &wire.Vote{Term: c.term, Clear: c.clear}}})
		granted := false
		for _, m := range p.sent(c.now, "b") {
			granted = granted || m.GetVoted().GetGranted()
		}
		if granted != c.granted {
			t.Errorf("a vote %s is granted: %v", c.name, granted)
		}
	}
}

// TestVoteBinds checks that a voter grants no other candidate its vote until the lead that may follow from it has ended.
func TestVoteBinds(t *testing.T) {
	p := newPart(t)
	for _, c := range []struct {
		now       time.Duration
		candidate string
		granted   bool
	}{
		{lead, "b", true},
		{lead, "c", false},
		{lead + 1, "b", true},
		{2 * lead, "c", false},
		{2*lead + 1, "c", true},
	} {
		if got := p.vote(c.now, c.candidate, &wire.Vote{Term: p.term + 1}); got.GetGranted() != c.granted {
			t.Errorf("a vote for %s after %v is granted: %v", c.candidate, c.now, got.GetGranted())
		}
	}
}

// TestOneRefusal checks that a candidate with its own vote still leads by those of the others if one of them refuses.
func TestOneRefusal(t *testing.T) {
	p := newPart(t)
	at := 10 * time.Second
	p.next = at
	p.Tick(at)
	p.polled(at, "b")
	p.polled(at, "c")
	p.get(at, "b", &wire.Placement{What: &wire.Placement_Voted{Voted: &wire.Voted{Time: int64(p.stood), Term: p.standing + 1}}})
	p.voted(at, "c", "", 0)
	if p.role != leading {
		t.Error("a candidate that one of three voters refuses does not lead")
	}
}

// TestRefusals checks that a task does not stand by the answers of tasks that would refuse it, and which ones say so.
func TestRefusals(t *testing.T) {
	p := newPart(t)
	p.Tick(0)
	for _, v := range []string{"b", "c"} {
		p.get(0, v, &wire.Placement{What: &wire.Placement_Polled{Polled: &wire.Polled{Round: p.round, Refuses: true}}})
	}
	if p.role == voting {
		t.Error("a task stands although all others refuse it")
	}
	p.Tick(0)
	p.get(0, "b", &wire.Placement{What: &wire.Placement_Polled{Polled: &wire.Polled{Round: p.round, Leads: true}}})
	if p.role != following {
		t.Error("a task goes on to stand although another one leads")
	}
	for _, c := range []struct {
		name    string
		now     time.Duration
		prepare func(p *part)
		refuses bool
	}{
		{"has just started", p.interval, func(*part) {}, true},
		{"knows of no candidate", lead, func(*part) {}, false},
		{"follows another task", lead, func(p *part) { p.grantee, p.granted = "c", 2*lead }, true},
		{"follows the task that asks", lead, func(p *part) { p.grantee, p.granted = "b", 2*lead }, false},
		{"stands itself", lead, func(p *part) { p.role = voting }, true},
	} {
		p := newPart(t)
		c.prepare(p)
		p.get(c.now, "b", &wire.Placement{What: &wire.Placement_Poll{Poll: &wire.Poll{Round: 1}}})
		for _, m := range p.sent(c.now, "b") {
			if m.GetPolled().GetRefuses() != c.refuses {
				t.Errorf("a task that %s answers %v", c.name, m)
			}
		}
	}
}

// TestLateMessages checks that messages of a former term, lead, vote or view change nothing.
func TestLateMessages(t *testing.T) {
	at := 10 * time.Second
	p := newPart(t)
	p.term = 5
	p.get(at, "b", &wire.Placement{What: &wire.Placement_Beat{Beat: &wire.Beat{Term: 4, Time: 1, Leased: int64(at)}}})
	if p.leased > 0 || p.grantee == "b" {
		t.Error("a beat of a former term lends a lease")
	}
	p.get(at, "b", &wire.Placement{What: &wire.Placement_Beat{Beat: &wire.Beat{Term: 5, Time: 1, Leased: int64(at) + 1}}})
	if p.leased > 0 {
		t.Error("a lease is lent for a time that has not come")
	}

	p = newPart(t)
	p.lead(at)
	p.beaten(at, "b", &wire.Beaten{Time: int64(at), OwnTime: 5, Leaves: true})
	p.beaten(at, "b", &wire.Beaten{Time: int64(at) - 1, OwnTime: 4})
	if !p.peers["b"].leaves {
		t.Error("an answer that was overtaken makes a task stay that leaves")
	}

	p = newPart(t)
	p.next = at
	p.Tick(at)
	p.polled(at, "b")
	p.polled(at, "c")
	p.get(at, "b", &wire.Placement{What: &wire.Placement_Voted{Voted: &wire.Voted{Time: int64(at) - 1, Granted: true}}})
	if p.role == leading {
		t.Error("a vote for a former candidacy counts")
	}

	view := func(number uint64) *wire.View {
		return &wire.View{Epoch: &wire.Epoch{Term: 5, Number: number}, Active: true, Complete: true, Members: []string{"a", "b"}}
	}
	p = newPart(t)
	for number := range uint64(2) {
		p.get(at, "b", &wire.Placement{What: &wire.Placement_Beat{Beat: &wire.Beat{Term: 5, Time: 1, Leased: int64(at), View: view(number + 1)}}})
	}
	p.Effects()
	p.Kept(at, Epoch{5, 1})
	if p.Until() > 0 || len(p.Effects()) > 0 {
		t.Error("a task acts under a view whose successor it prepares")
	}
	p.Kept(at+lease, Epoch{5, 2})
	if p.Until() > 0 || len(p.Effects()) > 0 {
		t.Error("a task whose lease has ended meanwhile begins actors")
	}
}
