package troupe

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/network/simnet"
	"github.com/troupe-run/troupe/remote/client"
)

// ownNames are the ways in which programs write the address of their own machine, with the setup that makes each of
// them work.
var ownNames = []struct {
	name  string
	host  string // in the task's own cluster spec
	world func(n *simnet.Net, h *simnet.Host)
	// insecure is needed if the host is not an address of the machine that others can reach: without it the start warns or fails.
	insecure bool
	single   bool // only one machine can have it
}{
	{"localhost", "localhost", nil, true, false},
	{"the loopback address", "127.0.0.1", nil, true, false},
	{"all interfaces", "0.0.0.0", nil, false, false},
	{"a name of its own", "here", func(_ *simnet.Net, h *simnet.Host) { h.Name("here", h.IP()) }, false, false},
	{"the name that Ubuntu gives", "vm", func(_ *simnet.Net, h *simnet.Host) { h.Name("vm", "127.0.0.1") }, true, false},
	{"a Service of Kubernetes", "service", func(n *simnet.Net, h *simnet.Host) {
		h.Name("service", "10.96.0.1")
		n.Host("10.96.0.1").Forward(2222, h)
	}, true, true},
	{"a machine that forwards its port", "192.0.2.7", func(n *simnet.Net, h *simnet.Host) { n.Host("192.0.2.7").Forward(2222, h) }, true, true},
	{"a name that is known elsewhere", "elsewhere", nil, true, false},
}

// Each task names its own machine in its own way, and the others by their addresses.
func TestOwnNames(t *testing.T) {
	addresses := []string{"10.0.0.1:2222", "10.0.0.2:2222", "10.0.0.3:2222"}
	for _, c := range ownNames {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := &simulation{net: simnet.New(1), cluster: ClusterSpec{"w": addresses}}
				sim.specs = func(task int) SparseClusterSpec {
					jobs := map[int]string{}
					for i, address := range addresses {
						jobs[i] = address
					}
					if task == 0 || task == 2 && !c.single { // task 1 writes all addresses as the others do
						jobs[task] = net.JoinHostPort(c.host, "2222")
					}
					return SparseClusterSpec{"w": jobs}
				}
				sim.options = func(task int) []Option {
					if c.world != nil && (task == 0 || task == 2 && !c.single) {
						c.world(sim.net, sim.host(task))
					}
					return []Option{WithInsecure(c.insecure), counters}
				}
				converse(t, sim.startAll(t), addresses)
			})
		})
	}
}

// converse has each task of the job w see all others, at the addresses, run a step with each, and talk to actors on each.
func converse(t *testing.T, all []*Server, addresses []string) {
	t.Helper()
	pass(time.Minute)
	for i, s := range all {
		for j, k := range s.Status() {
			if k.State != "up" || len(k.Devices) != 1 || k.Address != addresses[j] {
				t.Errorf("task %d sees %+v", i, k)
			}
		}
	}
	for i, s := range all {
		for j, other := range all {
			name := fmt.Sprintf("v%d%d", i, j)
			tallyOn(t, s, other.Task(), name, nil).begin().is(1)
			tallyOn(t, all[(i+1)%len(all)], other.Task(), name, nil).is(2)
			ref, err := s.Spawn(deadline(t), "counter", ActorAt(other.Task(), name), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := sum(t, all[(i+2)%len(all)], ref); got != 0 {
				t.Errorf("the sum is %d", got)
			}
		}
	}
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

// A server without certificates or a secret binds all interfaces only if an option says so: its error or its log names the option.
func TestUnsafeBindings(t *testing.T) {
	for _, c := range ownNames {
		if !c.insecure {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			t.Cleanup(func() { pass(time.Minute) })
			n := simnet.New(1)
			h := n.Host("10.0.0.1")
			n.Host("10.0.0.2")
			if c.world != nil {
				c.world(n, h)
			}
			log := &lines{}
			start := func(opts ...Option) error {
				process := h.Process()
				s, err := NewServer(t.Context(), ClusterSpec{"w": {net.JoinHostPort(c.host, "2222"), "10.0.0.2:2222"}}, append(opts, WithTask(0),
					WithStart(false), WithLogger(slog.New(slog.NewTextHandler(log, nil))), onNetwork(process))...)
				if err != nil {
					return err
				}
				return s.Stop(context.Background())
			}
			err := start()
			text := log.String()
			if err != nil {
				text = err.Error()
				if code := status.CodeOf(err); code != status.Unknown && code != status.InvalidArgument {
					t.Errorf("%s: %v", c.name, err)
				}
			}
			text = strings.ReplaceAll(text, `\"`, `"`)
			for _, part := range []string{c.host, `--bind 0.0.0.0:2222 (in Go, WithBind("0.0.0.0:2222"); in Python, flags=["--bind=0.0.0.0:2222"])`} {
				if !strings.Contains(text, part) {
					t.Errorf("%s: %q is not in %s", c.name, part, text)
				}
			}
			if err := start(WithBind("0.0.0.0:2222")); err != nil {
				t.Errorf("%s: what the error says is refused: %v", c.name, err)
			}
		})
	}
}

// A task may declare only the part of the cluster that it needs. It sees that part, the tasks that declare it see it, and it runs its part
// of steps together with tasks that it does not declare.
func TestSparseSpecs(t *testing.T) {
	whole := ClusterSpec{"chief": {"10.0.0.1:2222"}, "ps": {"10.0.0.2:2222"}, "worker": {"10.0.0.3:2222", "10.0.0.4:2222"}}
	for name, own := range map[string]string{"addresses": "", "own names": "0.0.0.0:2222"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := &simulation{cluster: whole}
				sim.specs = func(task int) SparseClusterSpec {
					s := SparseClusterSpec{"ps": {0: whole["ps"][0]}}
					switch task {
					case 0: // the chief
						s["chief"] = map[int]string{0: cmp.Or(own, whole["chief"][0])}
						fallthrough
					case 1: // the parameter server
						s["worker"] = map[int]string{0: whole["worker"][0], 1: whole["worker"][1]}
						if task == 1 {
							s["chief"] = map[int]string{0: whole["chief"][0]}
						}
					default:
						s["worker"] = map[int]string{task - 2: cmp.Or(own, whole["worker"][task-2])}
					}
					return s
				}
				all := sim.startAll(t)
				pass(time.Minute)
				for i, want := range []int{4, 4, 2, 2} {
					got := all[i].Status()
					if len(got) != want {
						t.Errorf("%s sees %d tasks", all[i].Task(), len(got))
					}
					for _, k := range got {
						if k.State != "up" {
							t.Errorf("%s sees %+v", all[i].Task(), k)
						}
					}
				}
				chief, ps, w0, w1 := all[0], all[1], all[2], all[3]
				for _, master := range []*Server{chief, ps} { // a value goes from each to each
					for _, from := range all {
						for _, to := range all {
							g := op.NewScope()
							fed := op.Placeholder(g.WithDevice(from.Task()), tensor.Float32)
							y := op.Neg(g.WithDevice(to.Task()), op.Square(g.WithDevice(from.Task()), fed))
							def, err := g.GraphDef()
							if err != nil {
								t.Fatal(err)
							}
							s, err := master.NewSession(deadline(t), def, nil)
							if err != nil {
								t.Fatal(err)
							}
							for _, size := range []int{1, 1 << 18} {
								got, err := Fetch[[]float32](deadline(t), s, Feeds{fed: make([]float32, size)}, y)
								if err != nil || len(got) != size {
									t.Fatalf("from %s to %s, for %s: %v", from.Task(), to.Task(), master.Task(), err)
								}
							}
							if err := s.Close(deadline(t)); err != nil {
								t.Error(err)
							}
						}
					}
				}
				for _, w := range []*Server{w0, w1} {
					tallyOn(t, w, ps.Task(), "shared", nil)
				}
				if _, err := w0.NewSession(deadline(t), onDevice(t, w1.Task()), nil); status.CodeOf(err) != status.InvalidArgument {
					t.Errorf("a worker places a node on a task that it does not declare: %v", err)
				}
			})
		})
	}
}

// Servers that call themselves localhost, and bind other interfaces too, can be part of a cluster that a client declares with the addresses
// at which others reach them.
func TestGuestsOfLocalhost(t *testing.T) {
	for name, own := range map[string]string{"localhost": "localhost:2222", "all interfaces": "0.0.0.0:2222"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := &simulation{cluster: ClusterSpec{"w": {"10.0.0.1:2222", "10.0.0.2:2222"}}}
				sim.specs = func(task int) SparseClusterSpec { return SparseClusterSpec{"w": {task: own}} }
				sim.options = func(int) []Option { return []Option{WithBind("0.0.0.0:2222")} }
				sim.startAll(t)
				c, err := Dial(t.Context(), "grpc://10.0.0.1:2222", client.WithDialer(sim.net.Host("10.0.1.1").Process().Dial))
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := c.Close(context.Background()); err != nil {
						t.Error(err)
					}
				}()
				declared := &corepb.ClusterDef{Job: []*corepb.JobDef{{Name: "all", Tasks: map[int32]string{0: "10.0.0.1:2222", 1: "10.0.0.2:2222"}}}}
				g, start, count := counting("/job:all/task:1", "x")
				def, err := g.GraphDef()
				if err != nil {
					t.Fatal(err)
				}
				s, err := c.NewSession(deadline(t), def, &corepb.ConfigProto{ClusterDef: declared})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Eval(deadline(t), nil, start); err != nil {
					t.Fatal(err)
				}
				if got, err := Fetch[int64](deadline(t), s, nil, count); err != nil || got != 1 {
					t.Errorf("the counter on the other server is %d, %v", got, err)
				}
				if err := s.Close(deadline(t)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func onDevice(t *testing.T, device string) *graphpb.GraphDef {
	t.Helper()
	g := op.NewScope().WithDevice(device)
	op.Const(g, float32(1))
	def, err := g.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	return def
}
