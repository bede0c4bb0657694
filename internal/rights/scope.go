package rights

import (
	"fmt"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
)

// Scope is what one rule allows an identity to use. It is immutable. A nil Scope allows everything. All refusals are PERMISSION_DENIED, and
// name the identity and the rule.
type Scope struct {
	// Who is the identity, for messages.
	Who string
	// File and Line are the position of the rule. An empty File means no rule, which allows nothing.
	File string
	Line int
	// Ops, Devices and Containers are the rule's lists. Devices are full names.
	Ops, Devices, Containers Patterns
	// Revision orders the scopes of a session: the one with the higher revision applies. Next numbers them.
	Revision uint64
}

var revisions atomic.Uint64

// Next returns a new revision, higher than all earlier ones of this process.
func Next() uint64 { return revisions.Add(1) }

// Op returns an error unless graphs may have nodes of the op.
func (s *Scope) Op(op string) error {
	if s == nil {
		return nil
	}
	return s.judge(&s.Ops, func() string { return "use the op " + op }, func(p Pattern) bool {
		if in := groups[p.Text]; in != nil {
			return in(op)
		}
		return Match(p.Text, op)
	})
}

// Device returns an error unless kernels may run on the device and tensors may be sent to it.
func (s *Scope) Device(device string) error {
	if s == nil {
		return nil
	}
	return s.judge(&s.Devices, func() string { return "use the device " + device }, func(p Pattern) bool { return Match(p.Text, device) })
}

// Container returns an error unless the container may be used. byDefault is the name that the empty name stands for on the container's
// device, or empty if unknown. The default container has both names, and a pattern that matches either of them applies to it.
func (s *Scope) Container(container, byDefault string) error {
	if s == nil {
		return nil
	}
	names := []string{container}
	switch {
	case container == "" && byDefault != "":
		names = []string{"", byDefault}
	case container == byDefault:
		names = []string{container, ""}
	}
	return s.judge(&s.Containers, func() string {
		if container == "" {
			return "use the default container"
		}
		return "use the container " + container
	}, func(p Pattern) bool { return p.matches(names) })
}

// judge applies a list.
func (s *Scope) judge(list *Patterns, what func() string, matches func(Pattern) bool) error {
	if s.File == "" {
		return s.refuse(what(), "no rule allows it")
	}
	for _, p := range list.Deny {
		if matches(p) {
			return s.refuse(what(), fmt.Sprintf("denied by %q at %s:%d", p.Text, s.File, p.Line))
		}
	}
	if !list.Restricts {
		return nil
	}
	for _, p := range list.Allow {
		if matches(p) {
			return nil
		}
	}
	return s.refuse(what(), fmt.Sprintf("the rule at %s:%d does not allow it (nothing in its list at line %d matches)", s.File, s.Line, list.Line))
}

func (s *Scope) refuse(what, why string) error {
	return status.Errorf(status.PermissionDenied, "%s may not %s: %s", s.Who, what, why)
}
