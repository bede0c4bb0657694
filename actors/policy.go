package actors

import (
	"slices"

	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Policy bounds what a session does on behalf of its client. The session asks it where a plan is made, and once when a
// step begins and ends; it costs a step nothing else. Its methods may be called concurrently.
type Policy interface {
	// Rules are those that hold now: the same value until they change. Plans that were made under others are
	// checked again before their next step.
	Rules() Rules
	// BeginStep counts a step, or refuses one too many. EndStep is called when a counted one is over.
	BeginStep() error
	EndStep()
	// Close tells that the session has ended, or that it was not opened.
	Close()
}

// Rules say which graphs a client may run. Values can be compared. Their errors are PERMISSION_DENIED.
type Rules interface {
	Op(op string) error
	// Device takes a full device name.
	Device(device string) error
	// Container takes the name that a node or a handle has for it, which is empty for the default container.
	Container(container string) error
	// ContainersRestricted tells whether there are containers that Container refuses.
	ContainersRestricted() bool
}

// admit checks a plan's nodes, and those of the functions that they may call, against the session's policy, unless the
// same rules have let it pass before.
func (s *Session) admit(p *plan) error {
	if s.rights.Policy == nil {
		return nil
	}
	rules := s.rights.Policy.Rules()
	if known := p.admitted.Load(); known != nil && *known == rules {
		return nil
	}
	err := checkGraph(rules, p.pruned.Graph)
	if err == nil {
		p.admitted.Store(&rules)
	}
	return err
}

// checkGraph finds the first node that a client may not run. The error names it.
func checkGraph(rules Rules, g *graph.Graph) error {
	c := policyCheck{rules: rules, library: g.Library.For(g)}
	for _, n := range g.Nodes {
		err := rules.Device(n.Assigned)
		if err == nil {
			err = c.node(n.Op, n.Attrs)
		}
		if err != nil {
			return status.AtNode(err, n.Name)
		}
	}
	for name, f := range c.library.Functions {
		for _, n := range f.GetNodeDef() {
			if err := c.node(n.GetOp(), n.GetAttr()); err != nil {
				return status.AtNode(err, name+"/"+n.GetName())
			}
		}
	}
	return nil
}

// policyCheck checks the nodes of a graph and of its functions.
type policyCheck struct {
	rules   Rules
	library *graph.Library
}

// passing are the ops of the nodes by which feeds and fetches, arguments and results enter and leave a graph. Every graph
// has them, and they do nothing.
var passing = map[string]bool{"_Arg": true, "_Retval": true}

// handleMakers are the ops that make tensors of the bytes they are given, with the attribute that says of which type: a
// handle that is made so names any container.
var handleMakers = map[string]string{"Const": "dtype", "HostConst": "dtype", "ParseTensor": "out_type"}

func (c *policyCheck) node(op string, attrs graph.Attrs) error {
	if passing[op] || c.library.Functions[op] != nil {
		return nil // the function's own nodes are checked
	}
	if err := c.rules.Op(op); err != nil {
		return err
	}
	if !c.rules.ContainersRestricted() {
		return nil
	}
	if attr := attrs[handleMakers[op]]; attr != nil {
		if t := tensor.DType(attr.GetType()); attr.GetPlaceholder() != "" || t == tensor.Resource || t == tensor.Variant {
			return status.Errorf(status.PermissionDenied, "%s of resource handles or variants is refused where a policy restricts containers: they could name any container", op)
		}
	}
	if !hasContainer(op) {
		return nil
	}
	container := attrs["container"]
	if container.GetPlaceholder() != "" {
		return status.Errorf(status.PermissionDenied, "a container that the caller of a function chooses is refused where a policy restricts containers")
	}
	return c.rules.Container(string(container.GetS()))
}

// hasContainer tells whether nodes of an op name a container. Those of an op that is not known do not run.
func hasContainer(op string) bool {
	def, err := graph.LookupOp(op)
	return err == nil && slices.ContainsFunc(def.GetAttr(), func(a *oppb.OpDef_AttrDef) bool { return a.GetName() == "container" })
}

// admitFeed refuses fed handles of containers that the client may not use.
func (s *Session) admitFeed(f *feedSpec, t *tensor.Tensor) error {
	if s.rights.Policy == nil || t.DType() != tensor.Resource && t.DType() != tensor.Variant {
		return nil
	}
	rules := s.rights.Policy.Rules()
	switch {
	case !rules.ContainersRestricted():
		return nil
	case t.DType() == tensor.Variant:
		return status.AtNode(status.Errorf(status.PermissionDenied,
			"variants cannot be fed where a policy restricts containers: they could have handles of any container"), nodeOf(f.name))
	}
	for _, h := range t.Handles() {
		if err := rules.Container(h.Container); err != nil {
			return status.AtNode(err, nodeOf(f.name))
		}
	}
	return nil
}

// admitStep counts a step that is about to begin with a plan.
func (s *Session) admitStep(p *plan) error {
	if s.rights.Policy == nil {
		return nil
	}
	if err := s.admit(p); err != nil {
		return err
	}
	return s.rights.Policy.BeginStep()
}

// stepOver tells the policy of the end of a step that was admitted.
func (s *Session) stepOver() {
	if s.rights.Policy != nil {
		s.rights.Policy.EndStep()
	}
}
