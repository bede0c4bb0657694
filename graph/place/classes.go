package place

import (
	"maps"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/graph"
)

// classPrefix is the prefix of the entries in a node's _class that name a colocation group.
const classPrefix = "loc:@"

// classesOf calls f for each colocation group that n asks to belong to, until f fails.
func classesOf(n *graph.Node, f func(name string) error) error {
	v, ok := n.Attrs["_class"]
	if !ok {
		return nil
	}
	for _, s := range v.GetList().GetS() {
		if name, ok := strings.CutPrefix(string(s), classPrefix); ok {
			if err := f(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Colocations records the requested colocation names that are not the name of any node, each with a node that requests it. The zero value
// is empty. It belongs to one graph and is not safe for concurrent use.
type Colocations struct{ byName map[string]*graph.Node }

// remember records the names requested by placed nodes and removes those that a node now has.
func (c *Colocations) remember(g *graph.Graph, nodes []*graph.Node) {
	for _, n := range nodes {
		delete(c.byName, n.Name)
		_ = classesOf(n, func(name string) error {
			if _, ok := c.byName[name]; !ok && g.Lookup(name) == nil {
				if c.byName == nil {
					c.byName = map[string]*graph.Node{}
				}
				c.byName[name] = n
			}
			return nil
		})
	}
}

// joinClasses joins the nodes that request the same colocation group with each other and with the node of that name.
func (p *placer) joinClasses() error {
	first, err := p.namedClasses()
	if err != nil {
		return err
	}
	if len(first) == 0 {
		return nil
	}
	for i, n := range p.nodes {
		if err := p.check(); err != nil {
			return err
		}
		join := func(name string) error {
			if with, ok := first[name]; !ok || with < 0 {
				first[name] = int32(i)
				return nil
			}
			return p.joinClass(int32(i), first[name], name)
		}
		if err := classesOf(n, join); err != nil {
			return err
		}
		if _, asked := first[n.Name]; asked {
			if err := join(n.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// joinClass joins node i with a member of the colocation group that it requests.
func (p *placer) joinClass(i, with int32, name string) error {
	p.terse = p.SoftPlacement
	err := p.join(i, with)
	p.terse = false
	if err == nil {
		return nil
	}
	n := p.members[i].node
	err = attach(err, n)
	if !p.SoftPlacement {
		return err
	}
	p.warn("Ignoring request to colocate node '" + n.Name + "' with nodes in colocation group '" + name +
		"' because soft placement is on and an attempt at doing so resulted in the following error: " + err.Error())
	return nil
}

// namedClasses returns the names of the colocation groups that concern the nodes to place, each with a member that was placed earlier, or
// -1.
func (p *placer) namedClasses() (map[string]int32, error) {
	first := map[string]int32{}
	for _, n := range p.nodes {
		err := classesOf(n, func(name string) error {
			if _, ok := first[name]; ok {
				return nil
			}
			first[name] = -1
			named := p.graph.Lookup(name)
			if named == nil || p.isNew(named) {
				return nil
			}
			var err error
			first[name], err = p.member(named)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return first, p.addUnborne(first)
}

func (p *placer) isNew(n *graph.Node) bool {
	i, ok := p.index(n)
	return ok && i < int32(p.fresh)
}

// addUnborne adds to first the groups relevant to the nodes to place whose name belonged to no earlier node, but which placed nodes have
// requested.
func (p *placer) addUnborne(first map[string]int32) error {
	add := func(name string, n *graph.Node) error {
		with, asked := first[name]
		if named := p.graph.Lookup(name); !asked && (named == nil || !p.isNew(named)) || asked && with >= 0 {
			return nil
		}
		var err error
		first[name], err = p.member(n)
		return err
	}
	if p.Colocations != nil {
		for _, name := range slices.Sorted(maps.Keys(p.Colocations.byName)) {
			if err := add(name, p.Colocations.byName[name]); err != nil {
				return err
			}
		}
		return nil
	}
	if len(p.nodes) == len(p.graph.Nodes) {
		return nil
	}
	for _, n := range p.graph.Nodes {
		if p.isNew(n) {
			continue
		}
		if err := classesOf(n, func(name string) error { return add(name, n) }); err != nil {
			return err
		}
	}
	return nil
}
