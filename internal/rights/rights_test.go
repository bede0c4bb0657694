package rights

import (
	"slices"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
)

func TestGroups(t *testing.T) {
	if !isStateful("VariableV2") || !isStateful("RandomUniform") || isStateful("MatMul") || isStateful("NoSuchOp") {
		t.Error("@stateful is not what TensorFlow declares")
	}
	for _, op := range FileOps() {
		if _, err := graph.LookupOp(op); err != nil {
			t.Errorf("@files has %s: %v", op, err)
		}
	}
	if got, err := NewPattern("@file", 1, true); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("an unknown group: %v, %v", got, err)
	}
	if _, err := NewPattern("@file", 1, false); err != nil {
		t.Errorf("a container's name that begins with an @: %v", err)
	}
}

// TestDefaultContainer checks that a container with two names is one container.
func TestDefaultContainer(t *testing.T) {
	list := func(texts ...string) (out []Pattern) {
		for _, text := range texts {
			out = append(out, Pattern{text, 1})
		}
		return out
	}
	for _, c := range []struct {
		list    Patterns
		name    string
		allowed bool
	}{
		{Patterns{}, "", true},
		{Patterns{Deny: list("")}, "", false},
		{Patterns{Deny: list("")}, "worker", false},
		{Patterns{Deny: list("")}, "other", true},
		{Patterns{Deny: list("worker")}, "", false},
		{Patterns{Restricts: true, Allow: list("")}, "worker", true},
		{Patterns{Restricts: true, Allow: list("worker")}, "", true},
		{Patterns{Restricts: true, Allow: list("")}, "other", false},
		{Patterns{Restricts: true, Allow: list("other")}, "", false},
		{Patterns{Restricts: true, Allow: list("other")}, "worker", false},
		{Patterns{Restricts: true}, "other", false},
	} {
		s := &Scope{Who: "x", File: "p", Line: 1, Containers: c.list}
		if err := s.Container(c.name, "worker"); (err == nil) != c.allowed {
			t.Errorf("%q with %+v: %v", c.name, c.list, err)
		}
	}
	if (&Scope{Who: "x"}).Container("a", "worker") == nil {
		t.Error("no rule allows a container")
	}
}

func TestSessions(t *testing.T) {
	var none *Session
	if none != New(nil) || none.Op("Exp") != nil || none.Device("d") != nil || none.Container("c", "w") != nil || none.Scope() != nil {
		t.Error("a session without a scope may not do everything")
	}
	denies := func(op, container string) *Scope {
		return &Scope{Who: "x", File: "p", Line: 1, Revision: Next(), Ops: Patterns{Deny: []Pattern{{op, 1}}}, Containers: Patterns{Deny: []Pattern{{container, 1}}}}
	}
	first, second := denies("Exp", "a"), denies("Log", "b")
	r := New(first)
	for range 2 {
		if r.Op("Exp") == nil || r.Op("Log") != nil || r.Container("a", "w") == nil || r.Container("b", "w") != nil {
			t.Error("the first scope does not hold")
		}
	}
	r.Update(second)
	r.Update(first) // outdated
	r.Update(nil)
	for range 2 {
		if r.Op("Exp") != nil || r.Op("Log") == nil || r.Container("a", "w") != nil || r.Container("b", "w") == nil {
			t.Error("the second scope does not hold")
		}
	}
	if names := Groups(); !slices.Equal(names, []string{"@files", "@stateful"}) {
		t.Errorf("the groups are %v", names)
	}
}
