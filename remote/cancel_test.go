package remote

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// TestWhoMayCancel has a client's step cancelled by another client, who may not, by itself, and by an operator.
func TestWhoMayCancel(t *testing.T) {
	g := guard(t, `rules:
  - {who: "client:alice", may: open}
  - {who: "client:bob", may: open}
  - {who: "client:ops", may: [list, cancel]}
`, "alice", "bob", "ops")
	s := op.NewScope()
	take := op.NewFIFOQueue(s, []tensor.DType{tensor.Float32}).Dequeue(s.WithName("take"))[0].Op
	def, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	handle := g.mustOpen("alice", def)
	cancel := func(as string, step uint64) error {
		return g.call(as, wire.OperatorCancelStep, &wire.CancelStepRequest{Step: step}, &wire.CancelStepAnswer{})
	}
	// blocked runs a step that waits for ever, and gives its number.
	blocked := func() (uint64, <-chan error) {
		ended := make(chan error, 1)
		go func() { ended <- g.run("alice", handle, take.Name()) }() // ends with the cancellation, or the server
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
			seen := &view.Cluster{}
			if err := g.call("ops", wire.OperatorSee, &view.Query{Sections: []string{"steps"}}, seen); err != nil {
				t.Fatal(err)
			}
			if steps := seen.Tasks[0].Steps; len(steps) == 1 {
				return steps[0].Id, ended
			}
		}
		t.Fatal("no step began")
		return 0, nil
	}
	for _, who := range []string{"alice", "ops"} {
		step, ended := blocked()
		refusedBy(t, "a stranger", cancel("", step), codes.PermissionDenied, "loopback may not cancel steps of sessions that somebody else opened: no rule allows it")
		refusedBy(t, "another client", cancel("bob", step), codes.PermissionDenied, "client:bob may not cancel steps of sessions that somebody else opened: the rule at policy.yaml:3")
		if err := cancel(who, step); err != nil {
			t.Fatalf("%s: %v", who, err)
		}
		refusedBy(t, "the step's client", <-ended, codes.Canceled, "The step was cancelled by an operator: client:"+who+" at 127.0.0.1:")
		refusedBy(t, "once more", cancel(who, step), codes.NotFound, "it has ended")
	}
	seen := &view.Cluster{}
	if err := g.call("ops", wire.OperatorSee, &view.Query{Sections: []string{"events"}}, seen); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, e := range seen.Tasks[0].Events {
		kinds = append(kinds, e.Kind+" "+e.Subject)
	}
	for _, want := range []string{"server started /job:w/replica:0/task:0", "cancel refused client:bob", "cancel refused loopback"} {
		if !slices.Contains(kinds, want) {
			t.Errorf("the events lack %q: %q", want, kinds)
		}
	}
	log, err := os.ReadFile(g.audit)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"event":"cancel","who":"client:ops"`, `"event":"cancel","who":"client:bob"`, "of session " + view.SessionName(handle) + " on /job:w/replica:0/task:0"} {
		if !strings.Contains(string(log), want) {
			t.Errorf("the audit log lacks %s:\n%s", want, log)
		}
	}
}
