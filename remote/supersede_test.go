package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

// patience bounds every wait of a test.
const patience = 20 * time.Second

// servers returns n servers that do not know of each other.
func servers(t *testing.T, n int) []*Node {
	t.Helper()
	alone, err := spec.New(map[string]map[int]string{"alone": {0: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	nodes := make([]*Node, n)
	for i := range nodes {
		if nodes[i], err = Listen(Config{Spec: alone, Job: "alone", Log: slog.New(slog.NewTextHandler(io.Discard, nil))}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := nodes[i].Stop(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for _, n := range nodes {
		if err := n.Serve(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return nodes
}

// declared returns a config that declares a cluster with jobs of one task.
func declared(isolated bool, jobs map[string]*Node) *corepb.ConfigProto {
	c := &corepb.ConfigProto{ClusterDef: &corepb.ClusterDef{},
		Experimental: &corepb.ConfigProto_Experimental{ShareSessionStateInClusterspecPropagation: !isolated}}
	for name, n := range jobs {
		c.ClusterDef.Job = append(c.ClusterDef.Job, &corepb.JobDef{Name: name, Tasks: map[int32]string{0: n.Address()}})
	}
	return c
}

// dial returns a function that opens sessions with the graph on a server.
func dial(t *testing.T, n *Node, def *graphpb.GraphDef) func(*corepb.ConfigProto) (*client.Session, error) {
	t.Helper()
	c, err := client.Dial(t.Context(), n.Target())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return func(config *corepb.ConfigProto) (*client.Session, error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return c.NewSession(ctx, def, config)
	}
}

// waiting is a graph with a constant "here" on the task of the job worker. On the task of another job it has a dequeue "never" of an empty
// queue, and an enqueue "begun" into the queue from which "started" takes.
func waiting(t *testing.T, job string) *graphpb.GraphDef {
	t.Helper()
	s := op.NewScope()
	worker := s.WithDevice("/job:worker/task:0")
	op.Identity(worker.WithName("here"), op.Const[float32](worker, 7))
	s = s.WithDevice("/job:" + job + "/task:0")
	kind := []tensor.DType{tensor.Float32}
	started := op.FIFOQueueV2(s, kind, attr.SharedName("started"))
	empty := op.FIFOQueueV2(s, kind, attr.SharedName("empty"))
	op.QueueEnqueueV2(s.WithName("begun"), started, []op.Output{op.Const[float32](s, 1)})
	op.QueueDequeueV2(s.WithName("started"), started, kind)
	op.QueueDequeueV2(s.WithName("never"), empty, kind)
	def, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	return def
}

func fetch(t *testing.T, s *client.Session, what string, targets ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := s.Run(ctx, nil, []string{what + ":0"}, targets)
	for _, v := range got {
		v.Release()
	}
	return err
}

// lostTo checks that an error tells a session's client that another master has replaced the session's.
func lostTo(t *testing.T, err error, s *client.Session, younger *Node) {
	t.Helper()
	if status.CodeOf(err) != status.Aborted || !strings.Contains(err.Error(), "Session handle is not found: "+s.Handle()) || !strings.Contains(err.Error(), "at "+younger.Address()) {
		t.Errorf("the session that was replaced by one of %s gives: %v", younger.Address(), err)
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestMastersOfOneNameReplaceEachOther(t *testing.T) {
	for _, isolated := range []bool{false, true} {
		t.Run(fmt.Sprintf("isolated=%v", isolated), func(t *testing.T) {
			nodes := servers(t, 3)
			older, younger, worker := nodes[0], nodes[1], nodes[2]
			onOlder, onYounger := dial(t, older, waiting(t, "master")), dial(t, younger, waiting(t, "master"))
			session := must[*client.Session](t)
			config := declared(isolated, map[string]*Node{"master": older, "worker": worker})

			first, second := session(onOlder(config)), session(onOlder(config))
			others := []*client.Session{
				session(dial(t, older, waiting(t, "chief"))(declared(isolated, map[string]*Node{"chief": older, "worker": worker}))),
				session(dial(t, younger, waiting(t, "chief_1"))(declared(isolated, map[string]*Node{"chief_1": younger, "worker": worker}))),
				session(dial(t, older, nil)(nil)),
			}
			stuck := make(chan error, 1)
			go func() { stuck <- fetch(t, first, "never", "begun") }()
			if err := fetch(t, first, "started"); err != nil {
				t.Fatal(err)
			}

			replacing := session(onYounger(declared(isolated, map[string]*Node{"master": younger, "worker": worker})))
			for _, s := range []*client.Session{first, second} {
				lostTo(t, fetch(t, s, "here"), s, younger)
				_, err := s.Devices(t.Context())
				lostTo(t, err, s, younger)
				lostTo(t, s.Extend(t.Context(), &graphpb.GraphDef{}), s, younger)
			}
			select {
			case err := <-stuck:
				lostTo(t, err, first, younger)
			case <-time.After(stopTime / 2):
				t.Error("a step that ran when its master was replaced runs on")
			}
			if err := fetch(t, replacing, "here"); err != nil {
				t.Error(err)
			}
			for i, s := range others {
				if _, err := s.Devices(t.Context()); err != nil {
					t.Errorf("other session %d: %v", i, err)
				}
				if i == len(others)-1 {
					break // its graph is empty
				}
				if err := fetch(t, s, "here"); err != nil {
					t.Errorf("other session %d: %v", i, err)
				}
			}
			for _, s := range append(others, first, second) {
				if err := s.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if err := second.Close(t.Context()); err != nil {
				t.Errorf("closing a session again: %v", err)
			}

			// A session that its client opens again is now the younger one.
			again := session(onOlder(config))
			if err := fetch(t, again, "here"); err != nil {
				t.Error(err)
			}
			lostTo(t, fetch(t, replacing, "here"), replacing, older)
		})
	}
}

// TestOlderMasterEndsBeforeTheYoungerBegins checks that once a host has lent a guest to the younger master, the older one no longer serves.
func TestOlderMasterEndsBeforeTheYoungerBegins(t *testing.T) {
	nodes := servers(t, 2)
	older, worker := nodes[0], nodes[1]
	s := must[*client.Session](t)(dial(t, older, waiting(t, "master"))(declared(false, map[string]*Node{"master": older, "worker": worker})))
	if n := len(older.declare.Tasks()); n != 1 {
		t.Fatalf("%d masters serve", n)
	}
	older.declare.mu.Lock()
	clusters := slices.Collect(maps.Values(older.declare.declared))
	older.declare.mu.Unlock()
	if len(clusters) != 1 {
		t.Fatalf("%d clusters are declared", len(clusters))
	}
	clusters[0].starting.Lock() // the cluster is not taken down yet
	defer clusters[0].starting.Unlock()
	_, err := worker.declare.guests.Lend(t.Context(), &wire.LendRequest{Cluster: 2, Spec: "master=localhost:1;worker=" + worker.Address(),
		Task: spec.TaskName("worker", 0), Master: spec.TaskName("master", 0), Boot: older.Boot() + 1, Owner: "loopback"})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(older.declare.Tasks()); n != 0 {
		t.Errorf("%d masters serve", n)
	}
	if err := fetch(t, s, "here"); status.CodeOf(err) != status.Aborted || !strings.Contains(err.Error(), "at localhost:1") {
		t.Error(err)
	}
}

// TestMastersOfOneNameInOneProcess checks that a process can be the master of the same name in several clusters.
func TestMastersOfOneNameInOneProcess(t *testing.T) {
	nodes := servers(t, 3)
	open, session := dial(t, nodes[0], waiting(t, "master")), must[*client.Session](t)
	small := session(open(declared(false, map[string]*Node{"master": nodes[0], "worker": nodes[1]})))
	large := session(open(declared(false, map[string]*Node{"master": nodes[0], "worker": nodes[1], "more": nodes[2]})))
	for _, s := range []*client.Session{small, large} {
		if err := fetch(t, s, "here"); err != nil {
			t.Error(err)
		}
	}
}

// TestMastersOfOneNameAtOneTime checks that masters of one name that open sessions at the same time end each other's, and nothing worse.
func TestMastersOfOneNameAtOneTime(t *testing.T) {
	const rounds = 8
	nodes := servers(t, 4)
	def := waiting(t, "master")
	var all sync.WaitGroup
	for _, master := range nodes[:2] {
		open := dial(t, master, def)
		config := declared(false, map[string]*Node{"master": master, "worker": nodes[2], "more": nodes[3]})
		all.Go(func() {
			for range rounds {
				s, err := open(config)
				if err == nil {
					err = errors.Join(fetch(t, s, "here"), s.Close(t.Context()))
				}
				switch code := status.CodeOf(err); code {
				case status.OK, status.Aborted, status.Unavailable:
				default:
					t.Errorf("%v: %v", code, err)
				}
			}
		})
	}
	all.Wait()
	// Without races, the last one has its session.
	s := must[*client.Session](t)(dial(t, nodes[0], def)(declared(false, map[string]*Node{"master": nodes[0], "worker": nodes[2], "more": nodes[3]})))
	if err := fetch(t, s, "here"); err != nil {
		t.Error(err)
	}
}

// TestOlderMasterThatDoesNotAnswer checks that a dead or silent older master does not keep a host from lending to the younger one.
func TestOlderMasterThatDoesNotAnswer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	worker := servers(t, 1)[0]
	guests := worker.declare.guests
	for i, older := range []net.Listener{silent, dead} {
		lend := func(cluster, boot uint64, master string) {
			t.Helper()
			name := fmt.Sprintf("master_%d", i)
			_, err := guests.Lend(t.Context(), &wire.LendRequest{Cluster: cluster, Spec: name + "=" + master + ";worker=" + worker.Address(),
				Task: spec.TaskName("worker", 0), Master: spec.TaskName(name, 0), Boot: boot})
			if err != nil {
				t.Fatal(err)
			}
		}
		old, young := uint64(10*i+1), uint64(10*i+2)
		lend(old, 1, older.Addr().String())
		start := time.Now()
		lend(young, 2, "localhost:1")
		if took := time.Since(start); took > 4*supersedeTime {
			t.Errorf("it took %v to lend while the older master does not answer", took)
		}
		if _, err := guests.find(old); status.CodeOf(err) != status.NotFound {
			t.Errorf("the older master's guest is there: %v", err)
		}
		if _, err := guests.find(young); err != nil {
			t.Error(err)
		}
	}
	_, err = guests.Lend(t.Context(), &wire.LendRequest{Cluster: 3, Spec: "worker=" + worker.Address(), Task: spec.TaskName("worker", 0), Master: spec.TaskName("master", 0)})
	if status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), "The master") {
		t.Errorf("a cluster without its master: %v", err)
	}
}

func TestEndedSessionsAreForgotten(t *testing.T) {
	var ended endedSessions
	name := func(i int) string { return fmt.Sprint("session ", i) }
	for i := range maxEnded + 2 {
		ended.add(name(i), errors.New(name(i)))
		if i == 1 && !ended.forget(name(1)) {
			t.Error("a session that ended is not known")
		}
	}
	for i := range maxEnded + 3 {
		if known := ended.why(name(i)) != nil; known != (i >= 2 && i < maxEnded+2) {
			t.Errorf("session %d: known is %v", i, known)
		}
	}
	if ended.forget(name(0)) || ended.reasons.Len() > maxEnded {
		t.Errorf("%d sessions are remembered", ended.reasons.Len())
	}
}
