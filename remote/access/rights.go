package access

import (
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/rights"
)

// Action is something that a policy allows or forbids, apart from what steps do.
type Action uint8

// The actions.
const (
	OpenSessions   Action = iota // open sessions, and use and close them
	OtherSessions                // use and close sessions that others opened
	ResetCluster                 // empty containers, which closes all sessions of a server
	ListState                    // list devices, tasks and actors
	UseActors                    // exchange messages with the program's actors, make and end them
	DeclareCluster               // declare a cluster with a session
	ProfileServer                // read profiles of the server's process
	CancelSteps                  // cancel steps of sessions that others opened
	DrainTasks                   // make tasks end
	actionCount
)

// actionNames are the words of policies, actionTexts those of refusals.
var (
	actionNames = [actionCount]string{"open", "others", "reset", "list", "actors", "declare", "profile", "cancel", "drain"}
	actionTexts = [actionCount]string{"open sessions", "use a session that somebody else opened", "reset containers", "list devices, tasks and actors",
		"exchange messages with actors", "declare clusters", "read profiles of the server's process", "cancel steps of sessions that somebody else opened",
		"drain tasks"}
)

// actionSet has a bit for each Action.
type actionSet uint32

// allActions does not compile once there are more actions than bits.
const allActions actionSet = 1<<actionCount - 1

func (s actionSet) has(a Action) bool       { return s&(1<<a) != 0 }
func (s actionSet) with(a Action) actionSet { return s | 1<<a }

// String returns the action's name in policies.
func (a Action) String() string { return actionNames[a] }

// Limits bound what an identity uses at the same time; 0 means no limit.
type Limits struct {
	// Sessions is the maximum number of open sessions, on each server.
	Sessions int
	// ClientBytes bounds what all sessions of the identity keep, SessionBytes what one of them keeps, and StepBytes what one step computes
	// with; on each task.
	ClientBytes, SessionBytes, StepBytes int64
	// Steps is the maximum number of running steps, StepsPerSecond of steps started per second; on each server.
	Steps, StepsPerSecond int
}

// FileRights say which files ops may use, on each server.
type FileRights uint8

const (
	// NoFiles allows none.
	NoFiles FileRights = iota
	// SharedFiles are those that a server shares with all its clients: the ones below its folders.
	SharedFiles
	// AllFiles are all that the server's process may use, unless the server confines everybody to its folders.
	AllFiles
)

var fileNames = [...]string{"none", "shared", "all"}

// String returns the word used in policies.
func (f FileRights) String() string { return fileNames[f] }

// Rights are what one identity may do. They are immutable, and made once for an identity and a policy. Every refusal is PERMISSION_DENIED
// and names the rule.
type Rights struct {
	who   Identity
	rule  *rule         // nil if no rule matches the identity
	scope *rights.Scope // nil for everything
}

func newRights(who Identity, of *rule) *Rights {
	s := &rights.Scope{Who: who.String(), Revision: rights.Next()}
	if of != nil {
		s.File, s.Line, s.Ops, s.Devices, s.Containers = of.file, of.line, of.ops, of.devices, of.containers
	}
	return &Rights{who, of, s}
}

// Unrestricted returns all rights, for servers without a policy.
func Unrestricted(who Identity) *Rights { return &Rights{who, everything, nil} }

var everything = &rule{may: allActions, files: AllFiles}

// Who returns the identity that has the rights.
func (r *Rights) Who() Identity { return r.who }

// Limits returns the limits of the rule.
func (r *Rights) Limits() Limits {
	if r.rule == nil {
		return Limits{}
	}
	return r.rule.limits
}

// Files returns which files ops may use.
func (r *Rights) Files() FileRights {
	if r.rule == nil {
		return NoFiles
	}
	return r.rule.files
}

// Rule returns the position of the rule, as file:line; empty without a rule.
func (r *Rights) Rule() string {
	if r.rule == nil {
		return ""
	}
	return r.rule.place()
}

// May returns nil if an action is allowed, and a refusal otherwise.
func (r *Rights) May(a Action) error {
	switch {
	case r.rule == nil:
		return r.refuse(actionTexts[a], "no rule allows it")
	case !r.rule.may.has(a):
		return r.refuse(actionTexts[a], fmt.Sprintf("the rule at %s does not allow it (%s is not in its may)", r.rule.place(), a))
	}
	return nil
}

// Scope returns what graphs may use; nil means everything.
func (r *Rights) Scope() *rights.Scope { return r.scope }

func (r *Rights) refuse(what, why string) error {
	return status.Errorf(status.PermissionDenied, "%s may not %s: %s", r.who, what, why)
}

// Actions returns all actions.
func Actions() []Action {
	all := make([]Action, actionCount)
	for i := range all {
		all[i] = Action(i)
	}
	return all
}

// ParseAction returns the action with the given name in policies.
func ParseAction(name string) (Action, error) {
	if a := slices.Index(actionNames[:], name); a >= 0 {
		return Action(a), nil
	}
	return 0, status.InvalidArgumentf("%.100q is no action: %s are", name, strings.Join(actionNames[:], ", "))
}
