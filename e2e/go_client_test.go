//go:build unix

package e2e

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// tensorflowServers starts a process with TensorFlow's own servers, the tasks of one job "worker", and returns their targets.
func tensorflowServers(t *testing.T, tasks int) (targets []string, p *process) {
	t.Helper()
	// The ports are chosen last, since nothing reserves them until they are bound.
	const program = `
import os, socket, sys
import tensorflow as tf
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
addresses = ["127.0.0.1:%d" % s.getsockname()[1] for s in held]
for s in held:
    s.close()
spec = tf.train.ClusterSpec({"worker": addresses})
servers = [tf.distribute.Server(spec, "worker", i) for i in range(len(addresses))]
print("TARGETS", *[s.target for s in servers], flush=True)
sys.stdin.read()
os._exit(0)
`
	cmd := exec.Command(needPython(t), "-c", program, strconv.Itoa(tasks))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "TF_CPP_MIN_LOG_LEVEL=2")
	if p, err = launch("TensorFlow's servers", cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		p.kill()
	})
	eventually(t, time.Minute, "TensorFlow's servers are up", func() error {
		if !p.running() {
			t.Fatalf("they ended: %v\n%s", p.err, p.log.tail())
		}
		for line := range strings.Lines(p.log.String()) {
			if rest, ok := strings.CutPrefix(line, "TARGETS "); ok && strings.HasSuffix(rest, "\n") {
				targets = strings.Fields(strings.ReplaceAll(rest, "localhost", "127.0.0.1"))
				return nil
			}
		}
		return fmt.Errorf("they printed\n%s", p.log.tail())
	})
	return targets, p
}

func dialTarget(t *testing.T, target string) *troupe.Client {
	t.Helper()
	c, err := troupe.Dial(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestGoProgramOnAllServers checks that a Go program prints the same with a server in its own process, with a separate Troupe server, and
// with TensorFlow's own.
func TestGoProgramOnAllServers(t *testing.T) {
	t.Parallel()
	targets, _ := tensorflowServers(t, 2)
	c := newCluster(t, "worker=2")
	masters := []struct {
		name string
		at   troupe.Master
	}{
		{"TensorFlow's server", dialTarget(t, targets[0])},
		{"a server of the process", embed(t, "worker", 2).servers[0]},
		{"Troupe's server", dialTarget(t, c.tasks[0].target())},
	}
	var want []string
	for _, m := range masters {
		p := &goProgram{t: t, ctx: patient(t), master: m.at}
		p.run()
		if want == nil {
			want = p.told
			t.Logf("%s: %s", m.name, strings.Join(want, "\n"))
			continue
		}
		for i := range max(len(want), len(p.told)) {
			if i >= len(want) || i >= len(p.told) || want[i] != p.told[i] {
				t.Errorf("%s tells\n%s\nand %s\n%s", m.name, strings.Join(p.told, "\n"), masters[0].name, strings.Join(want, "\n"))
				break
			}
		}
	}
}

// goProgram is a Go program that prints its results.
type goProgram struct {
	t       *testing.T
	ctx     context.Context
	master  troupe.Master
	session *troupe.Session
	told    []string
}

func (p *goProgram) tell(format string, args ...any) {
	p.told = append(p.told, fmt.Sprintf(format, args...))
}

func (p *goProgram) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("%s: %v", p.master.Target(), err)
	}
}

// do runs an operation.
func (p *goProgram) do(feeds troupe.Feeds, what *op.Operation) {
	p.t.Helper()
	_, err := p.session.Eval(p.ctx, feeds, what)
	p.must(err)
}

// open opens a session with the graph that was built.
func (p *goProgram) open(s *op.Scope) {
	p.t.Helper()
	def, err := s.GraphDef()
	p.must(err)
	p.session, err = p.master.NewSession(p.ctx, def, nil)
	p.must(err)
}

func (p *goProgram) run() {
	p.training()
	p.values()
	p.prepared()
	p.failures()
	p.cancelled()
	p.large()
	p.many()
	p.resets()
}

// training trains variables of the second task.
func (p *goProgram) training() {
	s := op.NewScope()
	x := op.Placeholder(s.WithName("x"), tensor.Float32, attr.Shape(shape.Of(-1, 2)))
	y := op.Placeholder(s.WithName("y"), tensor.Float32, attr.Shape(shape.Of(-1, 1)))
	far := s.WithDevice("/job:worker/task:1")
	first := op.Placeholder(s.WithName("first"), tensor.Float32, attr.Shape(shape.Of(2, 1)))
	rate := op.Placeholder(s.WithName("rate"), tensor.Float32, attr.Shape(shape.Of()))
	w := op.VariableV2(far.WithName("w"), shape.Of(2, 1), tensor.Float32)
	set := op.Assign(far.WithName("set"), w, first).Op
	off := op.Sub(s, op.MatMul(s, x, w), y)
	gradient := op.MatMul(s.WithName("gradient"), x, off, attr.TransposeA(true))
	step := op.ApplyGradientDescent(far.WithName("step"), w, rate, gradient).Op
	p.open(s)
	defer func() { p.must(p.session.Close(p.ctx)) }()

	p.do(troupe.Feeds{first: [][]float32{{0.5}, {-0.5}}}, set)
	feeds := troupe.Feeds{x: [][]float32{{1, 2}, {3, -1}, {0.5, 0.25}}, y: [][]float32{{5}, {1}, {1}}, rate: float32(0.05)}
	for range 200 {
		p.do(feeds, step)
	}
	value, err := troupe.Fetch[[][]float32](p.ctx, p.session, nil, w)
	p.must(err)
	for _, row := range value {
		p.tell("w %.3f", row[0])
	}
	r, err := p.session.RunStep(p.ctx, troupe.Step{Fetches: []string{w.Name()},
		Options: &corepb.RunOptions{TraceLevel: corepb.RunOptions_FULL_TRACE, OutputPartitionGraphs: true}})
	p.must(err)
	r.Tensors[0].Release()
	p.tell("traced %v, %d graphs", len(r.Metadata.GetStepStats().GetDevStats()) > 0, len(r.Metadata.GetPartitionGraphs()))
	devices, err := p.session.Devices(p.ctx)
	p.must(err)
	for _, d := range devices {
		if d.Type == "CPU" {
			p.tell("device %s", d.Name)
		}
	}
}

// echoed feeds a value and fetches it again.
func echoed[V any](p *goProgram, s *troupe.Session, through op.Output, fetch op.Output, value V) {
	back, err := troupe.Fetch[V](p.ctx, s, troupe.Feeds{through: value}, fetch)
	p.must(err)
	p.tell("%T %v", back, back)
}

// values feeds and fetches values of all types.
func (p *goProgram) values() {
	s := op.NewScope()
	of := func(d tensor.DType) (in, out op.Output) {
		in = op.Placeholder(s, d)
		return in, op.Identity(s, op.Identity(s, in))
	}
	floats, floats2 := of(tensor.Float32)
	doubles, doubles2 := of(tensor.Float64)
	halves, halves2 := of(tensor.Float16)
	bfloats, bfloats2 := of(tensor.BFloat16)
	ints, ints2 := of(tensor.Int32)
	longs, longs2 := of(tensor.Int64)
	bytes, bytes2 := of(tensor.Uint8)
	bools, bools2 := of(tensor.Bool)
	complexes, complexes2 := of(tensor.Complex64)
	texts, texts2 := of(tensor.String)
	p.open(s)
	defer func() { p.must(p.session.Close(p.ctx)) }()
	echoed(p, p.session, floats, floats2, [][]float32{{1.5, -2, float32(math.Inf(1))}})
	echoed(p, p.session, floats, floats2, [][]float32{{}, {}})
	echoed(p, p.session, doubles, doubles2, 1e300)
	echoed(p, p.session, halves, halves2, []tensor.F16{tensor.ToF16(1.5)})
	echoed(p, p.session, bfloats, bfloats2, []tensor.BF16{tensor.ToBF16(1.5)})
	echoed(p, p.session, ints, ints2, [][][]int32{{{1, 2}, {3, 4}}})
	echoed(p, p.session, longs, longs2, int64(math.MinInt64))
	echoed(p, p.session, bytes, bytes2, []uint8{0, 255})
	echoed(p, p.session, bools, bools2, []bool{true, false})
	echoed(p, p.session, complexes, complexes2, []complex64{1 - 2i})
	echoed(p, p.session, texts, texts2, [][]string{{"", "ü"}, {"\x00\xff", strings.Repeat("long ", 3)}})
}

// prepared runs callables and partial runs.
func (p *goProgram) prepared() {
	s := op.NewScope()
	x := op.Placeholder(s.WithName("x"), tensor.Float32, attr.Shape(shape.Of()))
	y := op.Placeholder(s.WithName("y"), tensor.Float32, attr.Shape(shape.Of()))
	difference := op.Sub(s.WithName("difference"), x, y)
	counter := op.VariableV2(s.WithName("counter"), shape.Of(), tensor.Float32)
	zero := op.Assign(s.WithName("zero"), counter, op.Sub(s, x, x)).Op
	next := op.AssignAdd(s.WithName("next"), counter, x)
	op.Mul(s.WithName("product"), next, y)
	p.open(s)
	defer func() { p.must(p.session.Close(p.ctx)) }()
	p.do(troupe.Feeds{x: float32(0)}, zero)

	three, five := tensor.FromScalar(float32(3)), tensor.FromScalar(float32(5))
	defer three.Release()
	defer five.Release()
	c, err := p.session.Prepare(p.ctx, []op.Output{y, x}, difference, next)
	p.must(err)
	for range 3 {
		out, err := c.Run(p.ctx, three, five)
		p.must(err)
		p.tell("callable %v %v", tensor.Of[float32](out[0])[0], tensor.Of[float32](out[1])[0])
		out[0].Release()
		out[1].Release()
	}
	_, err = c.Run(p.ctx, three)
	p.tell("a feed is missing: %v", status.CodeOf(err))
	p.must(c.Close(p.ctx))
	_, err = c.Run(p.ctx, three, five)
	p.tell("after release: %v", status.CodeOf(err))

	partial, err := p.session.PartialRun(p.ctx, []string{"x:0", "y:0"}, []string{"next:0", "product:0"}, nil)
	p.must(err)
	for _, call := range []struct {
		feed, fetch string
		value       *tensor.Tensor
	}{{"x:0", "next:0", five}, {"x:0", "", five}, {"y:0", "product:0", three}} {
		var fetches []string
		if call.fetch != "" {
			fetches = append(fetches, call.fetch)
		}
		out, err := partial.Run(p.ctx, map[string]*tensor.Tensor{call.feed: call.value}, fetches)
		p.tell("partial %v %v", status.CodeOf(err), values(out))
	}
}

func values(tensors []*tensor.Tensor) (all []float32) {
	for _, t := range tensors {
		all = append(all, tensor.Of[float32](t)...)
		t.Release()
	}
	return all
}

// failures runs steps that fail, and prints the classes of their errors.
func (p *goProgram) failures() {
	s := op.NewScope()
	x := op.Placeholder(s.WithName("x"), tensor.Float32)
	y := op.Placeholder(s.WithName("y"), tensor.Float32)
	sum := op.AddV2(s.WithName("sum"), x, y)
	never := op.VariableV2(s.WithName("never"), shape.Of(), tensor.Float32)
	p.open(s)
	run := func(what string, feeds troupe.Feeds, fetch op.Output) {
		_, err := p.session.Eval(p.ctx, feeds, fetch)
		p.tell("%s: %v", what, status.CodeOf(err))
	}
	run("shapes that do not fit", troupe.Feeds{x: []float32{1, 2}, y: []float32{1, 2, 3}}, sum)
	run("a feed is missing", troupe.Feeds{x: float32(1)}, sum)
	run("not initialized", nil, op.Identity(s, never))
	_, err := p.session.Run(p.ctx, nil, []string{"absent:0"}, nil)
	p.tell("a tensor that is not there: %v", status.CodeOf(err))
	_, err = p.session.Run(p.ctx, nil, nil, nil)
	p.tell("nothing to run: %v", status.CodeOf(err))
	def, err := s.GraphDef()
	p.must(err)
	p.tell("nodes that are there: %v", status.CodeOf(p.session.Extend(p.ctx, def)))
	p.must(p.session.Close(p.ctx))
	_, err = p.session.Eval(p.ctx, troupe.Feeds{x: float32(1), y: float32(1)}, sum)
	p.tell("a closed session: %v", status.CodeOf(err))
}

// cancelled cancels waiting steps. Once the server has learned of it, they take no element.
func (p *goProgram) cancelled() {
	s := op.NewScope()
	queue := op.FIFOQueueV2(s.WithName("queue"), []tensor.DType{tensor.Float32}, attr.Shapes([]shape.Shape{shape.Of()}))
	x := op.Placeholder(s.WithName("x"), tensor.Float32, attr.Shape(shape.Of()))
	put := op.QueueEnqueueV2(s, queue, []op.Output{x})
	take := op.QueueDequeueV2(s, queue, []tensor.DType{tensor.Float32})[0]
	size := op.QueueSizeV2(s, queue)
	p.open(s)
	defer func() { p.must(p.session.Close(p.ctx)) }()
	for i := range 3 {
		ctx, cancel := context.WithCancel(p.ctx)
		time.AfterFunc(20*time.Millisecond, cancel)
		_, err := p.session.Eval(ctx, nil, take)
		p.tell("cancelled: %v", status.CodeOf(err))
		ctx, cancel = context.WithTimeout(p.ctx, 20*time.Millisecond)
		_, err = p.session.Eval(ctx, nil, take)
		p.tell("too late: %v", status.CodeOf(err))
		cancel()
		// On a busy machine, the element may arrive before the server has cancelled the steps. One of them then takes it.
		n := int32(0)
		for range 3 {
			if n == 0 {
				p.do(troupe.Feeds{x: float32(i)}, put)
				n, err = troupe.Fetch[int32](p.ctx, p.session, nil, size)
				p.must(err)
			}
		}
		p.tell("%d elements", n)
		element, err := troupe.Fetch[float32](p.ctx, p.session, nil, take)
		p.tell("element %v %v", element, err)
	}
}

// large passes tensors that must be split into frames.
func (p *goProgram) large() {
	s := op.NewScope()
	x := op.Placeholder(s.WithName("x"), tensor.Float32)
	negative := op.Neg(s, x)
	texts := op.Placeholder(s.WithName("texts"), tensor.String)
	same := op.Identity(s, texts)
	p.open(s)
	defer func() { p.must(p.session.Close(p.ctx)) }()
	numbers := make([]float32, 16<<20)
	for i := range numbers {
		numbers[i] = float32(i)
	}
	done := make(chan struct{})
	t, err := tensor.Wrap(numbers, func() { close(done) }, 4, len(numbers)/4)
	p.must(err)
	out, err := p.session.Eval(p.ctx, troupe.Feeds{x: t}, negative)
	t.Release()
	p.must(err)
	<-done // the numbers are no longer in use
	back, err := tensor.Values[float32](out[0])
	p.must(err)
	wrong := 0
	for i, v := range back {
		if v != -numbers[i] {
			wrong++
		}
	}
	p.tell("%v of %v, %d are wrong", out[0].DType(), out[0].Shape(), wrong)
	out[0].Release()
	long := []string{strings.Repeat("a", 5<<20), "", strings.Repeat("b", 1<<20)}
	text, err := troupe.Fetch[[]string](p.ctx, p.session, troupe.Feeds{texts: long}, same)
	p.must(err)
	p.tell("long strings are the same: %v", slices.Equal(text, long))
}

// many runs steps from many goroutines on one connection.
func (p *goProgram) many() {
	s := op.NewScope()
	x := op.Placeholder(s.WithName("x"), tensor.Float32)
	twice := op.AddV2(s, x, x)
	p.open(s)
	defer func() { p.must(p.session.Close(p.ctx)) }()
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 50 {
				value := slices.Repeat([]float32{float32(g*1000 + i)}, 1+(i%5)*20_000)
				got, err := troupe.Fetch[[]float32](p.ctx, p.session, troupe.Feeds{x: value}, twice)
				if err != nil || len(got) != len(value) || got[0] != 2*value[0] || got[len(got)-1] != got[0] {
					p.t.Errorf("%s: goroutine %d, step %d: %d elements, %v", p.master.Target(), g, i, len(got), err)
					return
				}
			}
		})
	}
	all.Wait()
}

// resets empties containers, and ends the sessions.
func (p *goProgram) resets() {
	s := op.NewScope()
	x := op.Placeholder(s.WithName("x"), tensor.Float32, attr.Shape(shape.Of()))
	v := op.VariableV2(s.WithName("kept"), shape.Of(), tensor.Float32)
	set := op.Assign(s.WithName("set"), v, x).Op
	p.open(s)
	p.do(troupe.Feeds{x: float32(1)}, set)
	p.must(p.session.Close(p.ctx))
	p.open(s)
	kept, err := troupe.Fetch[float32](p.ctx, p.session, nil, v)
	p.tell("kept %v %v", kept, err)
	p.must(p.master.Reset(p.ctx))
	_, err = p.session.Eval(p.ctx, nil, v)
	p.tell("after a reset: %v", status.CodeOf(err))
	p.open(s)
	_, err = p.session.Eval(p.ctx, nil, v)
	p.tell("after a reset: %v", status.CodeOf(err))
	p.must(p.session.Close(p.ctx))
}
