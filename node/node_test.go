package node_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/member"
	"github.com/troupe-run/troupe/remote/spec/spectest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The probes of gossip outlive it for a moment.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}

func greet(c *node.ActorContext, name string) (string, error) {
	return fmt.Sprintf("Hello, %s, from %s", name, c.Node().Task()), nil
}

func greeter() (string, node.ActorMaker, node.ActorOption) {
	return "greeter", node.Stateless(node.Answer(greet)), node.Virtual{}
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), extent.Slack(30*time.Second))
	t.Cleanup(cancel)
	return ctx
}

type stopper interface {
	Stop(ctx context.Context) error
}

func stopAtEnd(t *testing.T, s stopper) {
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// mixed is a cluster of two servers, the job worker, and two nodes, the job go.
type mixed struct {
	*testing.T
	servers []*troupe.Server
	nodes   []*node.Node
}

// newMixed starts a cluster. The nodes have more options.
func newMixed(t *testing.T, opts ...node.Option) *mixed {
	m := &mixed{T: t}
	free := spectest.Addresses(t, 4)
	jobs := map[string][]string{"worker": free[:2], "go": free[2:]}
	log := slog.New(slog.DiscardHandler)
	for i := range 2 {
		s, err := troupe.NewServer(bounded(t), troupe.ClusterSpec(jobs), troupe.WithJob("worker"), troupe.WithTask(i), troupe.WithActor(greeter()), troupe.WithLogger(log))
		if err != nil {
			t.Fatal(err)
		}
		stopAtEnd(t, s)
		m.servers = append(m.servers, s)
	}
	for i := range 2 {
		n, err := node.New(bounded(t), node.ClusterSpec(jobs), append([]node.Option{node.WithJob("go"), node.WithTask(i), node.WithActor(greeter()), node.WithLogger(log)}, opts...)...)
		if err != nil {
			t.Fatal(err)
		}
		stopAtEnd(t, n)
		m.nodes = append(m.nodes, n)
	}
	return m
}

// client returns a client of a node.
func (m *mixed) client(i int) *client.Client {
	c, err := client.Dial(bounded(m.T), m.nodes[i].Target())
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			m.Error(err)
		}
	})
	return c
}

// TestNodesAndServersShareActors checks that each task of a cluster of both reaches the virtual actors of all others.
func TestNodesAndServersShareActors(t *testing.T) {
	m := newMixed(t)
	for _, from := range []node.Place{m.servers[0], m.servers[1], m.nodes[0], m.nodes[1]} {
		at := map[string]bool{}
		for i := 0; len(at) < 4; i++ {
			answer, err := node.Ask[string](bounded(t), from, node.VirtualActor("greeter", fmt.Sprint(i)), "you")
			if err != nil {
				t.Fatal(err)
			}
			_, task, _ := strings.Cut(answer, ", from ")
			at[task] = true
			if i == 1000 {
				t.Fatalf("1000 virtual actors are on %v", at)
			}
		}
	}
}

// TestSessionsBesideNodes checks that sessions of servers do without the nodes of their cluster: names are decided, variables are placed,
// shared and reset, and devices are listed as if the nodes were not there.
func TestSessionsBesideNodes(t *testing.T) {
	m := newMixed(t)
	s := op.NewScope()
	var reads []op.Output
	var inits []op.Runnable
	const variables = 32 // so that some of their names would be decided by each task
	for i := range variables {
		v := op.NewVariable(s, op.Const(s, float32(i)), attr.SharedName(fmt.Sprint("v", i)))
		inits = append(inits, v.Initializer())
		reads = append(reads, v.Read(s))
	}
	graph, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	ctx := bounded(t)
	for k, server := range m.servers {
		session, err := server.NewSession(ctx, graph, nil)
		if err != nil {
			t.Fatal(err)
		}
		if k == 0 {
			if _, err := session.Eval(ctx, nil, inits...); err != nil {
				t.Fatal(err)
			}
		}
		for i, r := range reads {
			if got, err := troupe.Fetch[float32](ctx, session, nil, r); err != nil || got != float32(i) {
				t.Errorf("server %d, variable %d: %v, %v", k, i, got, err)
			}
		}
		if err := session.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	devices, err := m.servers[0].Devices(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devices {
		if !strings.HasPrefix(d.Name, "/job:worker/") {
			t.Errorf("a node has the device %s", d.Name)
		}
	}
	if err := m.servers[1].Reset(ctx); err != nil {
		t.Errorf("a reset: %v", err)
	}
}

// TestOperatorsOfNodes checks what operators ask of any task of a cluster: a node answers for all of it.
func TestOperatorsOfNodes(t *testing.T) {
	drained := make(chan time.Duration, 2)
	m := newMixed(t, node.WithDrainRequests(func(within time.Duration) { drained <- within }))
	ctx, c := bounded(t), m.client(0)
	all, err := c.Status(ctx)
	if err != nil || len(all.Tasks) != 4 {
		t.Fatalf("%v, %v", all, err)
	}
	for _, s := range all.Tasks {
		if s.State != "up" || strings.HasPrefix(s.Task, "/job:go/") != (len(s.Devices) == 0) {
			t.Errorf("%+v", s)
		}
	}
	seen, err := c.See(ctx, &client.Query{Cluster: true})
	if err != nil || len(seen.Tasks) != 4 {
		t.Fatalf("%v, %v", seen, err)
	}
	for _, s := range seen.Tasks {
		if s.State != "up" || s.Process.GetPid() == 0 || s.Process.GetVersion() != member.Version() || len(s.Actors) == 0 || len(s.Links) != 3 {
			t.Errorf("%v", s)
		}
		if strings.HasPrefix(s.Task, "/job:go/") && len(s.Events) == 0 {
			t.Errorf("%s tells no events", s.Task)
		}
	}
	if _, err := c.Actors(ctx); err != nil {
		t.Error(err)
	}
	trace, err := c.Trace(ctx, &client.TraceQuery{Duration: int64(100 * time.Millisecond), Cluster: true})
	if err != nil || len(trace.Tasks) != 4 {
		t.Fatalf("%v, %v", trace, err)
	}
	for _, s := range trace.Tasks {
		if s.Reason != "" {
			t.Errorf("%s was not traced: %s", s.Task, s.Reason)
		}
	}
	if err := c.Drain(ctx, m.nodes[1].Task(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if within := <-drained; within != time.Minute {
		t.Errorf("it drains within %v", within)
	}
	if _, _, err := c.CancelStep(ctx, 1); status.CodeOf(err) != status.NotFound {
		t.Errorf("the end of a step that nobody runs: %v", err)
	}
	if _, err := c.NewSession(ctx, nil, nil); status.CodeOf(err) != status.Unimplemented || !strings.Contains(err.Error(), m.nodes[0].Task()+" hosts actors and runs no graphs") {
		t.Errorf("a session on a node: %v", err)
	}
}

// TestJoiningNodes checks that a node joins a running cluster of a server as a free task, and that there is one process for each.
func TestJoiningNodes(t *testing.T) {
	free := spectest.Addresses(t, 2)
	jobs := map[string][]string{"worker": free[:1], "go": free[1:]}
	log := slog.New(slog.DiscardHandler)
	s, err := troupe.NewServer(bounded(t), troupe.ClusterSpec(jobs), troupe.WithJob("worker"), troupe.WithLogger(log))
	if err != nil {
		t.Fatal(err)
	}
	stopAtEnd(t, s)
	n, err := node.JoinCluster(bounded(t), []string{s.Address()}, node.WithJob("go"), node.WithLogger(log), node.WithActor("greeter", node.Stateless(node.Answer(greet))))
	if err != nil {
		t.Fatal(err)
	}
	stopAtEnd(t, n)
	at, err := s.Spawn(bounded(t), "greeter", node.ActorAt("go:0", "one"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := node.Ask[string](bounded(t), s, at, "you"); err != nil || answer != "Hello, you, from /job:go/replica:0/task:0" {
		t.Errorf("%q, %v", answer, err)
	}
	if _, err := node.JoinCluster(bounded(t), []string{n.Address()}, node.WithJob("go"), node.WithLogger(log)); status.CodeOf(err) != status.ResourceExhausted {
		t.Errorf("a second one: %v", err)
	}
}

// TestNodesEndOnce checks the life of a node: it starts and stops once, whoever asks, and says so afterwards.
func TestNodesEndOnce(t *testing.T) {
	n, err := node.NewLocal(t.Context(), node.WithStart(false), node.WithActor(greeter()))
	if err != nil {
		t.Fatal(err)
	}
	who := node.VirtualActor("greeter", "x")
	if _, err := node.Ask[string](bounded(t), n, who, "you"); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("before the start: %v", err)
	}
	for range 2 {
		if err := n.Start(bounded(t)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := node.Ask[string](bounded(t), n, who, "you"); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := n.Stop(bounded(t)); err != nil {
			t.Error(err)
		}
	}
	if err := n.Join(bounded(t)); err != nil {
		t.Error(err)
	}
	if err := n.Start(bounded(t)); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("a start after the end: %v", err)
	}
}

// TestOptionsOfNodes checks that options that cannot be are refused before anything is bound.
func TestOptionsOfNodes(t *testing.T) {
	for name, opt := range map[string]node.Option{"nil": nil, "time": node.WithStartup(-1), "limit": node.WithActorLimit(-1), "address": node.WithBind("x"), "logger": node.WithLogger(nil),
		"credentials": node.WithCredentials(nil), "Restart": node.WithActor("a", nil, node.Restart{Most: -1}), "index": node.WithTask(1), "job": node.WithJob("x")} {
		n, err := node.NewLocal(t.Context(), opt)
		if err == nil {
			stopAtEnd(t, n)
		}
		if code := status.CodeOf(err); code != status.InvalidArgument && code != status.Internal {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNodesJudgeCallers checks that a policy decides what clients may do with a node, and that refusals are recorded as events.
func TestNodesJudgeCallers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte("rules: [{who: loopback, may: [list]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	policy, err := access.LoadPolicy(access.PolicyConfig{File: path, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(policy.Close)
	n, err := node.NewLocal(bounded(t), node.WithPolicy(policy), node.WithActor(greeter()), node.WithDrainRequests(func(time.Duration) { t.Error("it drains") }),
		node.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	stopAtEnd(t, n)
	c, err := client.Dial(bounded(t), n.Target())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Actors(bounded(t)); err != nil {
		t.Errorf("a list, which the policy allows: %v", err)
	}
	_, err = c.SpawnActor(bounded(t), "greeter", "local:0", "x", nil)
	for what, err := range map[string]error{"an actor": err, "a drain": c.Drain(bounded(t), n.Task(), 0)} {
		if status.CodeOf(err) != status.PermissionDenied {
			t.Errorf("%s: %v", what, err)
		}
	}
	seen, err := c.See(bounded(t), &client.Query{Sections: []string{"events"}})
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, e := range seen.Tasks[0].Events {
		if strings.HasSuffix(e.Kind, " refused") {
			refused++
		}
	}
	if refused != 2 {
		t.Errorf("%d refusals are among the events %v", refused, seen.Tasks[0].Events)
	}
}

// TestNodesAsParameterServers checks that tasks of the job ps which are nodes decide nothing either.
func TestNodesAsParameterServers(t *testing.T) {
	free := spectest.Addresses(t, 2)
	jobs := map[string][]string{"ps": free[:1], "worker": free[1:]}
	log := slog.New(slog.DiscardHandler)
	n, err := node.New(bounded(t), jobs, node.WithJob("ps"), node.WithLogger(log))
	if err != nil {
		t.Fatal(err)
	}
	stopAtEnd(t, n)
	server, err := troupe.NewServer(bounded(t), troupe.ClusterSpec(jobs), troupe.WithJob("worker"), troupe.WithLogger(log))
	if err != nil {
		t.Fatal(err)
	}
	stopAtEnd(t, server)
	s := op.NewScope()
	v := op.NewVariable(s, op.Const(s, float32(7)), attr.SharedName("v"))
	graph, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	session, err := server.NewSession(bounded(t), graph, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.Eval(bounded(t), nil, v.Initializer()); err != nil {
		t.Error(err)
	}
}
