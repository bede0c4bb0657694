package troupe

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// seeded returns a cluster of one ps, which runs, and of workers that do not run.
func seeded(t *testing.T, workers int) (ps *Server, cluster ClusterSpec) {
	t.Helper()
	addresses := spectest.Addresses(t, 1+workers)
	cluster = ClusterSpec{"ps": addresses[:1], "worker": addresses[1:]}
	ps, err := NewServer(t.Context(), cluster, WithJob("ps"), silent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, ps) })
	return ps, cluster
}

func join(t *testing.T, seed string, opts ...Option) *Server {
	t.Helper()
	s, err := JoinCluster(t.Context(), []string{seed}, append([]Option{WithJob("worker"), silent}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

// If many processes join at the same moment, each task gets exactly one. The errors of the others name the processes
// that have the tasks.
func TestManyJoinAtOnce(t *testing.T) {
	if extent.RaceDetector {
		t.Skip("several servers bind ports in one process: see parallel. e2e joins with processes.")
	}
	t.Parallel()
	const tasks, joiners = 4, 12
	ps, cluster := seeded(t, tasks)
	var joining sync.WaitGroup
	servers, errs := make([]*Server, joiners), make([]error, joiners)
	for i := range joiners {
		joining.Go(func() {
			servers[i], errs[i] = JoinCluster(t.Context(), []string{ps.Address()}, WithJob("worker"), silent)
		})
	}
	joining.Wait()
	var got []string
	for i, s := range servers {
		if s == nil {
			if status.CodeOf(errs[i]) != status.ResourceExhausted {
				t.Errorf("joiner %d: %v: %v", i, status.CodeOf(errs[i]), errs[i])
				continue
			}
			for k := range tasks {
				if part := fmt.Sprintf("/job:worker/replica:0/task:%d (%s): ", k, cluster["worker"][k]); !strings.Contains(errs[i].Error(), part) {
					t.Errorf("joiner %d is not told of task %d: %v", i, k, errs[i])
				}
			}
			continue
		}
		defer stop(t, s)
		got = append(got, s.Task()+" "+s.Address())
	}
	slices.Sort(got)
	var want []string
	for k := range tasks {
		want = append(want, fmt.Sprintf("/job:worker/replica:0/task:%d %s", k, cluster["worker"][k]))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("the tasks are\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	all, err := Discover(t.Context(), got[0][strings.Index(got[0], " ")+1:])
	if err != nil || len(all) != 1+tasks || all[1].Target() != "grpc://"+cluster["worker"][0] {
		t.Errorf("%+v, %v", all, err)
	}
}

// A task that has ended is free again. The error for a taken task says which process has it and since when.
func TestFreedTaskIsClaimed(t *testing.T) {
	parallel(t)
	ps, cluster := seeded(t, 2)
	first, second := join(t, ps.Target()), join(t, ps.Address())
	if first.Task() != "/job:worker/replica:0/task:0" || second.Task() != "/job:worker/replica:0/task:1" {
		t.Errorf("%s and %s joined", first.Task(), second.Task())
	}
	for _, opts := range [][]Option{{}, {WithTask(0)}, {WithTask(1)}} {
		_, err := JoinCluster(t.Context(), []string{second.Address()}, append(opts, WithJob("worker"), silent)...)
		if status.CodeOf(err) != status.ResourceExhausted || !strings.Contains(err.Error(), ": it is taken by /job:worker/replica:0/task:") || !strings.Contains(err.Error(), ", since 2") {
			t.Errorf("%v", err)
		}
	}
	stop(t, first)
	third := join(t, second.Target())
	if third.Task() != first.Task() || third.Address() != cluster["worker"][0] {
		t.Errorf("%s joined at %s", third.Task(), third.Address())
	}
	session, err := third.NewSession(t.Context(), accumulator(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.Run(t.Context(), nil, nil, []string{"init"}); err != nil {
		t.Error(err)
	}
}

func TestJoinsThatAreRefused(t *testing.T) {
	parallel(t)
	ps, _ := seeded(t, 1)
	dead := spectest.Address(t)
	for _, c := range []struct {
		seeds []string
		opts  []Option
		code  status.Code
		want  []string
	}{
		{nil, nil, status.InvalidArgument, []string{"No seed is given"}},
		{[]string{"nowhere"}, nil, status.InvalidArgument, []string{`"grpc://nowhere" is not a target`}},
		{[]string{ps.Address()}, nil, status.InvalidArgument, []string{"Must specify an explicit `job_name`: the cluster has the jobs ps, worker"}},
		{[]string{ps.Address()}, []Option{WithJob("chief")}, status.Internal, []string{`Job "chief" was not defined in cluster`}},
		{[]string{ps.Address()}, []Option{WithJob("worker"), WithTask(7)}, status.Internal, []string{`Task 7 was not defined in job "worker", which has task 0 only`}},
		{[]string{ps.Address()}, []Option{WithJob("worker"), WithStart(false)}, status.InvalidArgument, []string{"WithStart does not apply"}},
		{[]string{dead, "grpc://127.0.0.1:1"}, []Option{WithJob("worker")}, status.Unavailable,
			[]string{"None of 2 servers answers", "grpc://" + dead + ": ", "grpc://127.0.0.1:1: ", "connection refused"}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), extent.Slack(10*time.Second))
		s, err := JoinCluster(ctx, c.seeds, append(c.opts, silent)...)
		cancel()
		if err == nil {
			stop(t, s)
		}
		if status.CodeOf(err) != c.code {
			t.Errorf("%v: %v: %v", c.seeds, status.CodeOf(err), err)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v: %q is not in %v", c.seeds, part, err)
			}
		}
	}
}

// A process cannot claim a task whose address is on another machine.
func TestTasksOfOtherMachines(t *testing.T) {
	parallel(t)
	addresses := spectest.Addresses(t, 2)
	cluster := ClusterSpec{"ps": addresses[:1], "worker": {"192.0.2.1:2222", "no.such.host.invalid:2222", addresses[1]}}
	ps, err := NewServer(t.Context(), cluster, WithJob("ps"), silent)
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, ps)
	if s := join(t, ps.Address()); s.Task() != "/job:worker/replica:0/task:2" {
		t.Errorf("%s joined", s.Task())
	}
	_, err = JoinCluster(t.Context(), []string{ps.Address()}, WithJob("worker"), silent)
	for _, part := range []string{"(192.0.2.1:2222): 192.0.2.1 is not this machine (the task is never seen, since ", "the address of no.such.host.invalid is not known here", "it is taken by"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
}

// forward forwards connections from one address to another until the test ends.
func forward(t *testing.T, from, to string) {
	t.Helper()
	l, err := net.Listen("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		work.Wait()
	})
	work.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer in.Close()
				out, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer out.Close()
				defer context.AfterFunc(ctx, func() { in.Close(); out.Close() })()
				work.Go(func() { io.Copy(out, in); out.Close() })
				io.Copy(in, out)
			})
		}
	})
}

// With forwarded ports, a process claims the task whose address leads to it. It claims no task if no address does.
func TestBoundElsewhere(t *testing.T) {
	parallel(t)
	ps, cluster := seeded(t, 2)
	inside := spectest.Addresses(t, 2)
	forward(t, cluster["worker"][1], inside[0])
	s := join(t, ps.Address(), WithBind(inside[0]))
	if s.Task() != "/job:worker/replica:0/task:1" || s.Address() != cluster["worker"][1] {
		t.Errorf("%s joined at %s", s.Task(), s.Address())
	}
	_, err := JoinCluster(t.Context(), []string{ps.Address()}, WithJob("worker"), WithBind(inside[1]), silent)
	if status.CodeOf(err) != status.ResourceExhausted || !strings.Contains(err.Error(), "does not find it at that address") || !strings.Contains(err.Error(), "it is taken by "+s.Task()) {
		t.Errorf("%v", err)
	}
}

func TestClientOfManyTargets(t *testing.T) {
	ps, _ := seeded(t, 1)
	c, err := client.Dial(t.Context(), strings.Join([]string{"grpc://127.0.0.1:1", ps.Target(), "grpc://" + spectest.Address(t)}, ","))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if c.Target() != ps.Target() {
		t.Errorf("%s answered", c.Target())
	}
	if _, err := client.Dial(t.Context(), "grpc://127.0.0.1:1, grpc://127.0.0.1:2"); status.CodeOf(err) != status.Unavailable ||
		!strings.Contains(err.Error(), "\n  grpc://127.0.0.1:1: ") || !strings.Contains(err.Error(), "\n  grpc://127.0.0.1:2: ") {
		t.Errorf("%v", err)
	}
	if _, err := client.Dial(t.Context(), ps.Target()+",nowhere"); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("%v", err)
	}
}

// Clients give up on a server that accepts connections and does not answer, in bounded time.
func TestFrozenSeed(t *testing.T) {
	parallel(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := Discover(ctx, l.Addr().String()); status.CodeOf(err) != status.DeadlineExceeded && status.CodeOf(err) != status.Unavailable {
		t.Errorf("%v: %v", status.CodeOf(err), err)
	}
	ps, _ := seeded(t, 1)
	if all, err := Discover(t.Context(), l.Addr().String(), ps.Address()); err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
}
