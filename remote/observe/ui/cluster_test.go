package ui_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/graph/train"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// busy is a cluster under load: a training loop, a queue that flows, one that is full, one that nobody fills, and steps that fail. It
// returns the address of its HTTP endpoint.
func busy(t testing.TB) string {
	t.Helper()
	targets, http := tasks(t)
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		working.Wait()
	})
	load := func(task string, build func(s *op.Scope) (begin, step []op.Runnable), period time.Duration, fails bool) {
		t.Helper()
		target := targets[task]
		if target == "" {
			t.Fatalf("there is no task %s: %v", task, sortedKeys(targets))
		}
		scope := op.NewScope()
		begin, step := build(scope)
		def, err := scope.GraphDef()
		if err != nil {
			t.Fatal(err)
		}
		client, err := troupe.Dial(ctx, target)
		if err != nil {
			t.Fatal(err)
		}
		session, err := client.NewSession(ctx, def, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(begin) > 0 {
			if _, err := session.Eval(ctx, nil, begin...); err != nil {
				t.Fatal(err)
			}
		}
		working.Go(func() {
			defer func() { _ = client.Close(context.Background()) }()
			next := time.NewTicker(period)
			defer next.Stop()
			for {
				select {
				case <-next.C:
				case <-ctx.Done():
					return
				}
				out, err := session.Eval(ctx, nil, step...)
				for _, v := range out {
					v.Release()
				}
				if err != nil && !fails && ctx.Err() == nil && !errors.Is(err, context.Canceled) {
					t.Errorf("a step of the load: %v", err)
					return
				}
			}
		})
	}
	const ps, first, second = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1"
	load(first, training(first), 10*time.Millisecond, false)
	load(second, training(second), 10*time.Millisecond, false)
	load(first, queue("batches", 64, true), 20*time.Millisecond, false)
	load(second, queue("batches", 64, false), 20*time.Millisecond, false)
	load(second, queue("examples", 8, true), 20*time.Millisecond, false) // nobody dequeues them
	load(ps, queue("labels", 8, false), 20*time.Millisecond, false)      // nobody enqueues any
	load(first, func(s *op.Scope) ([]op.Runnable, []op.Runnable) {
		return nil, []op.Runnable{op.Neg(s.WithName("wrong"), op.Placeholder(s.WithName("never_fed"), tensor.Float32))}
	}, time.Second, true)
	return http
}

// tasks starts a ps and two workers in this process, or for pictures as three processes, as in real clusters. It returns the targets and
// the address of an HTTP endpoint.
func tasks(t testing.TB) (targets map[string]string, http string) {
	t.Helper()
	targets = map[string]string{}
	if *pictures == "" {
		cluster, err := troupe.NewLocalCluster(t.Context(), map[string]int{"ps": 1, "worker": 2}, troupe.WithLogger(slog.New(slog.DiscardHandler)), troupe.WithHTTP("127.0.0.1:0"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := cluster.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
		for _, s := range cluster.Servers() {
			targets[s.Task()] = s.Target()
		}
		return targets, cluster.Servers()[0].HTTP()
	}
	program := filepath.Join(t.TempDir(), "troupe")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/troupe-run/troupe/cmd/troupe").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	at := spectest.Addresses(t, 4)
	for i, job := range []string{"ps", "worker", "worker"} {
		args := []string{"serve", "--cluster", fmt.Sprintf("ps=%s;worker=%s,%s", at[0], at[1], at[2]), "--job", job, "--task", strconv.Itoa(max(0, i-1)), "--log-level", "error"}
		if job == "ps" {
			args = append(args, "--http", at[3])
		}
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Wait() }) // killed with the test's context
		targets[fmt.Sprintf("/job:%s/replica:0/task:%d", job, max(0, i-1))] = "grpc://" + at[i]
	}
	for _, target := range targets { // a step needs the tasks that it uses
		if out, err := exec.CommandContext(t.Context(), program, "wait", target, "--ready", "--timeout", "30s").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return targets, "http://" + at[3]
}

// training is a network of some layers, whose variables are on the ps, and which the worker computes.
func training(worker string) func(s *op.Scope) ([]op.Runnable, []op.Runnable) {
	return func(s *op.Scope) ([]op.Runnable, []op.Runnable) {
		random := rand.New(rand.NewPCG(1, 2))
		ps := s.WithDevice("/job:ps/task:0")
		compute := s.WithDevice(worker)
		data := make([][]float32, 32)
		for i := range data {
			data[i] = make([]float32, 64)
			for j := range data[i] {
				data[i][j] = random.Float32()
			}
		}
		x := op.Const(compute.WithName("examples"), data)
		sizes := []int32{64, 128, 64, 32, 1}
		at := x
		for i := 1; i < len(sizes); i++ {
			layer := "layer" + string(rune('0'+i))
			ps, compute := ps.SubScope(layer), compute.SubScope(layer)
			w := op.NewVariable(ps.WithName("weights"), op.Mul(ps, op.TruncatedNormal(ps, op.Const(ps, []int32{sizes[i-1], sizes[i]}), tensor.Float32, attr.Seed(7)), op.Const(ps, float32(0.05))))
			b := op.NewVariable(ps.WithName("bias"), op.Const(ps, make([]float32, sizes[i])))
			at = op.Tanh(compute, op.BiasAdd(compute, op.MatMul(compute, at, w.Read(compute)), b.Read(compute)))
		}
		loss := op.Mean(compute.WithName("loss"), op.Square(compute, op.Sub(compute, at, op.Const(compute, float32(0.5)))), op.Const(compute, []int32{0, 1}))
		step := train.Minimize(compute, train.NewAdam(0.001), loss)
		return []op.Runnable{op.Initialize(s)}, []op.Runnable{step, loss}
	}
}

func handle(s *op.Scope, name string, capacity int64) op.Output {
	return op.FIFOQueueV2(s.WithDevice("/job:ps/task:0").WithName(name), []tensor.DType{tensor.Float32}, attr.Capacity(capacity), attr.SharedName(name))
}

// queue enqueues elements into a queue on the ps, or dequeues them.
func queue(name string, capacity int64, brings bool) func(s *op.Scope) ([]op.Runnable, []op.Runnable) {
	return func(s *op.Scope) ([]op.Runnable, []op.Runnable) {
		q := handle(s, name, capacity)
		if brings {
			return nil, []op.Runnable{op.QueueEnqueueV2(s.WithName("bring"), q, []op.Output{op.RandomUniform(s, op.Const(s, []int32{}), tensor.Float32)})}
		}
		return nil, []op.Runnable{op.QueueDequeueV2(s.WithName("take"), q, []tensor.DType{tensor.Float32})[0]}
	}
}
