package placement

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	"github.com/troupe-run/troupe/actors/wire"
)

// maxVoters bounds the voters: the first tasks of the cluster's spec.
const maxVoters = 9

// Config describes a task's placement.
type Config struct {
	Self  string   // the task's full name
	Tasks []string // of the cluster, in the order of its spec
	Boot  uint64   // of the task's process
	// Hosts is set if the program has kinds of virtual actors. Other tasks only vote.
	Hosts bool
	// Lease is how long a task may act after it was last heard, and Lead how long a leader leads. Lease is long enough for the election of
	// another leader, so that tasks act on when theirs is lost.
	Lease, Lead time.Duration
	// Term is the highest term that a former process of the task can have voted in. The microseconds of the date grow faster than terms.
	Term uint64
}

// Epoch numbers views: those of a later leader are greater.
type Epoch struct{ Term, Number uint64 }

// Compare returns -1, 0 or 1: whether e is less than, equal to or greater than other.
func (e Epoch) Compare(other Epoch) int {
	return cmp.Or(cmp.Compare(e.Term, other.Term), cmp.Compare(e.Number, other.Number))
}

// View is a list of the tasks that virtual actors may live on.
type View struct {
	Epoch   Epoch
	Members []string // sorted
	Active  bool     // members may begin what is their own
}

// Effect is something that the caller of a Core has to do: a Send, Prepare, Activate or Expire.
type Effect interface{ isEffect() }

type (
	// Send sends a message to a task. It may be lost, and it may come late.
	Send struct {
		To      string
		Message *wire.Placement
	}
	// Prepare ends the virtual actors of the task that are not its own under the view, and then calls Core.Kept.
	Prepare struct{ View View }
	// Activate lets the task begin actors that are its own under the view.
	Activate struct{ View View }
	// Expire ends all virtual actors of the task: its lease has ended.
	Expire struct{}
)

func (Send) isEffect()     {}
func (Prepare) isEffect()  {}
func (Activate) isEffect() {}
func (Expire) isEffect()   {}

// role is what a task does about the lead.
type role int

const (
	following role = iota
	polling        // it asks all tasks what they know
	voting         // it waits for votes
	leading
)

// Core is a task's placement. Its times are those since its own start, which is time 0, and must not decrease. It is not safe for concurrent use.
type Core struct {
	config   Config
	voters   []string
	hash     uint64
	rank     int           // its place among the tasks
	interval time.Duration // between the beats of a leader
	effects  []Effect

	// As a voter.
	term     uint64 // the highest that it has voted in, or heard a leader of
	grantee  string // has its vote until granted
	granted  time.Duration
	last     string // the leader that it has heard last, and its term
	lastTerm uint64

	// As a member.
	view   *View // the latest; nil if it knows none
	kept   Epoch // of the latest view that it keeps to; zero if it holds nothing
	leased time.Duration
	leaves bool

	// As a candidate.
	role     role
	next     time.Duration // when it becomes a candidate
	deadline time.Duration // of the poll or the vote
	round    uint64
	polled   map[string]uint64 // the boots of tasks that do not lead
	seen     uint64            // the highest term that a voter has named: the next one is above it
	standing uint64            // the term that it stands for
	stood    time.Duration     // when it asked for votes
	votes    map[string]bool
	former   string // the leader that its voters have heard last, and its term
	formerBy uint64

	// As a leader.
	peers   map[string]*peer
	elected time.Duration
	number  uint64 // of its latest view
	current *View
	beatAt  time.Duration // when the next beats are due
}

// peer is what a leader knows of a task.
type peer struct {
	boot     uint64        // 0 if no message of it has come in this term
	heard    time.Duration // when it last answered
	answered time.Duration // the time of the latest beat that it has answered; 0 if none
	stamp    int64         // the task's own time in that answer
	lent     time.Duration // the time of the latest beat that lent it a lease
	busy     time.Duration // until when it may hold a lease
	kept     Epoch
	hosts    bool
	leaves   bool
}

// New returns the placement of a task that has just started.
func New(c Config) *Core {
	k := &Core{config: c, voters: Voters(c.Tasks), interval: c.Lead / 6}
	h := fnv.New64a()
	for _, v := range k.voters {
		h.Write([]byte(v))
		h.Write([]byte{0})
	}
	k.hash = h.Sum64()
	k.rank = slices.Index(c.Tasks, c.Self)
	k.next = k.turn(4)
	return k
}

// turns bounds the turns that candidates take, so that one soon stands wherever it is in the spec.
const turns = 8

// turn returns when it is the task's turn to become a candidate, if turns are a part of an interval apart. The first tasks have one each,
// and the others another one each time, since they share them.
func (c *Core) turn(part int) time.Duration {
	turn := uint64(c.rank)
	if turn >= turns {
		turn = mix(uint64(c.rank)<<32|c.round) % turns
	}
	return time.Duration(turn) * (c.interval / time.Duration(part))
}

// Voters returns the tasks of a cluster that vote.
func Voters(tasks []string) []string { return tasks[:min(len(tasks), maxVoters)] }

// margin is by how much clocks may drift apart during a lease.
func margin(lease time.Duration) time.Duration { return lease / 10 }

// Every is how often Tick wants to be called.
func (c *Core) Every() time.Duration { return c.interval / 2 }

// Effects returns what is to be done since the last call, in order.
func (c *Core) Effects() []Effect {
	e := c.effects
	c.effects = nil
	return e
}

// View returns the latest view; ok is false if the task knows none.
func (c *Core) View() (v View, ok bool) {
	if c.view == nil {
		return View{}, false
	}
	return *c.view, true
}

// Until returns until when the task may act. It may act under the view that it keeps to: the latest, or while it prepares that one, what it had
// under the former.
func (c *Core) Until() time.Duration {
	if c.kept == (Epoch{}) {
		return 0
	}
	return c.lease()
}

// lease returns until when the task has a lease. That of a leader ends with its lead.
func (c *Core) lease() time.Duration {
	if c.role == leading {
		return min(c.leased, c.leads(true))
	}
	return c.leased
}

// advance ends a lead and a lease that are over, before anything else happens: neither is resumed by a message that comes too late.
func (c *Core) advance(now time.Duration) {
	if c.role == leading && now >= c.leads(true) {
		c.follow(now)
	}
	if c.view == nil || now < c.lease() {
		return
	}
	if c.kept != (Epoch{}) {
		c.do(Expire{})
	}
	c.kept, c.view = Epoch{}, nil
}

// Free reports whether the task holds nothing, and will get nothing, until it is a member again.
func (c *Core) Free(now time.Duration) bool {
	return now >= c.Until() || c.view != nil && c.kept == c.view.Epoch && !slices.Contains(c.view.Members, c.config.Self)
}

// Leave makes the leader hand over what the task holds.
func (c *Core) Leave(now time.Duration) {
	c.advance(now)
	c.leaves = true
	if c.role == leading {
		c.beat(now, c.config.Self)
		c.review(now)
	}
}

// Kept says that everything has ended that is not the task's own under a view.
func (c *Core) Kept(now time.Duration, e Epoch) {
	c.advance(now)
	if c.view == nil || c.view.Epoch != e {
		return
	}
	c.kept = e
	if c.view.Active {
		c.do(Activate{*c.view})
	}
	if c.role == leading {
		c.beat(now, c.config.Self)
		c.review(now)
	}
}

// Tick tells the time.
func (c *Core) Tick(now time.Duration) {
	c.advance(now)
	switch c.role {
	case leading:
		if now >= c.beatAt {
			c.beats(now)
		}
		c.review(now)
	case polling:
		if now < c.deadline {
			return
		}
		if now >= c.config.Lead && c.quorum(func(v string) bool { _, ok := c.polled[v]; return ok }) {
			c.stand(now, false)
		} else {
			c.poll(now)
		}
	case voting:
		if now >= c.deadline {
			c.yield(now)
		}
	case following:
		if c.config.Hosts && now >= c.next {
			c.poll(now)
		}
	}
}

// Receive handles a message of a process of a task. No message of a task's former process may follow one of a later process.
func (c *Core) Receive(now time.Duration, from string, boot uint64, m *wire.Placement) {
	if m.GetVoters() != c.hash || m.GetBoot() != 0 && m.GetBoot() != c.config.Boot {
		return
	}
	c.identify(from, boot)
	c.advance(now)
	switch w := m.GetWhat().(type) {
	case *wire.Placement_Poll:
		leads := c.role == leading
		// A process that has just started may have voted, as a former one, while this poll went on.
		refuses := c.role == voting || c.bound(now, from) || now < 2*c.interval
		answer := &wire.Polled{Round: w.Poll.GetRound(), Term: max(c.term, c.config.Term), Leads: leads, Refuses: refuses}
		c.send(from, boot, &wire.Placement{What: &wire.Placement_Polled{Polled: answer}})
		if leads {
			c.beat(now, from)
		}
	case *wire.Placement_Polled:
		c.heardPolled(now, from, boot, w.Polled)
	case *wire.Placement_Vote:
		c.heardVote(now, from, boot, w.Vote)
	case *wire.Placement_Voted:
		c.heardVoted(now, from, w.Voted)
	case *wire.Placement_Beat:
		c.heardBeat(now, from, boot, w.Beat)
	case *wire.Placement_Beaten:
		c.heardBeaten(now, from, w.Beaten)
	}
}

func (c *Core) do(e Effect) { c.effects = append(c.effects, e) }

// send sends a message to a process of a task; boot is 0 for any.
func (c *Core) send(to string, boot uint64, m *wire.Placement) {
	m.Voters, m.Boot = c.hash, boot
	c.do(Send{to, m})
}

// quorum reports whether the voters that have something in common are a quorum: more than half of them, or half of them with the first.
// Two quorums always have a voter in common.
func (c *Core) quorum(has func(voter string) bool) bool {
	n := 0
	for _, v := range c.voters {
		if has(v) {
			n += 2
		}
	}
	return n > len(c.voters) || n == len(c.voters) && has(c.voters[0])
}
