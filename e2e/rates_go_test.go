//go:build unix

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/tensor"
)

// timesInPython runs steps with TensorFlow's client. Each line that it reads names a step and how many times to run it. Each line that it
// prints is the first quartile of the times, in nanoseconds.
const timesInPython = `
import os, sys, time
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
with tf.device("/cpu:0"):
    nothing = tf.no_op()
    x = tf.placeholder(tf.float32, [])
    total = x + x
far, here = tf.Session(sys.argv[1]), tf.Session()
steps = {"no_op": lambda: far.run(nothing), "fed_add": lambda: far.run(total, {x: 1.0}),
         "no_op in the process": lambda: here.run(nothing), "fed_add in the process": lambda: here.run(total, {x: 1.0})}
for step in steps.values():
    step()
print("TIME 0", flush=True)
for line in sys.stdin:
    name, times = line.rsplit(None, 1)
    step, took = steps[name], []
    for _ in range(int(times)):
        begun = time.perf_counter_ns()
        step()
        took.append(time.perf_counter_ns() - begun)
    print("TIME", sorted(took)[len(took) // 4], flush=True)
os._exit(0)
`

// pythonTimes is a Python process that measures: it answers each line that it reads with TIME and nanoseconds.
type pythonTimes struct {
	t     *testing.T
	proc  *process
	stdin io.Writer
	lines *bufio.Scanner
}

// runPython starts such a program, which prints TIME 0 when it is ready.
func runPython(t *testing.T, program string, args ...string) *pythonTimes {
	t.Helper()
	cmd := exec.Command(needPython(t), append([]string{"-c", program}, args...)...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	cmd.Stdout = w
	cmd.Env = append(os.Environ(), "TF_CPP_MIN_LOG_LEVEL=2")
	p, err := launch("TensorFlow's client", cmd)
	if err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the process
		<-p.done
		_ = w.Close()
	}()
	t.Cleanup(p.kill)
	py := &pythonTimes{t, p, stdin, bufio.NewScanner(r)}
	py.next()
	return py
}

// ask sends a line and returns the time that the program answers with.
func (p *pythonTimes) ask(line ...any) time.Duration {
	if _, err := fmt.Fprintln(p.stdin, line...); err != nil {
		p.t.Fatal(err)
	}
	return p.next()
}

func (p *pythonTimes) next() time.Duration {
	for p.lines.Scan() {
		if text, ok := strings.CutPrefix(p.lines.Text(), "TIME "); ok {
			ns, err := strconv.Atoi(text)
			if err != nil {
				p.t.Fatal(err)
			}
			return time.Duration(ns)
		}
	}
	p.t.Fatalf("TensorFlow's client ended\n%s", p.proc.log.tail())
	return 0
}

// TestGoClientRates measures small steps from Go and the same steps from Python, in turn and in the same run, and prints a table. It
// demands less than docs/latency.md states, since the machine may be busy with something else.
func TestGoClientRates(t *testing.T) {
	measures(t)
	c := newCluster(t, "worker=1")
	python := runPython(t, timesInPython, c.tasks[0].target())

	s := op.NewScope()
	nothing := op.NoOp(s.WithName("nothing"))
	x := op.Placeholder(s.WithName("x"), tensor.Float32, attr.Shape(shape.Of()))
	sum := op.AddV2(s.WithName("sum"), x, x)
	def, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	one := tensor.FromScalar(float32(1))
	defer one.Release()
	ctx := patient(t)
	steps := map[string]func() error{}
	for where, m := range map[string]troupe.Master{"": dialTarget(t, c.tasks[0].target()), " in the process": embed(t, "worker", 1).servers[0]} {
		session, err := m.NewSession(ctx, def, nil)
		if err != nil {
			t.Fatal(err)
		}
		add, err := session.Prepare(ctx, []op.Output{x}, sum)
		if err != nil {
			t.Fatal(err)
		}
		none, err := session.Prepare(ctx, nil, nothing)
		if err != nil {
			t.Fatal(err)
		}
		feeds, feed, out := map[string]*tensor.Tensor{x.Name(): one}, []*tensor.Tensor{one}, make([]*tensor.Tensor, 1)
		steps["no_op"+where] = func() error { _, err := session.Run(ctx, nil, nil, []string{"nothing"}); return err }
		steps["no_op"+where+" as a callable"] = func() error { return none.RunInto(ctx, nil, nil) }
		steps["fed_add"+where] = func() error {
			fetched, err := session.Run(ctx, feeds, []string{"sum:0"}, nil)
			if err == nil {
				fetched[0].Release()
			}
			return err
		}
		steps["fed_add"+where+" as a callable"] = func() error {
			err := add.RunInto(ctx, out, feed)
			if err == nil {
				out[0].Release()
			}
			return err
		}
	}
	const rounds, times = 5, 400
	took := map[string][]time.Duration{}
	for range rounds {
		for name, step := range steps {
			base := strings.TrimSuffix(name, " as a callable")
			took["Python "+name] = append(took["Python "+name], python.ask(base, times))
			took[name] = append(took[name], quarter(t, step, times))
		}
	}
	t.Log("| step | Python | Go | ratio |")
	t.Log("| --- | --- | --- | --- |")
	for _, row := range []struct {
		name   string
		demand float64
	}{{"no_op", 2}, {"fed_add", 2}, {"no_op in the process", 5}, {"fed_add in the process", 5}} {
		for _, name := range []string{row.name, row.name + " as a callable"} {
			python, own := median(took["Python "+name]), median(took[name])
			ratio := float64(python) / float64(own)
			t.Logf("| %s | %v | %v | %.1f |", name, python.Round(100*time.Nanosecond), own.Round(100*time.Nanosecond), ratio)
			if ratio < row.demand {
				t.Errorf("%s: %v from Go and %v from Python: less than %v times", name, own, python, row.demand)
			}
		}
	}
}

// quarter returns the first quartile of the times of that many runs.
func quarter(t *testing.T, step func() error, times int) time.Duration {
	t.Helper()
	took := make([]time.Duration, times)
	for i := range took {
		begun := time.Now()
		if err := step(); err != nil {
			t.Fatal(err)
		}
		took[i] = time.Since(begun)
	}
	slices.Sort(took)
	return took[times/4]
}
