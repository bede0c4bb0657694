package batch_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	_ "github.com/troupe-run/troupe/kernels/all"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// batchAttrs returns the attributes of Batch and BatchFunction for one int32 component, with changes.
func batchAttrs(changes kt.Attrs) kt.Attrs {
	ints := []tensor.DType{tensor.Int32}
	attrs := kt.Attrs{"T": ints, "Tin": ints, "Tout": ints, "Tcaptured": []tensor.DType{}, "f": kt.Func{Name: "double"},
		"num_batch_threads": 1, "max_batch_size": 4, "batch_timeout_micros": 1000000, "max_enqueued_batches": 2, "grad_timeout_micros": 0,
		"allowed_batch_sizes": []int64{}, "enable_large_batch_splitting": false, "batch_padding_policy": "PAD_UP",
		"batching_queue": "", "container": "", "shared_name": "b"}
	for name, v := range changes {
		attrs[name] = v
	}
	return attrs
}

// doubling is a function that doubles its input and records the sizes of its batches.
func doubling(sizes *[]int) kt.Library {
	return kt.Library{"double": func(step *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
		in := args[0].Tensor
		defer in.Release()
		*sizes = append(*sizes, in.Len())
		if err := step.Cancellation.Err(); err != nil {
			done(nil, status.Derive(err))
			return
		}
		var out []int32
		for _, v := range tensor.Of[int32](in) {
			if v == 13 {
				done(nil, status.InvalidArgumentf("bad luck"))
				return
			}
			out = append(out, 2*v)
		}
		done([]kernels.Value{{Tensor: kt.I32(kt.S(int64(len(out))), out...)}}, nil)
	}}
}

func rowsOf(values ...int32) *tensor.Tensor { return kt.I32(kt.S(int64(len(values))), values...) }

// told describes the outcome of an op: its first output, its error, or that it waits.
func told(c <-chan kt.Result) string {
	synctest.Wait()
	select {
	case r := <-c:
		if r.Err != nil {
			return r.Err.Error()
		}
		defer func() {
			for _, v := range r.Out {
				v.Release()
			}
		}()
		return fmt.Sprint(tensor.Of[int32](r.Out[0].Tensor))
	default:
		return "waits"
	}
}

func expectTold(t *testing.T, want string, c <-chan kt.Result) {
	t.Helper()
	if got := told(c); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestBatchFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		d := kt.NewDevice(t)
		op := kt.Op{Type: "BatchFunction", Attrs: batchAttrs(nil), Outputs: 1, Functions: doubling(&sizes)}
		enter := func(values ...int32) <-chan kt.Result { return kt.Start(t, d, op, rowsOf(values...)) }

		// A batch runs when its timeout expires or it is full.
		a, b := enter(1), enter(2, 3)
		expectTold(t, "waits", a)
		time.Sleep(time.Second)
		expectTold(t, "[2]", a)
		expectTold(t, "[4 6]", b)
		a, b = enter(1, 2, 3), enter(4)
		expectTold(t, "[2 4 6]", a)
		expectTold(t, "[8]", b)
		// What does not fit goes into the next batch, which runs when its timeout expires.
		a, b = enter(1, 2, 3), enter(4, 5)
		expectTold(t, "[2 4 6]", a)
		expectTold(t, "waits", b)
		time.Sleep(time.Second)
		expectTold(t, "[8 10]", b)
		if want := []int{3, 4, 3, 2}; !slices.Equal(sizes, want) {
			t.Errorf("batches of %v, want %v", sizes, want)
		}
		expectTold(t, "[]", enter())
		expectTold(t, "Task size 5 is larger than maximum input batch size 4", enter(1, 2, 3, 4, 5))

		// An error is shared by all tasks of the batch.
		a, b = enter(1), enter(13)
		time.Sleep(time.Second)
		expectTold(t, "bad luck", a)
		expectTold(t, "bad luck", b)

		// A cancelled step leaves, and the others continue.
		gone := op
		gone.Step = kt.NewStep()
		a = kt.Start(t, d, gone, rowsOf(7, 7))
		b = enter(1)
		gone.Step.Cancellation.Cancel(status.New(status.Internal, "boom"))
		expectTold(t, "Step was cancelled: boom", a)
		time.Sleep(time.Second)
		expectTold(t, "[2]", b)
		if got := sizes[len(sizes)-1]; got != 1 {
			t.Errorf("the batch had %d rows", got)
		}

		// Deletion.
		a = enter(1)
		synctest.Wait()
		if err := d.Resources().Clear(""); err != nil {
			t.Fatal(err)
		}
		expectTold(t, "The batch scheduling queue was deleted.", a)
		a = enter(1)
		time.Sleep(time.Second)
		expectTold(t, "[2]", a)
	})
}

// TestBatchFunctionLimits checks that batches run one at a time, and that the number of waiting batches is limited.
func TestBatchFunctionLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := kt.NewDevice(t)
		var ends []func()
		slow := kt.Library{"double": func(_ *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
			ends = append(ends, func() { done(args, nil) })
		}}
		op := kt.Op{Type: "BatchFunction", Attrs: batchAttrs(kt.Attrs{"max_batch_size": 1}), Outputs: 1, Functions: slow}
		enter := func(v int32) <-chan kt.Result {
			c := kt.Start(t, d, op, rowsOf(v))
			synctest.Wait()
			return c
		}
		a, b, c := enter(1), enter(2), enter(3)
		expectTold(t, "The batch scheduling queue to which this task was submitted is full; currently 2 batches enqueued and max_enqueued_batches is 2", enter(4))
		if len(ends) != 1 {
			t.Fatalf("%d batches run", len(ends))
		}
		expectTold(t, "waits", a)
		for i, c := range []<-chan kt.Result{a, b, c} {
			ends[i]()
			expectTold(t, fmt.Sprintf("[%d]", i+1), c)
		}
	})
}

// TestBatchFunctionSizes checks that batches are padded to allowed sizes, and that large inputs are split.
func TestBatchFunctionSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		d := kt.NewDevice(t)
		run := func(changes kt.Attrs, want string, wantSizes []int, values ...int32) {
			t.Helper()
			sizes = nil
			op := kt.Op{Type: "BatchFunction", Attrs: batchAttrs(changes), Outputs: 1, Functions: doubling(&sizes)}
			c := kt.Start(t, d, op, rowsOf(values...))
			time.Sleep(time.Second)
			expectTold(t, want, c)
			if !slices.Equal(sizes, wantSizes) {
				t.Errorf("batches of %v, want %v", sizes, wantSizes)
			}
		}
		run(kt.Attrs{"shared_name": "pads", "allowed_batch_sizes": []int64{1, 3, 4}}, "[2 4]", []int{3}, 1, 2)
		splits := kt.Attrs{"shared_name": "splits", "allowed_batch_sizes": []int64{1, 3}, "max_batch_size": 10, "enable_large_batch_splitting": true, "max_enqueued_batches": 3}
		run(splits, "[2 4 6 8 10 12 14]", []int{3, 3, 1}, 1, 2, 3, 4, 5, 6, 7)
		run(splits, "The batch scheduling queue to which this task was submitted is full; task size is 10 but scheduling capacity is only 9 "+
			"(num_enqueued_batches=1, max_enqueued_batches=3, open_batch_size=0, max_execution_batch_size=3)", nil, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
		run(splits, "bad luck", []int{3, 1}, 1, 2, 3, 13)

		// A cancelled split input leaves with all its parts.
		step := kt.NewStep()
		c := kt.Start(t, d, kt.Op{Type: "BatchFunction", Attrs: batchAttrs(splits), Outputs: 1, Functions: doubling(&sizes), Step: step}, rowsOf(1, 2, 3, 4, 5))
		synctest.Wait()
		step.Cancellation.Cancel(kernels.ErrStepCancelled)
		if got := told(c); got == "waits" || got == "[2 4 6 8 10]" {
			t.Errorf("a cancelled step got %s", got)
		}

		// Cut to an allowed size rather than padded.
		sizes = nil
		op := kt.Op{Type: "BatchFunction", Outputs: 1, Functions: doubling(&sizes), Attrs: batchAttrs(kt.Attrs{"shared_name": "trims",
			"allowed_batch_sizes": []int64{1, 2, 4}, "enable_large_batch_splitting": true, "batch_padding_policy": "BATCH_DOWN"})}
		a, b := kt.Start(t, d, op, rowsOf(1, 2)), kt.Start(t, d, op, rowsOf(3))
		time.Sleep(time.Second)
		expectTold(t, "[2 4]", a)
		expectTold(t, "waits", b)
		time.Sleep(time.Second)
		expectTold(t, "[6]", b)
		if want := []int{2, 1}; !slices.Equal(sizes, want) {
			t.Errorf("batches of %v, want %v", sizes, want)
		}
	})
}

func TestBatchAndUnbatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := kt.NewDevice(t)
		op := kt.Op{Type: "Batch", Attrs: batchAttrs(nil), Outputs: 3}
		a := kt.Start(t, d, op, rowsOf(1))
		synctest.Wait()
		b := kt.Start(t, d, op, rowsOf(2, 3, 4))
		first, second := <-a, <-b
		for _, r := range []kt.Result{first, second} {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		ids := []int64{tensor.Of[int64](first.Out[2].Tensor)[0], tensor.Of[int64](second.Out[2].Tensor)[0]}
		kt.Expect(t, first.Out[:2], rowsOf(), kt.I64(kt.S(0, 3)))
		index := func() *tensor.Tensor { return kt.I64(kt.S(2, 3), ids[0], 0, 1, ids[1], 1, 4) }
		kt.Expect(t, second.Out[:2], rowsOf(1, 2, 3, 4), index())
		first.Out[2].Release()
		second.Out[2].Release()

		unbatch := kt.Op{Type: "Unbatch", Outputs: 1, Attrs: kt.Attrs{"T": tensor.Int32, "timeout_micros": 1000000, "container": "", "shared_name": ""}}
		enter := func(rows, index *tensor.Tensor, id int64) <-chan kt.Result {
			c := kt.Start(t, d, unbatch, rows, index, kt.I64(nil, id))
			synctest.Wait()
			return c
		}
		none := func() *tensor.Tensor { return kt.I64(kt.S(0, 3)) }
		a = enter(rowsOf(), none(), ids[0])
		expectTold(t, "waits", a)
		expectTold(t, "[20 30 40]", enter(rowsOf(10, 20, 30, 40), index(), ids[1]))
		expectTold(t, "[10]", a)
		// In the opposite order.
		expectTold(t, "[20 30 40]", enter(rowsOf(10, 20, 30, 40), index(), ids[1]))
		expectTold(t, "[10]", enter(rowsOf(), none(), ids[0]))
		// The rows are never delivered.
		a = enter(rowsOf(), none(), 5)
		expectTold(t, "Multiple session runs with the same batch key.", enter(rowsOf(), none(), 5))
		expectTold(t, "[20 30 40]", enter(rowsOf(10, 20, 30, 40), index(), ids[1]))
		time.Sleep(time.Second)
		expectTold(t, "Batched data did not arrive within timeout window.", a)
		if n := d.Pool().Stats().InUse; n != 0 {
			t.Errorf("rows that nobody came for keep %d bytes", n)
		}
		unbatch.Step = kt.NewStep()
		a = enter(rowsOf(), none(), 6)
		unbatch.Step.Cancellation.Cancel(kernels.ErrStepCancelled)
		expectTold(t, "Step was cancelled: Step was cancelled", a)
	})
}

func TestUnbatchGrad(t *testing.T) {
	d := kt.NewDevice(t)
	op := kt.Op{Type: "UnbatchGrad", Outputs: 1, Attrs: kt.Attrs{"T": tensor.Int32, "container": "", "shared_name": ""}}
	enter := func(data, index, grad *tensor.Tensor, id int64) <-chan kt.Result {
		return kt.Start(t, d, op, data, index, grad, kt.I64(nil, id))
	}
	gives := func(c <-chan kt.Result, want ...int32) {
		t.Helper()
		r := <-c
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		kt.Expect(t, r.Out, rowsOf(want...))
	}
	none := func() *tensor.Tensor { return kt.I64(kt.S(0, 3)) }
	// The batch's own step arrives first, or last.
	a := enter(rowsOf(1, 2, 3), kt.I64(kt.S(2, 3), 8, 0, 1, 9, 1, 3), rowsOf(6, 7), 9)
	gives(enter(rowsOf(), none(), rowsOf(5), 8))
	gives(a, 5, 6, 7)
	gives(enter(rowsOf(), none(), rowsOf(5), 8))
	gives(enter(rowsOf(1, 2, 3), kt.I64(kt.S(2, 3), 8, 0, 1, 9, 1, 3), rowsOf(6, 7), 9), 5, 6, 7)

	gives(enter(rowsOf(), none(), rowsOf(5), 8))
	for message, c := range map[string]<-chan kt.Result{
		"Two runs with the same batch key.":               enter(rowsOf(), none(), rowsOf(5), 8),
		"batch_index is empty while the tensor isn't.":    enter(rowsOf(1), none(), rowsOf(5), 1),
		"batch_index should contain 3 elements. Received": enter(rowsOf(1), kt.I64(kt.S(1, 2), 1, 2), rowsOf(5), 1),
	} {
		if r := <-c; status.CodeOf(r.Err) != status.InvalidArgument {
			t.Errorf("%v, want %s", r.Err, message)
		}
	}
	// A batch whose step is cancelled drops its gradients.
	op.Step = kt.NewStep()
	a = enter(rowsOf(1, 2), kt.I64(kt.S(2, 3), 8, 0, 1, 3, 1, 2), rowsOf(6), 7)
	op.Step.Cancellation.Cancel(kernels.ErrStepCancelled)
	if r := <-a; status.CodeOf(r.Err) != status.Cancelled {
		t.Error(r.Err)
	}
	op.Step = nil
	gives(enter(rowsOf(), none(), rowsOf(5), 8))
	gives(enter(rowsOf(), none(), rowsOf(5), 3))
	if err := d.Resources().Clear(""); err != nil {
		t.Fatal(err)
	}
}

// TestGradientsAreBounded checks that gradients whose batches never arrive cannot take all memory.
func TestGradientsAreBounded(t *testing.T) {
	d := kt.NewDevice(t)
	op := kt.Op{Type: "UnbatchGrad", Outputs: 1, Attrs: kt.Attrs{"T": tensor.Int32, "container": "", "shared_name": ""}}
	k, err := d.Kernel(op, rowsOf(), kt.I64(kt.S(0, 3)), rowsOf(5), kt.I64(nil, 0))
	if err != nil {
		t.Fatal(err)
	}
	enter := func(id int64) error {
		out, err := k.Try(kt.Values(rowsOf(), kt.I64(kt.S(0, 3)), rowsOf(5), kt.I64(nil, id))...)
		for _, v := range out {
			v.Release()
		}
		return err
	}
	const most = 1 << 16
	for id := range int64(most) {
		if err := enter(id); err != nil {
			t.Fatalf("gradient %d: %v", id, err)
		}
	}
	if err := enter(most); status.CodeOf(err) != status.ResourceExhausted {
		t.Errorf("with %d waiting gradients, another one gets %v", most, err)
	}
	if err := d.Resources().Clear(""); err != nil {
		t.Fatal(err)
	}
}
