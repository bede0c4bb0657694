package all_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/containers/table"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/durable/tuple"
	"github.com/troupe-run/troupe/kernels"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
	"github.com/troupe-run/troupe/kernels/restore"
)

// durableCase is a kind of resource that can be durable, with random ops on it.
type durableCase struct {
	kind string
	// source is the op that outputs the resource's handle, on inputs; the ops name the resource themselves if it is empty.
	source kt.Op
	inputs func() []any
	// next returns a random op that does not wait, with its inputs after the handle. ask runs an op that changes nothing, and returns its
	// output, a number.
	next func(rng *rand.Rand, ask func(op kt.Op) int) (kt.Op, []any)
}

func op(name string, outputs int, attrs kt.Attrs) kt.Op {
	return kt.Op{Type: name, Attrs: attrs, Outputs: outputs}
}

// durableCases has a case for each kind, which TestDurableLikeVolatile demands.
var durableCases = map[string]durableCase{
	"resource variable": {kind: kernels.KindVariable, source: op("VarHandleOp", 1, kt.Attrs{"dtype": tensor.Float32, "shape": kt.S(2), "shared_name": "r", "container": ""}),
		next: func(rng *rand.Rand, _ func(kt.Op) int) (kt.Op, []any) {
			v := kt.F32(kt.S(2), rng.Float32(), rng.Float32())
			return op(pick(rng, "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"), 0, kt.Attrs{"dtype": tensor.Float32}), []any{v}
		}},
	"reference variable": {kind: kernels.KindRefVariable, source: op("VariableV2", 1, kt.Attrs{"dtype": tensor.Float32, "shape": kt.S(2), "shared_name": "r", "container": ""}),
		next: func(rng *rand.Rand, _ func(kt.Op) int) (kt.Op, []any) {
			v := kt.F32(kt.S(2), rng.Float32(), rng.Float32())
			return op(pick(rng, "Assign", "AssignAdd", "AssignSub"), 1, kt.Attrs{"T": tensor.Float32}), []any{v}
		}},
	"queue": {kind: kernels.KindQueue, source: op("FIFOQueueV2", 1, kt.Attrs{"component_types": []tensor.DType{tensor.Int64}, "shapes": []tensor.Shape{{}}, "capacity": 30, "shared_name": "r"}),
		next: func(rng *rand.Rand, ask func(kt.Op) int) (kt.Op, []any) {
			size := ask(op("QueueSizeV2", 1, nil))
			if n := 1 + rng.IntN(4); size+n <= 30 && rng.IntN(2) == 0 {
				return op("QueueEnqueueManyV2", 0, kt.Attrs{"Tcomponents": []tensor.DType{tensor.Int64}}), []any{randomInts(rng, n, 1000)}
			}
			return op("QueueDequeueManyV2", 1, kt.Attrs{"component_types": []tensor.DType{tensor.Int64}}), []any{kt.I32(nil, int32(rng.IntN(size+1)))}
		}},
	"mutable table": {kind: table.ResourceKind, source: op("MutableHashTableV2", 1, kt.Attrs{"key_dtype": tensor.Int64, "value_dtype": tensor.Int64, "shared_name": "r"}), next: tableOps},
	"dense table": {kind: table.ResourceKind, source: op("MutableDenseHashTableV2", 1, kt.Attrs{"key_dtype": tensor.Int64, "value_dtype": tensor.Int64, "value_shape": kt.S(), "initial_num_buckets": 4, "max_load_factor": float32(0.8), "shared_name": "r"}),
		inputs: func() []any { return []any{kt.I64(nil, -1), kt.I64(nil, -2)} }, next: tableOps},
	"static table": {kind: table.ResourceKind, source: op("HashTableV2", 1, kt.Attrs{"key_dtype": tensor.Int64, "value_dtype": tensor.Int64, "shared_name": "r"}),
		next: func(rng *rand.Rand, ask func(kt.Op) int) (kt.Op, []any) {
			if rng.IntN(3) == 0 {
				n := rng.IntN(4)
				keys := make([]int64, n)
				for i := range keys {
					keys[i] = int64(i)
				}
				return op("InitializeTableV2", 0, kt.Attrs{"Tkey": tensor.Int64, "Tval": tensor.Int64}), []any{kt.I64(kt.S(int64(n)), keys...), randomInts(rng, n, 1000)}
			}
			return tableOps(rng, ask)
		}},
	"barrier": {kind: kernels.KindBarrier, source: op("Barrier", 1, kt.Attrs{"component_types": []tensor.DType{tensor.Int64, tensor.String}, "shapes": []tensor.Shape{{}, {}}, "shared_name": "r"}),
		next: func(rng *rand.Rand, ask func(kt.Op) int) (kt.Op, []any) {
			ready := ask(op("BarrierReadySize", 1, nil))
			keys := make([]string, 1+rng.IntN(3))
			for i := range keys {
				keys[i] = fmt.Sprint("\xff", rng.IntN(8))
			}
			n := int64(len(keys))
			switch rng.IntN(12) {
			case 0:
				return op("BarrierClose", 0, kt.Attrs{"cancel_pending_enqueues": rng.IntN(4) == 0}), nil
			case 1, 2, 3:
				return op("BarrierTakeMany", 4, kt.Attrs{"component_types": []tensor.DType{tensor.Int64, tensor.String}, "allow_small_batch": rng.IntN(2) == 0}), []any{kt.I32(nil, int32(rng.IntN(ready+1)))}
			case 4, 5, 6:
				return op("BarrierInsertMany", 0, kt.Attrs{"T": tensor.String, "component_index": 1}), []any{kt.Str(kt.S(n), keys...), kt.Str(kt.S(n), keys...)}
			}
			return op("BarrierInsertMany", 0, kt.Attrs{"T": tensor.Int64, "component_index": 0}), []any{kt.Str(kt.S(n), keys...), randomInts(rng, int(n), 1000)}
		}},
	"accumulator": {kind: kernels.KindAccumulator, source: op("ConditionalAccumulator", 1, kt.Attrs{"dtype": tensor.Float32, "shape": kt.S(2), "reduction_type": "MEAN", "shared_name": "r"}),
		next: func(rng *rand.Rand, ask func(kt.Op) int) (kt.Op, []any) {
			return accumulatorOps(rng, ask, op("AccumulatorApplyGradient", 0, kt.Attrs{"dtype": tensor.Float32}), op("AccumulatorTakeGradient", 1, kt.Attrs{"dtype": tensor.Float32}),
				kt.F32(kt.S(2), rng.Float32(), rng.Float32()))
		}},
	"sparse accumulator": {kind: kernels.KindAccumulator, source: op("SparseConditionalAccumulator", 1, kt.Attrs{"dtype": tensor.Float32, "shape": kt.S(-1, 2), "reduction_type": "MEAN", "shared_name": "r"}),
		next: func(rng *rand.Rand, ask func(kt.Op) int) (kt.Op, []any) {
			n := rng.IntN(3)
			rows := rng.Perm(5)[:n]
			slices.Sort(rows)
			indices, values := make([]int64, n), make([]float32, 2*n)
			for i, r := range rows {
				indices[i], values[2*i] = int64(r), rng.Float32()
			}
			return accumulatorOps(rng, ask, op("SparseAccumulatorApplyGradient", 0, kt.Attrs{"dtype": tensor.Float32, "has_known_shape": false}),
				op("SparseAccumulatorTakeGradient", 3, kt.Attrs{"dtype": tensor.Float32}), kt.I64(kt.S(int64(n)), indices...), kt.F32(kt.S(int64(n), 2), values...), kt.I64(kt.S(0)))
		}},
	"staging area": {kind: kernels.KindBuffer,
		next: func(rng *rand.Rand, ask func(kt.Op) int) (kt.Op, []any) {
			attrs := kt.Attrs{"dtypes": []tensor.DType{tensor.Int64}, "shared_name": "r", "container": "jobs"}
			size := ask(op("StageSize", 1, attrs))
			switch k := rng.IntN(12); {
			case k == 0:
				return op("StageClear", 0, attrs), nil
			case k < 4 && size > 0:
				return op("Unstage", 1, attrs), nil
			case k < 6 && size > 0:
				return op("StagePeek", 1, attrs), []any{kt.I32(nil, int32(rng.IntN(size)))}
			}
			return op("Stage", 0, attrs), []any{randomInts(rng, 1, 1000)}
		}},
	"staging map":         {kind: kernels.KindMap, next: func(rng *rand.Rand, ask func(kt.Op) int) (kt.Op, []any) { return mapOps(rng, ask, "Map") }},
	"ordered staging map": {kind: kernels.KindOrderedMap, next: func(rng *rand.Rand, ask func(kt.Op) int) (kt.Op, []any) { return mapOps(rng, ask, "OrderedMap") }},
}

func pick(rng *rand.Rand, names ...string) string { return names[rng.IntN(len(names))] }

func randomInts(rng *rand.Rand, n int, below int64) *tensor.Tensor {
	v := make([]int64, n)
	for i := range v {
		v[i] = rng.Int64N(below)
	}
	return kt.I64(kt.S(int64(n)), v...)
}

// tableOps returns an op on a table. Exports are left out: the order of a table's entries is not kept.
func tableOps(rng *rand.Rand, _ func(kt.Op) int) (kt.Op, []any) {
	attrs := kt.Attrs{"Tin": tensor.Int64, "Tout": tensor.Int64}
	n := 1 + rng.IntN(4)
	switch rng.IntN(8) {
	case 0, 1, 2:
		return op("LookupTableInsertV2", 0, attrs), []any{randomInts(rng, n, 20), randomInts(rng, n, 1000)}
	case 3:
		return op("LookupTableRemoveV2", 0, attrs), []any{randomInts(rng, n, 20)}
	case 4:
		return op("LookupTableImportV2", 0, attrs), []any{randomInts(rng, n, 20), randomInts(rng, n, 1000)}
	case 5:
		return op("LookupTableSizeV2", 1, nil), nil
	}
	return op("LookupTableFindV2", 1, attrs), []any{randomInts(rng, n, 20), kt.I64(nil, -7)}
}

func accumulatorOps(rng *rand.Rand, ask func(kt.Op) int, apply, take kt.Op, gradient ...any) (kt.Op, []any) {
	switch n := ask(op("AccumulatorNumAccumulated", 1, nil)); {
	case rng.IntN(10) == 0:
		return op("AccumulatorSetGlobalStep", 0, nil), []any{kt.I64(nil, rng.Int64N(3))}
	case n > 0 && rng.IntN(4) == 0:
		return take, []any{kt.I32(nil, int32(1+rng.IntN(n)))}
	}
	return apply, append([]any{kt.I64(nil, rng.Int64N(4))}, gradient...)
}

func mapOps(rng *rand.Rand, ask func(kt.Op) int, kind string) (kt.Op, []any) {
	with := func(fake ...tensor.DType) kt.Attrs {
		return kt.Attrs{"dtypes": []tensor.DType{tensor.Int64, tensor.Int64}, "fake_dtypes": fake, "shared_name": "r", "container": "jobs"}
	}
	both := with(tensor.Int64, tensor.Int64)
	size := ask(op(kind+"Size", 1, both))
	switch k := rng.IntN(20); {
	case k == 0:
		return op(kind+"Clear", 0, both), nil
	case k == 1:
		return op(kind+"IncompleteSize", 1, both), nil
	case k < 7 && size > 0:
		return op(kind+"UnstageNoKey", 2, kt.Attrs{"dtypes": []tensor.DType{tensor.Int64}, "shared_name": "r", "container": "jobs"}), []any{kt.I32(kt.S(1), int32(rng.IntN(2)))}
	case k < 14:
		key := kt.I64(nil, rng.Int64N(6))
		return op(kind+"Stage", 0, with(tensor.Int64)), []any{key, kt.I32(kt.S(1), int32(rng.IntN(2))), randomInts(rng, 1, 1000)}
	}
	return op(kind+"Stage", 0, both), []any{kt.I64(nil, rng.Int64N(6)), kt.I32(kt.S(2), 0, 1), randomInts(rng, 1, 1000), randomInts(rng, 2, 1000)}
}

// life is a device whose container jobs is durable, if it has a store.
type life struct {
	*kt.Device
	c        durableCase
	store    *durable.Store
	pictures *containers.Pictures
}

// start makes a device, with what dir holds. An empty dir stands for a device without a store.
func (c durableCase) start(t *testing.T, dir string) *life {
	t.Helper()
	l := &life{Device: kt.NewDevice(t), c: c}
	if dir == "" {
		return l
	}
	log := slog.New(slog.DiscardHandler)
	var err error
	if l.store, err = durable.Open(dir, durable.Options{Owner: "/job:test/task:0", Log: log}); err != nil {
		t.Fatal(err)
	}
	l.pictures = containers.NewPictures(l.store, log)
	m := l.Resources()
	m.Keep(l.pictures, func(container string) (time.Duration, bool) { return 0, container == "jobs" })
	if err := l.store.Load(func(cell *durable.Cell, at durable.Place, about []byte) error {
		return restore.Resource(m, l.Pool(), cell, at, about)
	}); err != nil {
		t.Fatal(err)
	}
	return l
}

// stop ends the life. What it leaves on disk is what its steps have done.
func (l *life) stop(t *testing.T) {
	t.Helper()
	l.pictures.Stop()
	if err := l.Resources().Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.store.Close(); err != nil {
		t.Fatal(err)
	}
}

// run runs an op on the resource, as a step of its own, and returns the encoded outputs, or the error.
func (l *life) run(t *testing.T, o kt.Op, inputs []any) (string, []kernels.Value) {
	t.Helper()
	step := kt.NewStep()
	if l.store != nil {
		step.Changes = l.store.Begin()
	}
	// An op waits if what it needs did not come back.
	limit := time.AfterFunc(20*time.Second, func() { step.Cancellation.Cancel(status.Errorf(status.DeadlineExceeded, "the op waits")) })
	out, err := l.try(step, o, inputs)
	limit.Stop()
	if l.store != nil {
		ended := make(chan error, 1)
		step.Changes.End(func(err error) { ended <- err })
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	if err != nil {
		return fmt.Sprintf("%v", status.CodeOf(err)), nil
	}
	var b bytes.Buffer
	for _, v := range out {
		if v.Tensor != nil {
			e, err := (tuple.Tuple{v.Tensor}).Append(nil)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(e)
		}
	}
	return b.String(), out
}

func (l *life) try(step *kernels.Step, o kt.Op, inputs []any) ([]kernels.Value, error) {
	o.Step, o.Session = step, "s"
	if l.c.source.Type == "" {
		return l.Try(o, inputs...)
	}
	source := l.c.source
	source.Step, source.Session = step, "s"
	source.Attrs["container"] = "jobs"
	var of []any
	if l.c.inputs != nil {
		of = l.c.inputs()
	}
	handle, err := l.Try(source, of...)
	if err != nil {
		return nil, err
	}
	in := any(handle[0])
	if handle[0].Ref != nil {
		in = handle[0].Ref
	}
	return l.Try(o, append([]any{in}, inputs...)...)
}

// eachDurable runs a test for a resource of each kind that can be durable, three times, with random numbers of its own.
func eachDurable(t *testing.T, stream uint64, test func(c durableCase, t *testing.T, rng *rand.Rand)) {
	t.Helper()
	kt.CPUOnly(t)
	tested := map[string]bool{}
	for name, c := range durableCases {
		tested[c.kind] = true
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				test(c, t, rand.New(rand.NewPCG(seed, stream)))
			}
		})
	}
	for _, kind := range restore.Kinds() {
		if !tested[kind] {
			t.Errorf("no case has a resource of kind %s", kind)
		}
	}
}

// TestDurableLikeVolatile runs the same random ops on a durable resource of each kind, whose process restarts now and then, and on one that is
// not durable and never does. Every output must be the same.
func TestDurableLikeVolatile(t *testing.T) {
	eachDurable(t, 0, durableCase.likeVolatile)
}

func (c durableCase) likeVolatile(t *testing.T, rng *rand.Rand) {
	t.Helper()
	dir := t.TempDir()
	volatile, lasting := c.start(t, ""), c.start(t, dir)
	done := []string{}
	for range 120 {
		if rng.IntN(20) == 0 {
			lasting.stop(t)
			lasting = c.start(t, dir)
			done = append(done, "restart")
		}
		done = append(done, c.alike(t, rng, volatile, lasting, done))
	}
	lasting.stop(t)
}

// alike runs a random op on two lives of the resource, after what was done, and describes it. Its outputs must be the same.
func (c durableCase) alike(t *testing.T, rng *rand.Rand, plain, tested *life, done []string) string {
	t.Helper()
	o, inputs := c.next(rng, func(o kt.Op) int {
		_, out := plain.run(t, o, nil)
		n := int(tensor.Of[int32](out[0].Tensor)[0])
		releaseAll(out)
		return n
	})
	copies := make([]any, len(inputs))
	for k, in := range inputs {
		copies[k] = in.(*tensor.Tensor).Retain()
	}
	what := fmt.Sprint(o.Type, inputs)
	want, out := plain.run(t, o, inputs)
	releaseAll(out)
	got, out := tested.run(t, o, copies)
	releaseAll(out)
	if got != want {
		t.Fatalf("%s, op %d: got %q, want %q, after %q", what, len(done), got, want, done)
	}
	return what
}

// TestMovedLikeUnmoved runs the same random ops on a resource of each kind that moves now and then to another device, as when a task leaves, into a
// container that is durable or not, and on one that stays. Every output must be the same.
func TestMovedLikeUnmoved(t *testing.T) {
	eachDurable(t, 1, durableCase.likeUnmoved)
}

func (c durableCase) likeUnmoved(t *testing.T, rng *rand.Rand) {
	t.Helper()
	stays, moves, dir := c.start(t, ""), c.start(t, ""), ""
	var done []string
	for range 120 {
		switch rng.IntN(20) {
		case 0, 1:
			next := ""
			if rng.IntN(2) == 0 {
				next = t.TempDir()
			}
			to := c.start(t, next)
			moves.moveTo(t, to, 1+rng.IntN(50))
			moves, dir = to, next
			done = append(done, fmt.Sprintf("move, durable: %v", dir != ""))
		case 2:
			if dir != "" {
				moves.stop(t)
				moves = c.start(t, dir)
				done = append(done, "restart")
			}
		}
		done = append(done, c.alike(t, rng, stays, moves, done))
	}
	moves.end(t)
}

// moveTo moves the resource, if it was made, in pieces of a size, and ends the life.
func (l *life) moveTo(t *testing.T, to *life, size int) {
	t.Helper()
	defer l.end(t)
	found, err := l.Resources().Lookup("jobs", l.c.kind, "r")
	if status.CodeOf(err) == status.NotFound {
		return
	}
	d, ok := found.(containers.Durable)
	if err != nil || !ok {
		t.Fatalf("%v, %v", found, err)
	}
	about, err := d.About()
	if err != nil {
		t.Fatal(err)
	}
	image, err := durable.Take(d.State)
	if err != nil {
		t.Fatal(err)
	}
	var sent bytes.Buffer
	if err := image.Send(size, func(piece []byte) error {
		if len(piece) == 0 || len(piece) > size {
			t.Errorf("a piece has %d bytes, and may have %d", len(piece), size)
		}
		sent.Write(piece)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	m := to.Resources()
	at := durable.Place{Device: "d", Container: "jobs", Kind: l.c.kind, Name: "r"}
	made, err := restore.Decode(m, to.Pool(), durable.Received(&sent), at, about)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Adopt("jobs", l.c.kind, "r", made); err != nil {
		t.Fatal(err)
	}
}

// end ends the life.
func (l *life) end(t *testing.T) {
	t.Helper()
	if l.store != nil {
		l.stop(t)
		return
	}
	if err := l.Resources().Close(); err != nil {
		t.Fatal(err)
	}
}

func releaseAll(values []kernels.Value) {
	for _, v := range values {
		v.Release()
	}
}
