package data

import (
	"strings"
	"sync/atomic"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/calls"
)

// functionAttr is a function named by an attribute.
type functionAttr struct {
	ref     *graph.FunctionRef
	library kernels.Library
}

// Function is a function with the tensors that it captured, which follow its arguments. The dataset holds them. There may be more of them than
// the function takes: TensorFlow's Python adds those that only have to live as long as the dataset.
type Function struct {
	*functionAttr
	captured Element
}

// function returns the attribute's function with the inputs from (inclusive) to to (exclusive).
func (in *inputs) function(f *functionAttr, from, to int) *Function {
	return &Function{functionAttr: f, captured: in.rest(from, to)}
}

// functionFrom is function with all inputs starting at from.
func (in *inputs) functionFrom(f *functionAttr, from int) *Function {
	return in.function(f, from, in.ctx.NumInputs())
}

// bound is a function that can be called in a pipeline.
type bound struct {
	kernels.Function
	functions kernels.Functions
	captured  Element
	name      string
	env       *Env // of the iterator whose dataset calls the function
}

// bind prepares a function in the library that the pipeline has opened.
func (e *Env) bind(f *Function) (*bound, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	open := e.libraries[f.library]
	if open == nil {
		if err := e.cancel.Err(); err != nil {
			return nil, err
		}
		open = f.library.Open()
		e.libraries[f.library] = open
	}
	fn, err := open.InstantiateWith(f.ref, f.captured)
	if err != nil {
		return nil, err
	}
	return &bound{Function: fn, functions: open, captured: f.captured, name: f.ref.Name, env: e}, nil
}

// steps numbers the calls of functions. Numbers count down, to distinguish them from session steps.
var steps atomic.Int64

// call runs the function and waits for its results. It takes over the references to the arguments.
func (b *bound) call(c *Call, args ...Element) (Element, error) {
	var values []kernels.Value
	for _, e := range args {
		for _, t := range e {
			values = append(values, kernels.Value{Tensor: t})
		}
	}
	for _, t := range b.captured[:max(0, min(len(b.captured), b.NumArgs()-len(values)))] {
		values = append(values, kernels.Value{Tensor: t.Retain()})
	}
	// A failed call cancels its step, so it needs a step of its own.
	cancel := &kernels.Cancellation{}
	withdraw, ok := c.Cancellation.OnCancel(cancel.Cancel)
	if !ok {
		calls.ReleaseAll(values)
		return nil, c.Err()
	}
	defer withdraw()
	id := steps.Add(-1)
	step := &kernels.Step{
		ID: id, Rendezvous: nowhere{}, Cancellation: cancel, Container: containers.StepName(id),
		Log: c.log, Files: c.door, Depth: c.depth + 1, Origin: c.origin, Notes: c.notes,
	}
	out, err := await(step, b.Function, values)
	if e := c.device.Resources().Clear(step.Container); e != nil {
		c.log.Warn("the container of a function's call was not cleared", "function", b.name, "error", e)
	}
	return out, b.env.failed(err)
}

// await calls a function in a step and waits for its results. If the step is cancelled, the call ends. await takes over the arguments.
func await(step *kernels.Step, fn kernels.Function, args []kernels.Value) (Element, error) {
	done := make(chan struct{})
	var results []kernels.Value
	var err error
	fn.Call(step, args, func(r []kernels.Value, e error) {
		results, err = r, e
		close(done)
	})
	<-done
	if err != nil {
		return nil, err
	}
	out := make(Element, len(results))
	for i, v := range results {
		out[i] = v.Tensor
	}
	return out, nil
}

// dataset calls a function that returns a dataset, with a reference for the caller.
func (b *bound) dataset(c *Call, args ...Element) (*Dataset, error) {
	out, err := b.call(c, args...)
	if err != nil {
		return nil, err
	}
	defer out.release()
	if len(out) != 1 {
		return nil, status.InvalidArgumentf("Function must return a single scalar of dtype DT_VARIANT.")
	}
	if _, err := datasetAt(out[0]); err != nil {
		return nil, status.InvalidArgumentf("Function must return a single scalar of dtype DT_VARIANT.")
	}
	step := &kernels.Step{Cancellation: c.Cancellation, Files: c.door, Log: c.log, Origin: c.origin, Notes: c.notes}
	return datasetIn(place{device: c.device, functions: b.functions, step: step, waits: true}, out[0])
}

// truth calls a predicate.
func (b *bound) truth(c *Call, args ...Element) (bool, error) {
	out, err := b.call(c, args...)
	if err != nil {
		return false, err
	}
	defer out.release()
	if len(out) != 1 {
		return false, errPredicate
	}
	return truthOf(out, 0)
}

var errPredicate = status.InvalidArgumentf("`predicate` must returns a scalar bool tensor.")

// truthOf reads a boolean component.
func truthOf(e Element, i int) (bool, error) {
	if i < 0 || e[i].DType() != tensor.Bool || e[i].Len() != 1 {
		return false, errPredicate
	}
	return tensor.Of[bool](e[i])[0], nil
}

// number calls a function that returns one integer.
func (b *bound) number(c *Call, what string, args ...Element) (int64, error) {
	out, err := b.call(c, args...)
	if err != nil {
		return 0, err
	}
	defer out.release()
	if len(out) != 1 || out[0].DType() != tensor.Int64 || out[0].Len() != 1 {
		return 0, status.InvalidArgumentf("`%s` must return a scalar int64.", what)
	}
	return tensor.Of[int64](out[0])[0], nil
}

// nowhere is the rendezvous of functions, which run on one device and send nothing.
type nowhere struct{}

var errNoTransfer = status.New(status.Unimplemented, "A function of an input pipeline cannot send tensors to another device")

func (nowhere) Send(kernels.Key, string, *tensor.Tensor, bool) error { return errNoTransfer }

func (nowhere) Recv(_ kernels.Key, done func(*tensor.Tensor, bool, error)) {
	done(nil, false, errNoTransfer)
}

// external returns an error if a checkpoint of an iterator would miss state. The error names the op, in a function, that keeps state from
// call to call. Its code is FAILED_PRECONDITION, as in TensorFlow's CheckExternalState.
func (d *Dataset) external() error { return d.externalBut(map[*Dataset]bool{}) }

func (d *Dataset) externalBut(seen map[*Dataset]bool) error {
	if seen[d] {
		return nil
	}
	seen[d] = true
	for _, in := range d.inputs {
		if err := in.externalBut(seen); err != nil {
			return err
		}
	}
	k, ok := d.kind.(interface{ functions() []*Function })
	if !ok {
		return nil
	}
	for _, f := range k.functions() {
		n, err := f.library.Find(f.ref, hasExternalState)
		if err != nil {
			return err
		}
		if n != nil {
			return status.Errorf(status.FailedPrecondition, "%s is stateful.", n.Op)
		}
	}
	return nil
}

// hasExternalState reports whether a node has state that the calls of its function share. TensorFlow's list of ops without such state is in
// framework/dataset_stateful_op_allowlist.h and next to the ops.
func hasExternalState(n *graph.Node) bool {
	if n.Def == nil || !n.Def.GetIsStateful() {
		return false
	}
	switch n.Op {
	case "Assert", "Print", "PrintV2", "Timestamp", "LookupTableFindV2", "LookupTableSize", "LookupTableSizeV2", "ReduceDataset",
		"StatefulPartitionedCall", "If", "While", "Case", "_Arg", "_Retval":
		return false
	}
	return !strings.Contains(n.Op, "Dataset")
}
