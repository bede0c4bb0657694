package access

import (
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
)

// Action is something that a policy allows or not, apart from what steps do.
type Action uint8

// The actions.
const (
	OpenSessions   Action = iota // open sessions, and use and close these
	OtherSessions                // use and close sessions that others opened
	ResetCluster                 // empty containers, which closes all sessions of a server
	ListState                    // list devices, tasks and actors
	UseActors                    // exchange messages with the program's actors
	DeclareCluster               // declare a cluster with a session
	ProfileServer                // read profiles of the server's process
	CancelSteps                  // cancel steps of sessions that others opened
	DrainTasks                   // have tasks end
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

// String is the action's name in policies.
func (a Action) String() string { return actionNames[a] }

// Limits bound what an identity uses at a time; 0 means no limit.
type Limits struct {
	// Sessions is how many sessions may be open, on each server.
	Sessions int
	// ClientBytes bounds what all sessions of the identity keep, SessionBytes what one of them keeps, StepBytes what one
	// step computes with; on each task.
	ClientBytes, SessionBytes, StepBytes int64
	// Steps is how many steps may run at a time, StepsPerSecond how many may begin in a second; on each server.
	Steps, StepsPerSecond int
}

// FileRights say which files ops may use, on each server.
type FileRights uint8

const (
	// NoFiles is none.
	NoFiles FileRights = iota
	// SharedFiles are those that a server gives to all its clients: those below its folders.
	SharedFiles
	// AllFiles are all that the server's process may use, unless the server has folders that everybody is confined to.
	AllFiles
)

var fileNames = [...]string{"none", "shared", "all"}

// String is the word of policies.
func (f FileRights) String() string { return fileNames[f] }

// Rights are what one identity may do. They are immutable, and made once for an identity and a policy. Every refusal is
// PERMISSION_DENIED and names the rule.
type Rights struct {
	who  Identity
	rule *rule // nil where no rule is about the identity
}

// Unrestricted are all rights, for servers without a policy.
func Unrestricted(who Identity) *Rights { return &Rights{who, everything} }

var everything = &rule{may: allActions, files: AllFiles}

// Who has the rights.
func (r *Rights) Who() Identity { return r.who }

// Limits are those of the rule.
func (r *Rights) Limits() Limits {
	if r.rule == nil {
		return Limits{}
	}
	return r.rule.limits
}

// Files are the files that ops may use.
func (r *Rights) Files() FileRights {
	if r.rule == nil {
		return NoFiles
	}
	return r.rule.files
}

// Rule is where the rule stands, as file:line; empty where there is none.
func (r *Rights) Rule() string {
	if r.rule == nil {
		return ""
	}
	return r.rule.place()
}

// May tells whether an action is allowed.
func (r *Rights) May(a Action) error {
	switch {
	case r.rule == nil:
		return r.refuse(actionTexts[a], "no rule allows it")
	case !r.rule.may.has(a):
		return r.refuse(actionTexts[a], fmt.Sprintf("the rule at %s does not allow it (%s is not in its may)", r.rule.place(), a))
	}
	return nil
}

// Op tells whether graphs may have nodes of an op.
func (r *Rights) Op(op string) error {
	return r.check("use the op "+op, op, func(r *rule) *patterns { return &r.ops })
}

// Device tells whether graphs may have nodes on a device, which is given by its full name.
func (r *Rights) Device(device string) error {
	return r.check("use the device "+device, device, func(r *rule) *patterns { return &r.devices })
}

// Container tells whether graphs may use a container. The empty name is the default container's.
func (r *Rights) Container(container string) error {
	what := "use the container " + container
	if container == "" {
		what = "use the default container"
	}
	return r.check(what, container, func(r *rule) *patterns { return &r.containers })
}

// ContainersRestricted tells whether there are containers that Container refuses.
func (r *Rights) ContainersRestricted() bool {
	return r.rule == nil || r.rule.containers.restricts || len(r.rule.containers.deny) > 0
}

func (r *Rights) check(what, text string, list func(*rule) *patterns) error {
	if r.rule == nil {
		return r.refuse(what, "no rule allows it")
	}
	if why := list(r.rule).refusal(text); why != nil {
		return r.refuse(what, why(r.rule))
	}
	return nil
}

func (r *Rights) refuse(what, why string) error {
	return status.Errorf(status.PermissionDenied, "%s may not %s: %s", r.who, what, why)
}

// Actions are all actions.
func Actions() []Action {
	all := make([]Action, actionCount)
	for i := range all {
		all[i] = Action(i)
	}
	return all
}

// ParseAction finds an action by its name in policies.
func ParseAction(name string) (Action, error) {
	if a := slices.Index(actionNames[:], name); a >= 0 {
		return Action(a), nil
	}
	return 0, status.InvalidArgumentf("%.100q is no action: %s are", name, strings.Join(actionNames[:], ", "))
}
