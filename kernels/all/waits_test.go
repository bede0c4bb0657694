package all_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/files"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// waitCase is an op that waits for something, in a step that ends.
type waitCase struct {
	op     kt.Op
	inputs []any
	// offer lets another step make available what the op waits for.
	offer func()
	// left checks that it is still available: the step that ended must not have it.
	left func()
}

// stand is a device with the objects that the ops of a case use.
type stand struct {
	*testing.T
	d *kt.Device
}

// await returns the result of an op that must not have to wait for long.
func (s *stand) await(c <-chan kt.Result) kt.Result {
	s.Helper()
	select {
	case r := <-c:
		return r
	case <-time.After(extent.Slack(10 * time.Second)):
		s.Fatal("the op waits for what another step had offered")
		return kt.Result{}
	}
}

// do runs an op that must succeed, drops its outputs, and returns the numbers in the last one.
func (s *stand) do(op kt.Op, inputs ...any) (numbers []int64) {
	s.Helper()
	r := s.await(kt.Start(s.T, s.d, op, inputs...))
	if r.Err != nil {
		s.Fatalf("%s failed: %v", op.Type, r.Err)
	}
	for _, v := range r.Out {
		if v.Tensor != nil {
			numbers = integers(v.Tensor)
		}
		v.Release()
	}
	return numbers
}

// expect runs an op and checks the numbers in its last output.
func (s *stand) expect(want []int64, op kt.Op, inputs ...any) {
	s.Helper()
	if got := s.do(op, inputs...); !slices.Equal(got, want) {
		s.Errorf("%s outputs %v, want %v", op.Type, got, want)
	}
}

func integers(t *tensor.Tensor) (list []int64) {
	switch t.DType() {
	case tensor.Int64:
		return slices.Clone(tensor.Of[int64](t))
	case tensor.Int32:
		for _, v := range tensor.Of[int32](t) {
			list = append(list, int64(v))
		}
	case tensor.Float32:
		for _, v := range tensor.Of[float32](t) {
			list = append(list, int64(v))
		}
	case tensor.Bool:
		for _, v := range tensor.Of[bool](t) {
			if v {
				list = append(list, 1)
			}
		}
	}
	return list
}

// object runs an op that outputs a handle, and returns a function that returns it as an input.
func (s *stand) object(op kt.Op, inputs ...any) func() any {
	s.Helper()
	v := s.d.Run(s, op, inputs...)[0]
	s.Cleanup(v.Release)
	return func() any {
		if v.Tensor != nil {
			v.Tensor.Retain()
		}
		return v
	}
}

var (
	oneInt    = []tensor.DType{tensor.Int64}
	oneScalar = []tensor.Shape{{}}
	tuples    = kt.Attrs{"component_types": oneInt, "N": 0, "lease_ms": 60_000, "max_deliveries": 0}
	staged    = kt.Attrs{"dtypes": oneInt, "capacity": 1, "shared_name": "area"}
	gradients = kt.Attrs{"dtype": tensor.Float32, "shape": tensor.Shape{1}, "reduction_type": "MEAN", "has_known_shape": false}
	batched   = kt.Attrs{"T": []tensor.DType{tensor.Int32}, "Tin": []tensor.DType{tensor.Int32}, "Tout": []tensor.DType{tensor.Int32}, "Tcaptured": []tensor.DType{},
		"f": kt.Func{Name: "same"}, "num_batch_threads": 1, "max_batch_size": 2, "batch_timeout_micros": 1000, "max_enqueued_batches": 4, "grad_timeout_micros": 0,
		"shared_name": "b"}
	unbatched = kt.Attrs{"T": tensor.Int32, "timeout_micros": 60_000_000, "shared_name": "u"}
	same      = kt.Library{"same": func(_ *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) { done(args, nil) }}
)

func count(n int32) any { return kt.I32(nil, n) }

// queue returns a queue of int64 scalars; version is that of its ops, "" or "V2".
func (s *stand) queue(version string, capacity int) func() any {
	return s.object(kt.Op{Type: "FIFOQueue" + version, Attrs: kt.Attrs{"component_types": oneInt, "shapes": oneScalar, "capacity": capacity, "shared_name": "q"}})
}

func (s *stand) enqueue(version string, q func() any, v int64) {
	s.do(kt.Op{Type: "QueueEnqueue" + version}, q(), kt.I64(nil, v))
}

func (s *stand) dequeues(want int64, version string, q func() any) {
	s.Helper()
	s.expect([]int64{want}, kt.Op{Type: "QueueDequeue" + version, Attrs: tuples}, q())
}

// takesElement returns the case of an op that takes an element.
func takesElement(op, version string, more ...func() any) func(*stand) waitCase {
	return func(s *stand) waitCase {
		q := s.queue(version, 2)
		return waitCase{kt.Op{Type: op, Attrs: tuples}, append([]any{q()}, made(more)...), func() { s.enqueue(version, q, 5) }, func() { s.dequeues(5, version, q) }}
	}
}

// storesElement returns the case of an op that waits for room.
func storesElement(op, version string, more ...func() any) func(*stand) waitCase {
	return func(s *stand) waitCase {
		q := s.queue(version, 1)
		s.enqueue(version, q, 5)
		return waitCase{kt.Op{Type: op}, append([]any{q()}, made(more)...), func() { s.dequeues(5, version, q) }, func() {
			s.expect([]int64{0}, kt.Op{Type: "QueueSize" + version}, q())
		}}
	}
}

func made(inputs []func() any) (list []any) {
	for _, in := range inputs {
		list = append(list, in())
	}
	return list
}

// closesQueue returns the case of an op that closes a queue, which goes on without its step.
func closesQueue(version string) func(*stand) waitCase {
	return func(s *stand) waitCase {
		q := s.queue(version, 1)
		s.enqueue(version, q, 5)
		late := kt.Start(s.T, s.d, kt.Op{Type: "QueueEnqueue" + version}, q(), kt.I64(nil, 6))
		return waitCase{kt.Op{Type: "QueueClose" + version}, []any{q()}, func() { s.dequeues(5, version, q) }, func() {
			s.await(late)
			s.dequeues(6, version, q)
		}}
	}
}

// opensQueue returns the case of an op that reopens a closed queue once it is empty.
func opensQueue(version string) func(*stand) waitCase {
	return func(s *stand) waitCase {
		q := s.queue(version, 1)
		s.enqueue(version, q, 5)
		s.do(kt.Op{Type: "QueueClose" + version}, q())
		return waitCase{kt.Op{Type: "QueueIsClosed" + version, Attrs: kt.Attrs{graph.OpenWaitAttr: 60_000}}, []any{q()}, func() { s.dequeues(5, version, q) }, func() {
			s.expect([]int64{1}, kt.Op{Type: "QueueIsClosed" + version}, q())
		}}
	}
}

// stages returns the case of an op that waits for room in a staging area; takes that of one that uses a tuple.
func stages(kind string) func(*stand) waitCase {
	return func(s *stand) waitCase {
		s.stage(kind, 5)
		return waitCase{kt.Op{Type: stageOp(kind), Attrs: staged}, s.tuple(kind, 6), func() { s.unstages(kind, 5) }, func() {
			s.expect([]int64{0}, kt.Op{Type: kind + "Size", Attrs: staged})
		}}
	}
}

func takes(kind, op string) func(*stand) waitCase {
	return func(s *stand) waitCase {
		return waitCase{kt.Op{Type: op, Attrs: staged}, s.key(kind, op), func() { s.stage(kind, 5) }, func() { s.unstages(kind, 5) }}
	}
}

// stage stages a tuple of one number, for another step. Areas have the kinds Stage, Map and OrderedMap.
func (s *stand) stage(kind string, v int64) {
	s.do(kt.Op{Type: stageOp(kind), Attrs: staged}, s.tuple(kind, v)...)
}

// unstages takes the tuple, which must be there.
func (s *stand) unstages(kind string, want int64) {
	s.Helper()
	op := strings.Replace(stageOp(kind), "Stage", "Unstage", 1)
	s.expect([]int64{want}, kt.Op{Type: op, Attrs: staged}, s.key(kind, op)...)
}

// stageOp returns the op that stages: Stage is also the prefix of other ops.
func stageOp(kind string) string {
	if kind == "Stage" {
		return kind
	}
	return kind + "Stage"
}

// tuple returns the inputs of an op that stages a value; key returns those of one that takes it.
func (s *stand) tuple(kind string, v int64) []any {
	if kind == "Stage" {
		return []any{kt.I64(nil, v)}
	}
	return []any{kt.I64(nil, 1), kt.I32(kt.S(1), 0), kt.I64(nil, v)}
}

func (s *stand) key(kind, op string) []any {
	switch {
	case op == "StagePeek":
		return []any{count(0)}
	case kind == "Stage" || strings.HasSuffix(op, "Clear"):
		return nil
	case strings.HasSuffix(op, "NoKey"):
		return []any{kt.I32(kt.S(1), 0)}
	}
	return []any{kt.I64(nil, 1), kt.I32(kt.S(1), 0)}
}

// takesGradient returns the case of an op that takes the mean of an accumulator's gradients.
func takesGradient(prefix string) func(*stand) waitCase {
	return func(s *stand) waitCase {
		a := s.object(kt.Op{Type: prefix + "ConditionalAccumulator", Attrs: gradients})
		op := kt.Op{Type: prefix + "AccumulatorTakeGradient", Attrs: gradients}
		gradient := []any{a(), kt.I64(nil, 0), kt.F32(kt.S(1), 5)}
		if prefix == "Sparse" {
			gradient = []any{a(), kt.I64(nil, 0), kt.I64(kt.S(1), 0), kt.F32(kt.S(1), 5), kt.I64(kt.S(1), 1)}
		}
		return waitCase{op, []any{a(), count(1)}, func() { s.do(kt.Op{Type: prefix + "AccumulatorApplyGradient", Attrs: gradients}, gradient...) },
			func() { s.do(op, a(), count(1)) }}
	}
}

// reader returns a reader of whole files, a queue for their names, and a function that puts the name of one into it.
func (s *stand) reader(version string) (r, q func() any, offer func()) {
	path := filepath.Join(s.TempDir(), "file")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		s.Fatal(err)
	}
	r = s.object(kt.Op{Type: "IdentityReader" + version, Attrs: kt.Attrs{"shared_name": "r"}})
	q = s.object(kt.Op{Type: "FIFOQueue" + version, Attrs: kt.Attrs{"component_types": []tensor.DType{tensor.String}, "shapes": oneScalar, "shared_name": "q"}})
	return r, q, func() { s.do(kt.Op{Type: "QueueEnqueue" + version}, q(), kt.Str(nil, path)) }
}

// reads returns the case of an op that reads a file whose name it takes from a queue.
func reads(op, version string, more ...func() any) func(*stand) waitCase {
	return func(s *stand) waitCase {
		r, q, offer := s.reader(version)
		return waitCase{kt.Op{Type: op}, append([]any{r(), q()}, made(more)...), offer, func() {
			s.do(kt.Op{Type: "ReaderRead" + version}, r(), q())
			s.expect([]int64{1}, kt.Op{Type: "ReaderNumRecordsProduced" + version}, r())
		}}
	}
}

// changesReader returns the case of an op that changes a reader's state when a read before it has ended.
func changesReader(op, version string, more ...func() any) func(*stand) waitCase {
	return func(s *stand) waitCase {
		r, q, offer := s.reader(version)
		read := kt.Start(s.T, s.d, kt.Op{Type: "ReaderRead" + version}, r(), q())
		return waitCase{kt.Op{Type: op}, append([]any{r()}, made(more)...), offer, func() {
			for _, v := range s.await(read).Out {
				v.Release()
			}
			s.expect([]int64{1}, kt.Op{Type: "ReaderNumRecordsProduced" + version}, r())
		}}
	}
}

// gate holds files that cannot be opened before the gate is.
type gate struct {
	files.FS
	open chan struct{}
}

func (g gate) Open(path string) (files.File, error) {
	<-g.open
	return g.FS.Open(path)
}

// entersBatch returns the case of an op that puts rows of two steps into a batch.
func entersBatch(op string) func(*stand) waitCase {
	return func(s *stand) waitCase {
		enter := kt.Op{Type: op, Attrs: batched, Functions: same}
		var other <-chan kt.Result
		return waitCase{enter, []any{kt.I32(kt.S(1), 5)}, func() { other = kt.Start(s.T, s.d, enter, kt.I32(kt.S(1), 6)) }, func() {
			r := s.await(other)
			if r.Err != nil || len(integers(r.Out[0].Tensor)) == 0 {
				s.Errorf("the other step of the batch gets %v, %v", r.Out, r.Err)
			}
			for _, v := range r.Out {
				v.Release()
			}
		}}
	}
}

// waits are the ops that wait until another step provides something.
var waits = map[string]func(*stand) waitCase{
	"QueueDequeue":     takesElement("QueueDequeue", ""),
	"QueueDequeueV2":   takesElement("QueueDequeueV2", "V2"),
	"QueueDequeueMany": takesElement("QueueDequeueMany", "", one), "QueueDequeueManyV2": takesElement("QueueDequeueManyV2", "V2", one),
	"QueueDequeueUpTo": takesElement("QueueDequeueUpTo", "", one), "QueueDequeueUpToV2": takesElement("QueueDequeueUpToV2", "V2", one),
	"TroupeQueueLease": takesElement("TroupeQueueLease", "V2", one, func() any { return kt.Str(kt.S(0)) }),
	"QueueEnqueue":     storesElement("QueueEnqueue", "", size), "QueueEnqueueV2": storesElement("QueueEnqueueV2", "V2", size),
	"QueueEnqueueMany": storesElement("QueueEnqueueMany", "", sizeTensor), "QueueEnqueueManyV2": storesElement("QueueEnqueueManyV2", "V2", sizeTensor),
	"TroupeQueueEnqueueManyOnce": storesElement("TroupeQueueEnqueueManyOnce", "V2", func() any { return kt.Str(nil, "p") }, size, sizeTensor),
	"QueueClose":                 closesQueue(""), "QueueCloseV2": closesQueue("V2"),
	"QueueIsClosed": opensQueue(""), "QueueIsClosedV2": opensQueue("V2"),

	"Stage": stages("Stage"), "MapStage": stages("Map"), "OrderedMapStage": stages("OrderedMap"),
	"Unstage": takes("Stage", "Unstage"), "MapUnstage": takes("Map", "MapUnstage"), "OrderedMapUnstage": takes("OrderedMap", "OrderedMapUnstage"),
	"MapUnstageNoKey": takes("Map", "MapUnstageNoKey"), "OrderedMapUnstageNoKey": takes("OrderedMap", "OrderedMapUnstageNoKey"),
	"StagePeek": takes("Stage", "StagePeek"), "MapPeek": takes("Map", "MapPeek"), "OrderedMapPeek": takes("OrderedMap", "OrderedMapPeek"),
	"StageClear": takes("Stage", "StageClear"), "MapClear": takes("Map", "MapClear"), "OrderedMapClear": takes("OrderedMap", "OrderedMapClear"),

	"AccumulatorTakeGradient": takesGradient(""), "SparseAccumulatorTakeGradient": takesGradient("Sparse"), "ResourceAccumulatorTakeGradient": takesGradient("Resource"),
	"BarrierTakeMany": func(s *stand) waitCase {
		b := s.object(kt.Op{Type: "Barrier", Attrs: kt.Attrs{"component_types": oneInt, "shapes": oneScalar, "shared_name": "b"}})
		take := kt.Op{Type: "BarrierTakeMany", Attrs: kt.Attrs{"component_types": oneInt}}
		return waitCase{take, []any{b(), count(1)}, func() {
			s.do(kt.Op{Type: "BarrierInsertMany", Attrs: kt.Attrs{"component_index": 0}}, b(), kt.Str(kt.S(1), "k"), kt.I64(kt.S(1), 5))
		}, func() { s.expect([]int64{5}, take, b(), count(1)) }}
	},
	"MutexLock": func(s *stand) waitCase {
		m := s.object(kt.Op{Type: "MutexV2", Attrs: kt.Attrs{"shared_name": "m"}})
		lock := kt.Op{Type: "MutexLock"}
		held := s.d.Run(s, lock, m())[0]
		return waitCase{lock, []any{m()}, held.Release, func() { s.do(lock, m()) }}
	},

	"ReaderRead": reads("ReaderRead", ""), "ReaderReadV2": reads("ReaderReadV2", "V2"),
	"ReaderReadUpTo": reads("ReaderReadUpTo", "", size), "ReaderReadUpToV2": reads("ReaderReadUpToV2", "V2", size),
	"ReaderReset": changesReader("ReaderReset", ""), "ReaderResetV2": changesReader("ReaderResetV2", "V2"),
	"ReaderSerializeState": changesReader("ReaderSerializeState", ""), "ReaderSerializeStateV2": changesReader("ReaderSerializeStateV2", "V2"),
	"ReaderRestoreState": changesReader("ReaderRestoreState", "", plain), "ReaderRestoreStateV2": changesReader("ReaderRestoreStateV2", "V2", plain),

	"Batch": entersBatch("Batch"), "BatchFunction": entersBatch("BatchFunction"),
	"Unbatch": func(s *stand) waitCase {
		op := kt.Op{Type: "Unbatch", Attrs: unbatched}
		none := func(id int64) []any { return []any{kt.I32(kt.S(0)), kt.I64(kt.S(0, 3)), kt.I64(nil, id)} }
		return waitCase{op, none(1), func() {
			s.expect([]int64{6}, op, kt.I32(kt.S(2), 5, 6), kt.I64(kt.S(2, 3), 1, 0, 1, 2, 1, 2), kt.I64(nil, 2))
		}, func() { s.expect([]int64{5}, op, none(1)...) }}
	},
	"UnbatchGrad": func(s *stand) waitCase {
		op := kt.Op{Type: "UnbatchGrad", Attrs: unbatched}
		batch := func(id int64) []any {
			return []any{kt.I32(kt.S(2), 1, 2), kt.I64(kt.S(2, 3), id, 0, 1, 9, 1, 2), kt.I32(kt.S(1), 5), kt.I64(nil, id)}
		}
		return waitCase{op, batch(1), func() { s.do(op, kt.I32(kt.S(0)), kt.I64(kt.S(0, 3)), kt.I32(kt.S(1), 6), kt.I64(nil, 9)) },
			func() { s.expect([]int64{5, 6}, op, batch(2)...) }}
	},
}

func one() any        { return count(1) }
func size() any       { return kt.I64(nil, 1) }
func plain() any      { return kt.Str(nil, "") }
func sizeTensor() any { return kt.I64(kt.S(1), 1) }

// neverWait are ops that use what others wait for, and do not wait themselves.
var neverWait = []string{"BarrierInsertMany", "BarrierClose", "AccumulatorApplyGradient", "SparseAccumulatorApplyGradient", "ResourceAccumulatorApplyGradient",
	"TroupeQueueAcknowledge", "TroupeQueueReturn"}

// waitsElsewhere are the calls of kernels.Wait that this test does not reach, by file, with the reason.
var waitsElsewhere = map[string]string{
	"../script/call.go":                     "a program's function answers one step",
	"../input/record.go":                    "TestCancelledRecordInput",
	"../data/internal/datatest/datatest.go": "for tests",
}

// watcher records which functions wait, and acts at the last moment before they begin to.
type watcher struct {
	before func()
	mu     sync.Mutex
	sites  map[string]bool
}

func (w *watcher) Awaits(kernels.Awaited) {
	pcs := make([]uintptr, 8)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for waits := false; ; {
		f, more := frames.Next()
		if waits {
			w.mu.Lock()
			w.sites[fmt.Sprintf("%s:%d", filepath.Base(filepath.Dir(f.File))+"/"+filepath.Base(f.File), f.Line)] = true
			w.mu.Unlock()
			break
		}
		if waits = strings.HasSuffix(f.Function, "kernels.Wait"); !more {
			break
		}
	}
	if w.before != nil {
		w.before()
	}
}

// TestEndedStepsTakeNothing checks for every op that waits that its step takes nothing that is offered after the step has ended, even if the
// op's cancellation has not arrived yet: what a client's next step offers is not lost with the step that it cancelled. The step ends at the
// last moment before the op begins, or while it waits and before it is cancelled.
func TestEndedStepsTakeNothing(t *testing.T) {
	kt.CPUOnly(t)
	w := &watcher{sites: map[string]bool{}}
	ended := status.New(status.Cancelled, "the client cancelled the step")
	for op, makeCase := range waits {
		for _, when := range []string{"before", "begins", "waits"} {
			t.Run(op+"/"+when, func(t *testing.T) {
				s := &stand{t, kt.NewDevice(t)}
				c := makeCase(s)
				step := kt.NewStep()
				c.op.Step, c.op.Caller, w.before = step, w, nil
				switch when {
				case "before":
					step.Cancellation.Cancel(ended)
				case "begins":
					w.before = func() {
						step.Cancellation.Cancel(ended)
						c.offer()
					}
				default:
					step.Cancellation.Bind(func(error) { c.offer() })
				}
				result := kt.Start(t, s.d, c.op, c.inputs...)
				step.Cancellation.Cancel(ended)
				if r := s.await(result); r.Err == nil && !(when == "waits" && strings.HasSuffix(op, "Clear")) { // which ends before its step
					t.Errorf("the op of the ended step succeeded: %v", r.Out)
				}
				if when == "before" {
					c.offer()
				}
				c.left()
				if err := s.d.Resources().Clear(""); err != nil {
					t.Error(err)
				}
			})
		}
	}
	for _, op := range kernels.Ops() {
		if _, uses := kernels.UseOf(op); uses && waits[op] == nil && !slices.Contains(neverWait, op) {
			t.Errorf("%s must be in one list: that of the ops that wait, or that of those that do not", op)
		}
	}
	for site, file := range callsOfWait(t) {
		if waitsElsewhere[file] == "" && !w.sites[site] {
			t.Errorf("no op of this test waits in %s; those that do are %v", site, slices.Sorted(maps.Keys(w.sites)))
		}
	}
}

// callsOfWait returns the calls of kernels.Wait, with their files.
func callsOfWait(t *testing.T) map[string]string {
	t.Helper()
	var sources []string
	for _, pattern := range []string{"../*/*.go", "../*/internal/*/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, found...)
	}
	sites := map[string]string{}
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Wait" && fmt.Sprint(sel.X) == "kernels" {
				sites[fmt.Sprintf("%s:%d", filepath.Base(filepath.Dir(name))+"/"+filepath.Base(name), fset.Position(n.Pos()).Line)] = name
			}
			return true
		})
	}
	if len(sites) < 10 {
		t.Fatalf("only %d calls of kernels.Wait were found", len(sites))
	}
	return sites
}

// TestCancelledRecordInput is TestEndedStepsTakeNothing for RecordInput, whose records come from files.
func TestCancelledRecordInput(t *testing.T) {
	kt.CPUOnly(t)
	s := &stand{t, kt.NewDevice(t)}
	path := filepath.Join(t.TempDir(), "records")
	strings := kt.Attrs{"Toutput_types": []tensor.DType{tensor.String}, "output_shapes": oneScalar}
	s.do(kt.Op{Type: "DatasetToTFRecord"}, s.object(kt.Op{Type: "TensorDataset", Attrs: strings}, kt.Str(nil, "x"))(), kt.Str(nil, path), plain())
	fsys := gate{files.All, make(chan struct{})}
	step := kt.NewStep()
	step.Files = files.NewDoor(fsys, nil)
	k, err := s.d.Kernel(kt.Op{Type: "RecordInput", Attrs: kt.Attrs{"file_pattern": path, "batch_size": 1, "file_buffer_size": 1}, Step: step})
	if err != nil {
		t.Fatal(err)
	}
	run := func() <-chan kt.Result {
		c := make(chan kt.Result, 1)
		k.Start(nil, func(out []kernels.Value, err error) { c <- kt.Result{Out: out, Err: err} })
		return c
	}
	waiting := run()
	live := kt.NewStep()
	live.Files = step.Files
	k.Step = live
	next := run()
	step.Cancellation.Bind(func(error) {
		close(fsys.open)
		r := s.await(next) // behind the one that has ended
		if r.Err != nil {
			t.Error(r.Err)
		}
		for _, v := range r.Out {
			v.Release()
		}
	})
	step.Cancellation.Cancel(status.New(status.Cancelled, "the client cancelled the step"))
	if r := s.await(waiting); r.Err == nil {
		t.Error("the op of the ended step succeeded")
	}
}
