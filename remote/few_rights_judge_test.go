package remote

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/internal/rights"
	"github.com/troupe-run/troupe/kernels"
)

// alicesMark begins the names of alice's nodes.
const alicesMark = "alices"

// What the judge finds.
const (
	madeDenied = "a denied kernel was made"
	ranDenied  = "a denied kernel ran"
)

// judge sees each kernel that is made in the process, and each that runs on some tasks. By its own reading of alice's policies, and not by
// that of package rights, it decides whether alice may have them: an op that a policy denies must not run even if nothing shows of it.
type judge struct {
	mu        sync.Mutex
	rounds    []judged
	wrong     map[string]string // what is wrong, by its text
	told      map[string]bool
	made, ran int
}

// judged are the limits that hold for scopes from a revision on.
type judged struct {
	from   uint64
	limits limits
}

// newJudge watches the nodes until the test ends.
func newJudge(t *testing.T, nodes []*Node) *judge {
	j := &judge{wrong: map[string]string{}, told: map[string]bool{}}
	kernels.TellMade(func(c *kernels.Construction) { j.see(madeDenied, c.Node, c.Device.Name(), c.Device.Rights()) })
	for _, n := range nodes {
		n.task.WatchKernels(func(x kernels.Execution) { j.see(ranDenied, x.Node, x.Device, x.Rights) })
	}
	t.Cleanup(func() {
		kernels.TellMade(nil)
		for _, n := range nodes {
			n.task.WatchKernels(nil)
		}
	})
	return j
}

// begin makes limits hold for the scopes that are made from now on. Steps that began under earlier ones are judged by those.
func (j *judge) begin(l limits) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rounds = append(j.rounds, judged{rights.Next(), l})
}

// see judges a kernel.
func (j *judge) see(what string, n *graph.Node, device string, r *rights.Session) {
	scope, named := r.Scope(), strings.HasPrefix(n.Name, alicesMark)
	whose := scope != nil && scope.Who == "client:alice"
	if !named && !whose {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if what == madeDenied {
		j.made++
	} else {
		j.ran++
	}
	if !whose {
		j.report(what, n, device, "it is alice's, and has the rights of somebody else")
		return
	}
	for _, round := range slices.Backward(j.rounds) {
		if scope.Revision > round.from {
			if why := round.limits.denies(n, device); why != "" {
				j.report(what, n, device, why+" is denied by "+round.limits.rule)
			}
			return
		}
	}
}

// report notes what is wrong, once.
func (j *judge) report(what string, n *graph.Node, device, why string) {
	text := fmt.Sprintf("%s: %s of op %s on %s: %s", what, n.Name, n.Op, device, why)
	if !j.told[text] {
		j.told[text], j.wrong[text] = true, what
	}
}

// denies says what of a node alice may not use; nothing if she may have it. Passes add nodes that are nobody's.
func (l limits) denies(n *graph.Node, device string) string {
	container, ok := n.Attrs["container"]
	name := string(container.GetS())
	if name == "w" { // the default container's other name
		name = ""
	}
	inserted := n.Op == "_Arg" || n.Op == "_Retval" || graph.IsInserted(n)
	_, function := graph.LookupOp(n.Op) // what is no op is the name of a function, whose nodes are judged
	switch {
	case l.device(device):
		return "the device"
	case inserted || function != nil:
	case l.op(n.Op):
		return "the op"
	case ok && l.container(name):
		return fmt.Sprintf("the container %q", name)
	}
	return ""
}

type wrong struct{ what, text string }

// wrongs returns what was found since the last call.
func (j *judge) wrongs() (all []wrong) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for text, what := range j.wrong {
		all = append(all, wrong{what, text})
	}
	clear(j.wrong)
	return all
}

// counts returns how many of alice's kernels were made, and how many ran.
func (j *judge) counts() (made, ran int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.made, j.ran
}
