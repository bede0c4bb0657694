//go:build unix

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/graph/train"
	"github.com/troupe-run/troupe/internal/extent"
)

// A client that may only open sessions attacks a server on which another client trains. The training loses no step, and at most the
// attacker's share of the processors in speed.
//
// Each attack runs in a process of its own for a while; TROUPE_E2E_HOSTILE is the time of all of them together. With root and cgroups of
// version 1, the server runs in a cgroup with 2 GiB of memory.

const (
	roleHostile   = "hostile"
	hostileAttack = "TROUPE_E2E_ATTACK"  // the attack's name
	hostileTarget = "TROUPE_E2E_ADDRESS" // of the server
	hostileTime   = "TROUPE_E2E_HOSTILE"
	hostileMemory = 2 << 30
)

// hostileDuration returns how long all attacks last together.
func hostileDuration(t testing.TB) time.Duration {
	text := os.Getenv(hostileTime)
	if text == "" && extent.Check() {
		return 40 * time.Second
	} else if text == "" {
		return 15 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// training runs steps, one after another, until it is stopped.
type training struct {
	mu     sync.Mutex
	steps  int
	failed int
	err    error // the last one
	worst  time.Duration
	done   sync.WaitGroup
}

func startTraining(t *testing.T, k *task) *training {
	t.Helper()
	s := op.NewScope()
	x := op.Placeholder(s.WithName("x"), tensor.Float32)
	w := op.NewVariable(s.WithName("w"), op.Fill(s, op.Const(s, []int32{128, 64}), op.Const(s, float32(0.01))))
	loss := op.Mean(s, op.Square(s, op.MatMul(s, x, w.Read(s))), op.Const(s, []int32{0, 1}))
	step := train.Minimize(s, train.NewSGD(0.01), loss)
	initialize := op.Initialize(s)
	g, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	session, err := clientOf(t, k).NewSession(ctx, g, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.Run(ctx, nil, nil, []string{initialize.Name()}); err != nil {
		t.Fatal(err)
	}
	batch, err := tensor.Zeros(tensor.Host, tensor.Float32, tensor.Shape{64, 128})
	if err != nil {
		t.Fatal(err)
	}
	tr := &training{}
	tr.done.Go(func() {
		defer batch.Release()
		for ctx.Err() == nil {
			began := time.Now()
			_, err := session.Run(ctx, map[string]*tensor.Tensor{x.Name(): batch}, nil, []string{step.Name()})
			tr.mu.Lock()
			if err != nil && ctx.Err() == nil {
				tr.failed++
				tr.err = err
			}
			tr.steps++
			tr.worst = max(tr.worst, time.Since(began))
			tr.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		end()
		tr.done.Wait()
	})
	return tr
}

// pace is the speed of the training during a period.
type pace struct {
	perSecond float64
	worst     time.Duration
	failed    int
	err       error
}

// during measures the training while f runs.
func (tr *training) during(f func()) pace {
	tr.mu.Lock()
	steps, failed, began := tr.steps, tr.failed, time.Now()
	tr.worst = 0
	tr.mu.Unlock()
	f()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return pace{float64(tr.steps-steps) / time.Since(began).Seconds(), tr.worst, tr.failed - failed, tr.err}
}

// memoryCgroup makes a cgroup with hostileMemory. It returns "" if that is not possible.
func memoryCgroup(t *testing.T) (dir string) {
	t.Helper()
	dir = fmt.Sprintf("/sys/fs/cgroup/memory/troupe-e2e-%d", os.Getpid())
	if os.Mkdir(dir, 0o755) != nil {
		return ""
	}
	t.Cleanup(func() {
		eventually(t, 10*time.Second, "the cgroup is empty", func() error { return os.Remove(dir) })
	})
	if os.WriteFile(filepath.Join(dir, "memory.limit_in_bytes"), []byte(strconv.Itoa(hostileMemory)), 0o644) != nil {
		return ""
	}
	return dir
}

func TestHostileClients(t *testing.T) {
	t.Parallel()
	withoutRace(t)
	cgroup := memoryCgroup(t) // removed after the server has ended
	c := newCluster(t, "worker=2", "--process-memory", "1500MiB", "--lease", "2s")
	k := c.task("worker", 0)
	confined := cgroup != "" && os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), []byte(strconv.Itoa(k.proc.cmd.Process.Pid)), 0o644) == nil
	tr := startTraining(t, k)
	each := hostileDuration(t) / time.Duration(len(hostileAttacks))
	measured := os.Getenv(hostileTime) != "" // beside other tests, the speed is meaningless
	quiet := func() { attackWith(t, "nothing", k.addr, min(each, 3*time.Second)) }
	quiet()
	alone := tr.during(quiet)
	var table strings.Builder
	fmt.Fprintf(&table, "| attack (%v each, memory limited: %v) | steps a second | of those alone | slowest step | failed | attempts |\n| --- | --- | --- | --- | --- | --- |\n", each.Round(time.Second), confined)
	for _, name := range hostileNames() {
		if only := os.Getenv(hostileAttack); only != "" && !strings.Contains(only, name) {
			continue
		}
		var attempts string
		p := tr.during(func() { attempts = attackWith(t, name, k.addr, each) })
		part := p.perSecond / alone.perSecond
		fmt.Fprintf(&table, "| %s | %.0f | %.2f | %v | %d | %s |\n", name, p.perSecond, part, p.worst.Round(time.Millisecond), p.failed, attempts)
		if p.failed > 0 && measured {
			t.Errorf("%s: %d steps of the training failed: %v", name, p.failed, p.err)
		}
		// Three processes share the processors: the attacker, the server, and the training.
		if measured && part < 0.25 && p.worst > time.Second {
			t.Errorf("%s: the training has %.2f of its speed", name, part)
		}
		select {
		case <-k.proc.done:
			t.Fatalf("%s: the server has ended: %v", name, k.proc.err)
		default:
		}
	}
	after := tr.during(quiet)
	fmt.Fprintf(&table, "| (after all) | %.0f | %.2f | %v | %d | |\n", after.perSecond, after.perSecond/alone.perSecond, after.worst.Round(time.Millisecond), after.failed)
	t.Logf("\n%s", &table)
	if after.failed > 0 || after.perSecond < alone.perSecond/10 || measured && after.perSecond < alone.perSecond/2 {
		t.Errorf("after all attacks the training has %.2f of its speed", after.perSecond/alone.perSecond)
	}
}

// attackWith runs an attacking process for a while, and returns its number of attempts.
func attackWith(t *testing.T, name, address string, d time.Duration) (attempts string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d+extent.Slack(20*time.Second))
	defer cancel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), roleVariable+"="+roleHostile, hostileAttack+"="+name, hostileTarget+"="+address, hostileTime+"="+d.String(), "GOMEMLIMIT=1GiB")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		attempts = lines.Text()
	}
	if err := cmd.Wait(); err != nil && ctx.Err() != nil {
		t.Errorf("%s: the attacker did not end: %v %s", name, err, &said)
	}
	return attempts
}
