package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clusterpb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/network"
	"github.com/troupe-run/troupe/internal/network/simnet"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/gateway"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

// lenders returns servers on separate hosts that do not know of each other; change modifies their configs, by index.
func lenders(t *testing.T, n int, change func(i int, c *Config)) []*Node {
	t.Helper()
	net := simnet.New(1)
	nodes := make([]*Node, n)
	for i := range nodes {
		h := net.Host(fmt.Sprintf("10.0.0.%d", i+1))
		alone, err := spec.New(map[string]map[int]string{"alone": {0: h.Address(2222)}})
		if err != nil {
			t.Fatal(err)
		}
		c := Config{Spec: alone, Job: "alone", Threads: 1, Network: h.Process(), Log: slog.New(slog.DiscardHandler)}
		change(i, &c)
		if nodes[i], err = Start(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := nodes[i].Stop(ctx); err != nil {
				t.Error(err)
			}
			<-time.After(time.Minute) // gossip's probes outlive the task by their timeouts
		})
	}
	return nodes
}

// declareOn opens a session of a client that declares, on its master, the cluster of the jobs "master" and "worker".
func declareOn(t *testing.T, by gateway.Declarer, master *Node, others ...*Node) (*actors.Task, string, error) {
	t.Helper()
	def := &clusterpb.ClusterDef{Job: []*clusterpb.JobDef{{Name: "master", Tasks: map[int32]string{0: master.Address()}}, {Name: "worker", Tasks: map[int32]string{}}}}
	for i, n := range others {
		def.Job[1].Tasks[int32(i)] = n.Address()
	}
	task, opened, err := master.declare.Open(t.Context(), by, def, master.Address())
	if err != nil {
		return nil, "", err
	}
	s := op.NewScope().WithDevice("/job:worker/task:0")
	op.ReadFile(s.WithName("read"), op.Const(s, filepath.Join(t.TempDir(), "none")))
	op.Identity(s.WithName("here"), op.Const[float32](s, 7))
	g, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	handle, err := task.CreateSession(t.Context(), 0, by.Rights, g, &clusterpb.ConfigProto{IsolateSessionState: true})
	opened(handle)
	if err != nil {
		t.Fatal(err)
	}
	return task, handle, nil
}

func eval(t *testing.T, task *actors.Task, handle, fetch string) error {
	t.Helper()
	s, err := task.Session(handle, 0)
	if err != nil {
		return err
	}
	result, err := s.Run(t.Context(), &actors.StepRequest{Fetches: []string{fetch}})
	if err == nil {
		for _, v := range result.Tensors {
			v.Release()
		}
	}
	return err
}

// everything is a client of a malicious master, which claims that its client may do everything.
var everything = gateway.Declarer{Owner: "loopback", Rights: actors.Rights{Who: "the client at 127.0.0.1:1", Files: actors.AllFiles}}

// TestGuestsGiveNoMoreThanTheirHosts checks that a guest's files are at most those that its host gives a client at the master's place,
// whatever the master claims about its client, and at most those of the master's client.
func TestGuestsGiveNoMoreThanTheirHosts(t *testing.T) {
	shared := everything
	shared.Rights.Files = actors.SharedFiles
	none := everything
	none.Rights.Files = actors.NoFiles
	secret := secretFile(t, "s")
	for _, c := range []struct {
		name   string
		by     gateway.Declarer
		change func(i int, c *Config)
		want   status.Code
	}{
		{"nothing proves the master", everything, func(int, *Config) {}, status.PermissionDenied},
		{"the secret proves it", everything, func(_ int, c *Config) { c.SecretFile = secret }, status.NotFound},
		{"it has a client of the network", shared, func(_ int, c *Config) { c.SecretFile = secret }, status.PermissionDenied},
		{"the lender is insecure", everything, func(i int, c *Config) { c.Files.Insecure = true }, status.NotFound},
		{"it has a client without files", none, func(i int, c *Config) { c.Files.Insecure = true }, status.PermissionDenied},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := lenders(t, 2, c.change)
				task, handle, err := declareOn(t, c.by, nodes[0], nodes[1])
				if err != nil {
					t.Fatal(err)
				}
				if err := eval(t, task, handle, "here:0"); err != nil {
					t.Error(err)
				}
				if err := eval(t, task, handle, "read:0"); status.CodeOf(err) != c.want {
					t.Errorf("reading a file gives %v, want %v", err, c.want)
				}
			})
		})
	}
}

// TestLendersIdentifyMasters checks that tokens and a policy keep servers from lending guests to masters without credentials.
func TestLendersIdentifyMasters(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, c := range []struct {
		name, policy string
		guardMaster  bool
		want         string
	}{
		{"tokens", "", false, "wants a token"},
		{"a policy", "rules:\n  - {who: any, may: all}\n", false, "--secret-file"},
		{"a policy without declare", "rules:\n  - {who: any, may: open}\n", false, "declare is not in its may"},
		{"a policy of the master", "rules:\n  - {who: any, may: all}\n", true, "--secret-file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			_, line, err := access.NewToken("admin", time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{"tokens": line, "policy.yaml": c.policy} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			tokens, err := access.LoadTokens(access.TokenConfig{File: filepath.Join(dir, "tokens"), Log: log})
			if err != nil {
				t.Fatal(err)
			}
			defer tokens.Close()
			var policy *access.PolicyFile
			if c.policy != "" {
				if policy, err = access.LoadPolicy(access.PolicyConfig{File: filepath.Join(dir, "policy.yaml"), Log: log}); err != nil {
					t.Fatal(err)
				}
				defer policy.Close()
			}
			synctest.Test(t, func(t *testing.T) {
				nodes := lenders(t, 2, func(i int, config *Config) {
					if (i == 0) == c.guardMaster {
						config.Guard = access.NewGuard(tokens, policy, nil)
					}
				})
				_, _, err := declareOn(t, everything, nodes[0], nodes[1])
				if code := status.CodeOf(err); code != status.Unauthenticated && code != status.PermissionDenied || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v", err)
				}
				if n := len(nodes[1].declare.guests.all); n != 0 {
					t.Errorf("%d guests", n)
				}
			})
		})
	}
}

// TestStrangersDoNotReplaceMasters checks that a master of the same name ends only the sessions of its own client.
func TestStrangersDoNotReplaceMasters(t *testing.T) {
	for _, secret := range []bool{false, true} {
		t.Run(fmt.Sprintf("secret=%v", secret), func(t *testing.T) {
			file := secretFile(t, "s")
			synctest.Test(t, func(t *testing.T) {
				nodes := lenders(t, 3, func(_ int, c *Config) {
					if secret {
						c.SecretFile = file
					}
				})
				alice, bob := everything, everything
				alice.Owner, bob.Owner = "client:alice", "client:bob"
				task, handle, err := declareOn(t, alice, nodes[0], nodes[2])
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := declareOn(t, bob, nodes[1], nodes[2]); err != nil {
					t.Fatal(err)
				}
				if err := eval(t, task, handle, "here:0"); err != nil {
					t.Errorf("after a stranger's session: %v", err)
				}
				if !secret {
					return // nothing else vouches for what another master says
				}
				if _, _, err := declareOn(t, alice, nodes[1], nodes[2]); err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // clients learn of it at once, and the session itself ends soon after
				if err := eval(t, task, handle, "here:0"); err == nil {
					t.Error("a master was not replaced by that of the same client")
				}
			})
		})
	}
}

// TestDeclaredClustersAreBounded checks the limits on declared clusters: the tasks of one cluster, and the totals.
func TestDeclaredClustersAreBounded(t *testing.T) {
	node := servers(t, 1)[0]
	each, all := declaredTaskLimits(1024)
	if each != 64 || all != 128 {
		t.Errorf("of 1,024 files: %d and %d", each, all)
	}
	big := func(tasks int, address string) *clusterpb.ClusterDef {
		j := &clusterpb.JobDef{Name: "w", Tasks: map[int32]string{0: node.Address()}}
		for i := range tasks - 1 {
			j.Tasks[int32(i+1)] = fmt.Sprintf("%s%d:1", address, i)
		}
		return &clusterpb.ClusterDef{Job: []*clusterpb.JobDef{j}}
	}
	jobs := &clusterpb.ClusterDef{}
	for i := range 20_000 {
		jobs.Job = append(jobs.Job, &clusterpb.JobDef{Name: fmt.Sprint("j", i)})
	}
	for name, def := range map[string]*clusterpb.ClusterDef{
		"tasks": big(5000, "h"), "jobs": jobs, "bytes": big(200, strings.Repeat("h", 400)),
	} {
		_, _, err := node.declare.Open(t.Context(), everything, def, node.Address())
		if status.CodeOf(err) != status.ResourceExhausted {
			t.Errorf("%s: %v", name, err)
		}
		if len(err.Error()) > 1000 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
	if len(node.declare.declared) != 0 {
		t.Errorf("%d clusters", len(node.declare.declared))
	}
	// Lenders do not trust masters' checks.
	text := "m=h:1;w=" + node.Address() + strings.Repeat(",h:2", 20_000)
	_, err := node.declare.guests.Lend(t.Context(), &wire.LendRequest{Cluster: 1, Spec: text, Task: spec.TaskName("w", 0), Master: spec.TaskName("m", 0), Boot: 1})
	if status.CodeOf(err) != status.ResourceExhausted {
		t.Error(err)
	}
	// Who may have no further guest takes no port for it.
	before := node.config.Network
	node.config.Network = noListening{network.System, t}
	defer func() { node.config.Network = before }()
	g := &guests{host: node, all: map[uint64]*guest{}}
	for i := range uint64(maxGuests) {
		g.all[i] = &guest{master: clusterMaster{Task: spec.Task{Job: "m"}, owner: fmt.Sprint(i % 2)}, tasks: 1}
	}
	if _, err := g.Lend(t.Context(), &wire.LendRequest{Cluster: maxGuests + 1, Spec: "m=h:1;w=" + node.Address(), Task: spec.TaskName("w", 0), Master: spec.TaskName("m", 0), Boot: 1}); status.CodeOf(err) != status.ResourceExhausted {
		t.Errorf("one guest too many: %v", err)
	}
	for _, c := range []struct {
		owner string
		tasks []int
		next  int
		want  bool
	}{
		{"a", nil, maxDeclaredTasks, true},
		{"a", []int{256, 256}, 1, false},
		{"b", []int{256, 256}, 256, true},
		{"a", make([]int, maxGuests/2), 1, false},
		{"b", make([]int, maxGuests/2), 1, true},
		{"b", make([]int, maxGuests), 1, false},
	} {
		u := newDeclaredUse(c.owner)
		u.eachTasks, u.allTasks = 2*maxDeclaredTasks, 4*maxDeclaredTasks
		for _, n := range c.tasks {
			u.add("a", n)
		}
		if err := u.admit("t", c.next); (err == nil) != c.want || err != nil && status.CodeOf(err) != status.ResourceExhausted {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// noListening is a network on which nothing listens.
type noListening struct {
	network.Network
	t *testing.T
}

func (n noListening) ListenTCP(*net.TCPAddr) (net.Listener, error) {
	n.t.Error("a port was bound")
	return nil, errors.ErrUnsupported
}
