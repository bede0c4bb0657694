package remote

import (
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// TestWhoMayCancel tries to cancel a client's step as another client, which may not, as the client itself, and as an operator.
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
	// blocked runs a step that waits forever, and returns its number.
	blocked := func() (uint64, <-chan error) {
		ended := make(chan error, 1)
		go func() { ended <- g.run("alice", handle, take.Name()) }() // ends with the cancellation, or with the server
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
	// Over the port, and as a caller of the HTTP endpoint.
	port := cancel
	page := func(as string, step uint64) error {
		_, _, err := g.node.Cancel(t.Context(), g.peer(as), step)
		return grpcError(err)
	}
	for i, who := range []string{"alice", "ops", "alice", "ops"} {
		if cancel = port; i >= 2 {
			cancel = page
		}
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

// TestWhoMayReset resets containers over the port, and as callers of the HTTP endpoint.
func TestWhoMayReset(t *testing.T) {
	g := guard(t, `rules:
  - {who: "client:alice", may: open}
  - {who: "client:ops", may: [list, reset, others], containers: ["", "a*"]}
`, "alice", "ops")
	reset := map[string]func(as string, containers ...string) error{
		"over the port": func(as string, containers ...string) error {
			return g.master(as, "Reset", &corepb.ResetRequest{Container: containers}, &corepb.ResetResponse{})
		},
		"over HTTP": func(as string, containers ...string) error {
			return grpcError(g.node.Reset(t.Context(), g.peer(as), containers))
		},
	}
	for how, reset := range reset {
		handle := g.mustOpen("alice", graphOf(&nodepb.NodeDef{Name: "n", Op: "NoOp"}))
		refusedBy(t, how+", a stranger", reset("", "a"), codes.PermissionDenied, "loopback may not reset containers: no rule allows it")
		refusedBy(t, how+", another client", reset("alice"), codes.PermissionDenied, "client:alice may not reset containers: the rule at policy.yaml:2")
		refusedBy(t, how+", another container", reset("ops", "a1", "b"), codes.PermissionDenied, "client:ops may not use the container b: the rule at policy.yaml:3")
		refusedBy(t, how+", a token that does not hold", reset("Bearer x"), codes.Unauthenticated, "")
		if err := g.run("alice", handle, "n"); err != nil {
			t.Fatalf("%s: the session has ended: %v", how, err)
		}
		for _, containers := range [][]string{{"a1", "a2"}, nil} {
			if err := reset("ops", containers...); err != nil {
				t.Errorf("%s: %v", how, err)
			}
		}
		refusedBy(t, how+", the session", g.run("alice", handle, "n"), codes.Aborted, "")
	}
	g.told("reset", map[string]int{"reset ": 2, "reset a1, a2": 2, "reset refused loopback": 2, "reset refused client:alice": 2, "reset refused client:ops": 2})
}

// TestWhoMayDrain drains the task over the port, and as callers of the HTTP endpoint.
func TestWhoMayDrain(t *testing.T) {
	const task = "/job:w/replica:0/task:0"
	g := guard(t, `rules:
  - {who: "client:alice", may: [open, list, reset, cancel]}
  - {who: "client:ops", may: [list, drain, others]}
`, "alice", "ops")
	drain := map[string]func(as, task string, within time.Duration) error{
		"over the port": func(as, task string, within time.Duration) error {
			return g.call(as, wire.OperatorDrain, &wire.DrainRequest{Task: task, Within: int64(within)}, &wire.DrainAnswer{})
		},
		"over HTTP": func(as, task string, within time.Duration) error {
			return grpcError(g.node.Drain(t.Context(), g.peer(as), task, within))
		},
	}
	for how, drain := range drain {
		refusedBy(t, how+", a stranger", drain("", task, 0), codes.PermissionDenied, "loopback may not drain tasks: no rule allows it")
		refusedBy(t, how+", another client", drain("alice", task, 0), codes.PermissionDenied, "client:alice may not drain tasks: the rule at policy.yaml:2")
		refusedBy(t, how+", a token that does not hold", drain("Bearer x", task, 0), codes.Unauthenticated, "")
		refusedBy(t, how+", another task", drain("ops", "/job:w/replica:0/task:1", 0), codes.NotFound, "the cluster has no task /job:w/replica:0/task:1")
		for _, d := range []time.Duration{-1, time.Hour + 1} {
			refusedBy(t, how+", too long", drain("ops", task, d), codes.InvalidArgument, "A task drains for at most 1h0m0s")
		}
		if len(g.drains) > 0 {
			t.Fatalf("%s: the task drains", how)
		}
		for _, d := range []time.Duration{0, 3 * time.Second} {
			if err := drain("ops", task, d); err != nil {
				t.Errorf("%s: %v", how, err)
			} else if got := <-g.drains; got != d {
				t.Errorf("%s: the task drains for %v, not %v", how, got, d)
			}
		}
	}
	g.told("drain", map[string]int{"drain ": 4, "drain refused loopback": 2, "drain refused client:alice": 2})
	log, err := os.ReadFile(g.audit)
	if err != nil || strings.Count(string(log), `"event":"drain","who":"client:ops"`) != 4 {
		t.Errorf("%v: the audit log is\n%s", err, log)
	}
}

// told checks how many events the task has had, by kind and subject, and that those of an act name ops as the requester.
func (g *guarded) told(act string, want map[string]int) {
	g.t.Helper()
	seen := &view.Cluster{}
	if err := g.call("ops", wire.OperatorSee, &view.Query{Sections: []string{"events"}}, seen); err != nil {
		g.t.Fatal(err)
	}
	counts := map[string]int{}
	for _, e := range seen.Tasks[0].Events {
		counts[e.Kind+" "+e.Subject]++
		if e.Kind == act && !strings.HasPrefix(e.Text, "by client:ops at 127.0.0.1:") {
			g.t.Errorf("the event does not say who: %q", e.Text)
		}
	}
	for event, n := range want {
		if counts[event] != n {
			g.t.Errorf("%d events %q, not %d: %v", counts[event], event, n, counts)
		}
	}
}

// grpcError returns an error of the node as its port answers it.
func grpcError(err error) error {
	if err == nil {
		return nil
	}
	e := status.From(err)
	return grpcstatus.Error(codes.Code(e.Code), e.Message)
}

// peer is a client of the HTTP endpoint, with the token that call uses for it.
func (g *guarded) peer(as string) access.Peer {
	p := access.Peer{Address: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 40000}}
	if token := g.tokens[as]; token != "" {
		p.Authorization = "Bearer " + token
	} else if as != "" {
		p.Authorization = as
	}
	return p
}

// TestResetEndsOneSOwn checks that a reset ends the sessions that its caller may close, and nobody else's.
func TestResetEndsOneSOwn(t *testing.T) {
	g := guard(t, `rules:
  - {who: "client:alice", may: open}
  - {who: "client:bob", may: [open, reset], containers: ["bob"]}
`, "alice", "bob")
	graph := graphOf(&nodepb.NodeDef{Name: "n", Op: "NoOp"})
	others, own := g.mustOpen("alice", graph), g.mustOpen("bob", graph)
	if err := g.master("bob", "Reset", &corepb.ResetRequest{Container: []string{"bob"}}, &corepb.ResetResponse{}); err != nil {
		t.Fatal(err)
	}
	if err := g.run("alice", others, "n"); err != nil {
		t.Errorf("somebody else's session has ended: %v", err)
	}
	refusedBy(t, "one's own session", g.run("bob", own, "n"), codes.Aborted, "")
}
