//go:build unix

package e2e

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"google.golang.org/protobuf/proto"
)

// inFlight returns how many steps wait at once in the tests below.
func inFlight() int {
	if !extent.Check() {
		return 2000
	}
	return 10_000
}

// waitingSteps returns the graph of steps that wait for an element of a queue on a device: take dequeues it, begun is how many steps have
// begun so far, give enqueues the elements of x.
func waitingSteps(device string) []*nodepb.NodeDef {
	typed := func(name, op string, inputs ...string) *nodepb.NodeDef {
		return with(node(name, op, 0, inputs...), "dtype", dtypeAttr(float))
	}
	nodes := variableOf("begun", device, 1)
	nodes[2].Attr["value"].GetTensor().FloatVal[0] = 0
	one := constant("up_by", float, floats([]int64{1}, 1))
	take := dequeueNode("take", "queue")
	take.Input = append(take.Input, "^up")
	give := node("give", "QueueEnqueueManyV2", 0, "queue", "x")
	give.Attr["Tcomponents"] = take.Attr["component_types"]
	queue := with(with(queueNode("queue"), "capacity", number(-1)), "shared_name", text("queue"))
	for _, n := range []*nodepb.NodeDef{one, typed("up", "AssignAddVariableOp", "begun", "up_by"), queue, take, give, placeholder("x", device, float)} {
		nodes = append(nodes, on(n, device))
	}
	return nodes
}

// stepsBytes bounds the memory of a waiting step on its master, and on another task that it waits on.
const stepsBytes = 24 << 10

// heapGarbage is how much garbage a server's heap may hold before it is collected (headroom in internal/command/daemon), however few steps wait.
const heapGarbage = 16 << 20

// TestManyStepsInFlight has ten thousand steps of a session wait for elements of a queue, over a few connections. Each gets one element,
// and the memory that they took is returned.
func TestManyStepsInFlight(t *testing.T) {
	t.Parallel()
	withoutRace(t)
	const connections = 4
	n := inFlight()
	for _, row := range []struct{ name, device string }{{"on one task", "/job:worker"}, {"on two tasks", "/job:ps"}} {
		t.Run(row.name, func(t *testing.T) {
			c := newCluster(t, "ps=1,worker=1")
			k, ctx := c.task("worker", 0), patient(t)
			s := openSession(t, clientOf(t, k), graphOf(waitingSteps(row.device)...))
			if _, err := s.Run(ctx, nil, nil, []string{"begun_set"}); err != nil {
				t.Fatal(err)
			}
			masters := make([]*master, connections)
			for i := range masters {
				masters[i] = masterOf(t, k)
			}
			wave := func(n int, waiting func()) {
				t.Helper()
				before := begun(ctx, t, s)
				got, errs := make([]int, n), make([]error, n)
				var steps sync.WaitGroup
				for i := range n {
					steps.Go(func() {
						out, err := masters[i%connections].step(ctx, s.Handle(), nil, "take:0")
						if err == nil {
							got[i], err = wholeOf(out)
						}
						errs[i] = err
					})
				}
				eventually(t, limitTime, "all steps wait", func() error {
					if b := begun(ctx, t, s); b != before+n {
						return fmt.Errorf("%d of %d have begun", b-before, n)
					}
					return nil
				})
				waiting()
				released := time.Now()
				give(ctx, t, s, n)
				steps.Wait()
				t.Logf("%d steps were answered in %v", n, time.Since(released))
				if err := errors.Join(errs...); err != nil {
					t.Fatal(err)
				}
				eachOnce(t, got)
			}
			memory := func() (sum float64) {
				for _, k := range c.tasks {
					sum += k.proc.residentMiB(t)
				}
				return sum
			}
			wave(n/10, func() {}) // the first steps fill pools and load code
			before := map[*task]float64{}
			settle(t, memory)
			for _, k := range c.tasks {
				before[k] = k.proc.residentMiB(t)
			}
			wave(n, func() {
				for _, k := range c.tasks {
					each := max(0, (k.proc.residentMiB(t)-before[k])*mebibyte-heapGarbage) / float64(n)
					t.Logf("%s: %.0f bytes for each of %d waiting steps", k.name(), each, n)
					if each > stepsBytes {
						t.Errorf("%s: a waiting step takes %.0f bytes, more than %d", k.name(), each, stepsBytes)
					}
				}
			})
			for _, k := range c.tasks {
				eventually(t, 30*time.Second, "the memory comes back", func() error {
					if now := k.proc.residentMiB(t); now > before[k]*1.2+8 {
						return fmt.Errorf("%s: %.1f MiB, %.1f MiB before", k.name(), now, before[k])
					}
					return nil
				})
				t.Logf("%s: %.1f MiB before, %.1f MiB afterwards", k.name(), before[k], k.proc.residentMiB(t))
			}
		})
	}
}

// wholeOf returns the single number that a step fetched.
func wholeOf(out []*tensorpb.TensorProto) (int, error) {
	if len(out) != 1 {
		return 0, fmt.Errorf("%d tensors came", len(out))
	}
	v, err := tensor.FromTensorProto(out[0], tensor.Host)
	if err != nil {
		return 0, err
	}
	defer v.Release()
	if v.DType() != tensor.Float32 || v.Len() != 1 {
		return 0, fmt.Errorf("a tensor of %v%v came", v.DType(), v.Shape())
	}
	return int(tensor.Of[float32](v)[0]), nil
}

// runner is a session of a client, or of a server in this process.
type runner interface {
	Run(ctx context.Context, feeds map[string]*tensor.Tensor, fetches, targets []string) ([]*tensor.Tensor, error)
}

// begun returns how many steps of waitingSteps have begun.
func begun(ctx context.Context, t testing.TB, s runner) int {
	t.Helper()
	out, err := s.Run(ctx, nil, []string{"begun_read:0"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer out[0].Release()
	return int(tensor.Of[float32](out[0])[0])
}

// give unblocks n waiting steps with the numbers from 0 on.
func give(ctx context.Context, t testing.TB, s runner, n int) {
	t.Helper()
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i)
	}
	x, err := tensor.FromSlice(tensor.Float32, tensor.Shape{int64(n)}, values)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Release()
	if _, err := s.Run(ctx, map[string]*tensor.Tensor{"x:0": x}, nil, []string{"give"}); err != nil {
		t.Fatal(err)
	}
}

// eachOnce checks that every number from 0 on occurs once.
func eachOnce(t testing.TB, got []int) {
	t.Helper()
	seen := make([]bool, len(got))
	for _, v := range got {
		if v < 0 || v >= len(got) || seen[v] {
			t.Fatalf("%d came twice, or was never sent", v)
		}
		seen[v] = true
	}
}

// goroutinesEach bounds the goroutines that a step keeps while it waits.
const goroutinesEach = 2

// TestGoroutinesOfStepsInFlight checks that a waiting step keeps few goroutines, and none when it has ended. Here the servers run in this
// process, and so does the client, which takes one goroutine for each step.
func TestGoroutinesOfStepsInFlight(t *testing.T) {
	n := inFlight()
	if extent.RaceDetector {
		n = 1000 // the detector supports 8,128 goroutines
	}
	for _, row := range []struct{ name, device string }{{"on one task", "/job:task/task:0"}, {"on two tasks", "/job:task/task:1"}} {
		t.Run(row.name, func(t *testing.T) {
			e := embed(t, "task", 2)
			ctx := patient(t)
			s, err := e.servers[0].NewSession(ctx, graphOf(waitingSteps(row.device)...), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Run(ctx, nil, nil, []string{"begun_set"}); err != nil {
				t.Fatal(err)
			}
			m, err := dial(e.servers[0].Address())
			if err != nil {
				t.Fatal(err)
			}
			handle, err := m.createSession(ctx, graphOf(waitingSteps(row.device)...))
			if err != nil {
				t.Fatal(err)
			}
			r := rawDial(t, e.servers[0].Address(), 1<<20, 0)
			wave := func(n int) (with int) {
				t.Helper()
				before := begun(ctx, t, s)
				for range n {
					if _, err := r.call("RunStep", &corepb.RunStepRequest{SessionHandle: handle, Fetch: []string{"take:0"}}); err != nil {
						t.Fatal(err)
					}
				}
				eventually(t, limitTime, "all steps wait", func() error {
					if b := begun(ctx, t, s); b != before+n {
						return fmt.Errorf("%d of %d have begun", b-before, n)
					}
					return nil
				})
				with = runtime.NumGoroutine()
				give(ctx, t, s, n)
				var got []int
				err := r.answers(n, extent.Slack(limitTime), func(message []byte) error {
					a := &corepb.RunStepResponse{}
					if err := proto.Unmarshal(message, a); err != nil {
						return err
					}
					if a.StatusCode != 0 || len(a.Tensor) != 1 {
						return fmt.Errorf("a step gave %v: %s", a.StatusCode, a.StatusErrorMessage)
					}
					v, err := wholeOf([]*tensorpb.TensorProto{a.Tensor[0].Tensor})
					got = append(got, v)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				eachOnce(t, got)
				return with
			}
			wave(100)
			before := runtime.NumGoroutine()
			with := wave(n)
			each := float64(with-before) / float64(n)
			t.Logf("%d goroutines before, %d with %d steps: %.2f for each", before, with, n, each)
			if each > goroutinesEach {
				t.Errorf("a waiting step keeps %.2f goroutines, more than %d", each, goroutinesEach)
			}
			eventually(t, 20*time.Second, "the goroutines end", func() error {
				if now := runtime.NumGoroutine(); now > before+20 {
					return fmt.Errorf("%d goroutines, %d before", now, before)
				}
				return nil
			})
			m.close()
		})
	}
}
