package access

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

// maxAccounts bounds the identities whose usage is remembered while they have no open session.
const maxAccounts = 4096

// Guard decides for each call who makes it and what the caller may do. Its methods are safe for concurrent use.
type Guard struct {
	tokens *Tokens     // nil: none is accepted
	policy *PolicyFile // nil: everybody may do everything
	audit  *Audit      // nil: nothing is recorded

	used    *accounts
	peers   sync.Map    // *admission by connection
	refused func(Event) // nil if nobody is notified
}

// accounts count what identities use.
type accounts struct {
	mu  sync.Mutex
	all map[accountKey]*account
}

// NewGuard returns a guard with tokens, a policy and an audit log, each of which may be nil. The caller keeps ownership of them.
func NewGuard(tokens *Tokens, policy *PolicyFile, audit *Audit) *Guard {
	return &Guard{tokens: tokens, policy: policy, audit: audit, used: &accounts{all: map[accountKey]*account{}}}
}

// OnRefusal sets a function that is called for all refusals, in addition to the audit log. OnRefusal must be called before the guard is
// used, and the function must not block.
func (g *Guard) OnRefusal(refused func(Event)) { g.refused = refused }

// Record writes an event to the audit log and reports a refusal to the function of OnRefusal.
func (g *Guard) Record(e Event) {
	g.audit.Record(e)
	if e.Refused != nil && g.refused != nil {
		g.refused(e)
	}
}

// ForPort returns a guard with the same tokens, policy and counts for another port, whose connections have their own numbers. It returns
// nil for a nil Guard.
func (g *Guard) ForPort() *Guard {
	if g == nil {
		return nil
	}
	return &Guard{tokens: g.tokens, policy: g.policy, audit: g.audit, used: g.used}
}

// Decides reports whether there are tokens or a policy: a guard without them permits everything, and records it.
func (g *Guard) Decides() bool { return g != nil && (g.tokens != nil || g.policy != nil) }

// HasPolicy reports whether there is a policy. Without one, everybody who is admitted may do everything.
func (g *Guard) HasPolicy() bool { return g.policy != nil }

// Audit returns the log of the guard's refusals.
func (g *Guard) Audit() *Audit { return g.audit }

// admission is the decision about a connection's last call. It also applies to the next one, unless that has another token, or the policy
// or the tokens were reloaded.
type admission struct {
	authorization string
	policy        *Policy
	tokens        *tokenTable
	until         time.Time // zero if unlimited
	rights        *Rights
}

// Admit returns what the peer of a call may do. connection is the number of its connection, 0 for none. The error is UNAUTHENTICATED.
func (g *Guard) Admit(connection uint64, p Peer) (*Rights, error) {
	policy, tokens := g.versions()
	if known, ok := g.peers.Load(connection); ok {
		a := known.(*admission)
		if a.policy == policy && a.tokens == tokens && a.authorization == p.Authorization && (a.until.IsZero() || time.Now().Before(a.until)) {
			return a.rights, nil
		}
	}
	who, until, err := identify(p, g.tokens)
	if err == nil && policy == nil && tokens != nil && who.Name == (Name{}) {
		err = status.Errorf(status.Unauthenticated, "this server wants a token (--tokens, --jwt-key) or a certificate, and the call shows none")
	}
	if err != nil {
		g.Record(Event{What: "login", From: p.From(), Refused: err})
		return nil, err
	}
	a := &admission{authorization: p.Authorization, policy: policy, tokens: tokens, until: until, rights: Unrestricted(who)}
	if policy != nil {
		a.rights = policy.Rights(who)
	}
	if connection != 0 {
		g.peers.Store(connection, a)
	}
	return a.rights, nil
}

func (g *Guard) versions() (policy *Policy, tokens *tokenTable) {
	if g.policy != nil {
		policy = g.policy.Policy()
	}
	if g.tokens != nil {
		tokens = g.tokens.now.Load()
	}
	return policy, tokens
}

// ConnectionClosed forgets a connection.
func (g *Guard) ConnectionClosed(connection uint64) { g.peers.Delete(connection) }

// accountKey identifies whose usage is counted together.
type accountKey struct {
	kind Kind // of identities without a name
	name Name
}

func keyOf(i Identity) accountKey {
	if i.Name != (Name{}) {
		return accountKey{name: i.Name}
	}
	return accountKey{kind: i.Kind}
}

// account counts what an identity uses.
type account struct {
	mu       sync.Mutex
	sessions int
	steps    int
	tokens   float64 // steps that may start at once
	filled   time.Time
}

// open finds or creates an identity's account, and counts a session unless there are as many as the limit; 0 is no limit. It returns how many there
// were.
func (s *accounts) open(i Identity, limit int) (a *account, were int) {
	key := keyOf(i)
	s.mu.Lock()
	defer s.mu.Unlock()
	a = s.all[key]
	if a == nil {
		if len(s.all) >= maxAccounts {
			s.forgetIdleLocked()
		}
		a = &account{}
		s.all[key] = a
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	were = a.sessions
	if limit <= 0 || were < limit {
		a.sessions++
	}
	return a, were
}

func (s *accounts) forgetIdleLocked() {
	for key, a := range s.all {
		a.mu.Lock()
		if a.sessions == 0 {
			delete(s.all, key)
		}
		a.mu.Unlock()
	}
}

// Grant is what one session may do: the rights of the identity that opened it.
type Grant struct {
	owner   Identity
	files   FileRights // they go with the session to all tasks and do not change
	account *account
	closed  sync.Once
	rights  atomic.Pointer[Rights]
}

// OpenSession counts a session of a caller that may open one. Close the grant when the session ends.
func (g *Guard) OpenSession(r *Rights) (*Grant, error) {
	if err := r.May(OpenSessions); err != nil {
		return nil, err
	}
	limit := r.Limits().Sessions
	account, were := g.used.open(r.Who(), limit)
	if limit > 0 && were >= limit {
		return nil, status.Errorf(status.ResourceExhausted, "%s has %d sessions open, which is the limit of the rule at %s (sessions): close one", r.Who(), were, r.Rule())
	}
	s := &Grant{owner: r.Who(), files: r.Files(), account: account}
	s.rights.Store(r)
	return s, nil
}

// Close records that the session has ended. It may be called more than once.
func (s *Grant) Close() {
	s.closed.Do(func() {
		s.account.mu.Lock()
		s.account.sessions--
		s.account.mu.Unlock()
	})
}

// Owner returns the identity that opened the session.
func (s *Grant) Owner() Identity { return s.owner }

// Rights returns the owner's rights as of its last call.
func (s *Grant) Rights() *Rights { return s.rights.Load() }

// Use returns an error if a caller may not use the session. A call by the owner updates the session's rights: what a reloaded policy has
// taken away ends with the next call.
func (s *Grant) Use(caller *Rights) error {
	if !caller.who.Owns(s.owner) {
		return caller.May(OtherSessions)
	}
	if caller.rule != s.Rights().rule {
		s.rights.Store(caller)
	}
	if caller.Files() < s.files {
		return caller.refuse(fmt.Sprintf("use a session with files: %s", s.files), fmt.Sprintf("the policy was reloaded, and gives files: %s now. Open a new session", caller.Files()))
	}
	return caller.May(OpenSessions)
}

// BeginStep counts a step that begins; call EndStep when it is over. If a limit is exceeded, the error is RESOURCE_EXHAUSTED.
func (s *Grant) BeginStep() error {
	r := s.Rights()
	l := r.Limits()
	a := s.account
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.Steps > 0 && a.steps >= l.Steps {
		return status.Errorf(status.ResourceExhausted, "%s runs %d steps, which is the limit of the rule at %s (steps): wait for one to end", r.Who(), a.steps, r.Rule())
	}
	if l.StepsPerSecond > 0 && !a.takeLocked(float64(l.StepsPerSecond)) {
		return status.Errorf(status.ResourceExhausted, "%s begins more than %d steps in a second, which is the limit of the rule at %s (steps_per_second)", r.Who(), l.StepsPerSecond, r.Rule())
	}
	a.steps++
	return nil
}

// takeLocked takes a step from a bucket that one second fills.
func (a *account) takeLocked(rate float64) bool {
	now := time.Now()
	if a.filled.IsZero() {
		a.tokens = rate
	} else {
		a.tokens = min(rate, a.tokens+now.Sub(a.filled).Seconds()*rate)
	}
	a.filled = now
	if a.tokens < 1 {
		return false
	}
	a.tokens--
	return true
}

// EndStep records the end of a step that BeginStep counted.
func (s *Grant) EndStep() {
	s.account.mu.Lock()
	defer s.account.mu.Unlock()
	s.account.steps--
}
