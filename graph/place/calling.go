package place

import (
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// calling returns those of the devices c that can call functions of a program, or else those of which that is not known. If there are
// neither, it returns none, or c if no device is known to have functions: as with an op without any kernel, the node then fails when it runs.
func (s *deviceSet) calling(c []int) []int {
	with := func(f device.Functions) []int {
		return slices.DeleteFunc(slices.Clone(c), func(i int) bool { return s.devices[i].Functions != f })
	}
	if some := with(device.HasFunctions); len(some) > 0 {
		return some
	}
	if unknown := with(device.UnknownFunctions); len(unknown) > 0 || s.functions {
		return unknown
	}
	return c
}

// readCaller records whether member i calls functions of a program. Where all devices are alike, it makes no difference.
func (p *placer) readCaller(i int) (err error) {
	if p.CallsProgram == nil || !p.devices.varied {
		return nil
	}
	m := &p.members[i]
	if m.caller, err = p.CallsProgram(m.node); err != nil {
		return status.AtNode(err, m.node.Name)
	}
	m.calls = m.caller
	return nil
}

// joinIterators keeps the users of a dataset that calls functions of a program, such as MakeIterator, on the dataset's device, since it means
// nothing elsewhere. Other datasets need no such rule: if they and their users request no device, both are on the master's task.
func (p *placer) joinIterators() error {
	if p.CallsProgram == nil || !p.devices.varied {
		return nil
	}
	passed := map[graph.Output]graph.Output{}
	for i, n := range p.nodes {
		if err := p.check(); err != nil {
			return err
		}
		for k, in := range n.Inputs {
			if n.InTypes[k] != tensor.Variant || isDataset(n) {
				continue
			}
			if in = in.Passed(passed); !isDataset(in.Node) {
				continue
			}
			if err := p.joinIterator(in.Node, int32(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// joinIterator joins a user of a dataset with it if the dataset calls functions of a program, or was placed before, perhaps because it does.
func (p *placer) joinIterator(dataset *graph.Node, user int32) error {
	src, err := p.member(dataset)
	if err != nil {
		return err
	}
	calls := p.members[p.root(src)].calls
	if !calls && p.isNew(dataset) {
		return nil
	}
	err = p.joinEdge(src, user)
	if err != nil && !calls {
		p.warn(err.Error())
		return nil
	}
	return err
}

// fits reports whether a group either calls no functions of a program, or could be placed no better without them.
func (g *groups) fits(m *member) bool {
	return !m.calls || len(g.devices.candidates(*m.requested, m.types, true)) > 0 || len(g.devices.candidates(*m.requested, m.types, false)) == 0
}

// callersFit returns an error if the groups of x and y do not fit together though each does alone.
func (g *groups) callersFit(x, y int32, together *member) error {
	rx, ry := g.root(x), g.root(y)
	if g.fits(together) || !g.fits(&g.members[rx]) || !g.fits(&g.members[ry]) {
		return nil
	}
	c := g.devices.candidates(*together.requested, together.types, false)
	return status.InvalidArgumentf("Cannot colocate nodes %s and %s: %s", g.mark(x), g.mark(y), g.lackFunctions(c, g.callerIn(rx, ry)))
}

// callerIn returns the first node that calls functions of a program, of the groups with these roots.
func (g *groups) callerIn(roots ...int32) *graph.Node {
	for i := range g.members {
		if g.members[i].caller && slices.Contains(roots, g.root(int32(i))) {
			return g.members[i].node
		}
	}
	return g.members[roots[0]].node
}

// lackFunctions says that a node that calls functions of a program would have to be on one of the devices c, none of which has any.
func (g *groups) lackFunctions(c []int, caller *graph.Node) string {
	servers, belong := g.devices.tasks(func(i int) bool { return slices.Contains(c, i) }), "belongs"
	if len(servers) > 1 {
		belong = "belong"
	}
	able := g.devices.tasks(func(i int) bool { return g.devices.devices[i].Functions == device.HasFunctions })
	return "{{node " + caller.Name + "}} (" + caller.Op + ") calls a function of the program that owns the server, and has to be on " + listed(servers) +
		", which " + belong + " to no program. Place it on a task of the program that has the function (" + listed(able) +
		"), or start the server in that program (troupe.Server, troupe.run, WithFunction)."
}

// maxListed is the number of tasks that an error about functions lists.
const maxListed = 10

// listed lists the names of tasks for people.
func listed(tasks []string) string {
	if more := len(tasks) - maxListed; more > 0 {
		return strings.Join(tasks[:maxListed], ", ") + " and " + strconv.Itoa(more) + " others"
	}
	return strings.Join(tasks, ", ")
}
