package dataset

import (
	"strings"
	"sync/atomic"

	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/calls"
)

// FunctionAttr is a function named by an attribute.
type FunctionAttr struct {
	Ref     *graph.FunctionRef
	Library kernels.Library
}

// Function is a function with the tensors that it captured, which follow its arguments. The dataset holds them. There may be more of them than
// the function takes: TensorFlow's Python adds those that only have to live as long as the dataset.
type Function struct {
	*FunctionAttr
	captured Element
}

// Function returns the attribute's function with the inputs from (inclusive) to to (exclusive).
func (in *Inputs) Function(f *FunctionAttr, from, to int) *Function {
	return &Function{FunctionAttr: f, captured: in.Rest(from, to)}
}

// FunctionFrom is function with all inputs starting at from.
func (in *Inputs) FunctionFrom(f *FunctionAttr, from int) *Function {
	return in.Function(f, from, in.Context.NumInputs())
}

// Bound is a function that can be called in a pipeline.
type Bound struct {
	function  kernels.Function
	functions kernels.Functions
	captured  Element
	Name      string
	env       *Env // of the iterator whose dataset calls the function
}

// Bind prepares a function in the library that the pipeline has opened.
func (e *Env) Bind(f *Function) (*Bound, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	open := e.libraries[f.Library]
	if open == nil {
		if err := e.cancel.Err(); err != nil {
			return nil, err
		}
		open = f.Library.Open()
		e.libraries[f.Library] = open
	}
	fn, err := open.InstantiateWith(f.Ref, f.captured)
	if err != nil {
		return nil, err
	}
	return &Bound{function: fn, functions: open, captured: f.captured, Name: f.Ref.Name, env: e}, nil
}

// steps numbers the calls of functions. Numbers count down, to distinguish them from session steps.
var steps atomic.Int64

// Call runs the function and waits for its results. It takes over the references to the arguments.
func (b *Bound) Call(c *Call, args ...Element) (Element, error) {
	var values []kernels.Value
	for _, e := range args {
		for _, t := range e {
			values = append(values, kernels.Value{Tensor: t})
		}
	}
	for _, t := range b.captured[:max(0, min(len(b.captured), b.function.NumArgs()-len(values)))] {
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
		Log: c.Log, Files: c.door, Depth: c.Depth + 1, Origin: c.origin, Notes: c.notes,
	}
	out, err := Await(step, b.function, values)
	if e := c.Device.Resources().Clear(step.Container); e != nil {
		c.Log.Warn("the container of a function's call was not cleared", "function", b.Name, "error", e)
	}
	return out, b.env.failed(err)
}

// Await calls a function in a step and waits for its results. If the step is cancelled, the call ends. await takes over the arguments.
func Await(step *kernels.Step, fn kernels.Function, args []kernels.Value) (Element, error) {
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

// Dataset calls a function that returns a dataset, with a reference for the caller.
func (b *Bound) Dataset(c *Call, args ...Element) (*Dataset, error) {
	out, err := b.Call(c, args...)
	if err != nil {
		return nil, err
	}
	defer out.Release()
	if len(out) != 1 {
		return nil, status.InvalidArgumentf("Function must return a single scalar of dtype DT_VARIANT.")
	}
	if _, err := InTensor(out[0]); err != nil {
		return nil, status.InvalidArgumentf("Function must return a single scalar of dtype DT_VARIANT.")
	}
	step := &kernels.Step{Cancellation: c.Cancellation, Files: c.door, Log: c.Log, Origin: c.origin, Notes: c.notes}
	return FromTensor(Place{Device: c.Device, Functions: b.functions, Step: step, Waits: true}, out[0])
}

// Opened is an iterator of the dataset that a function made of an element.
type Opened struct {
	Iterator
	From    Element
	dataset *Dataset // nil if there is none to release
}

// Open makes the dataset of an element, which it takes over, and opens it in an environment.
func (b *Bound) Open(c *Call, env *Env, from Element) (*Opened, error) {
	d, err := b.Dataset(c, from.Retain())
	if err != nil {
		from.Release()
		return nil, err
	}
	it, err := d.Open(env)
	if err != nil {
		from.Release()
		d.Release()
		return nil, err
	}
	return &Opened{it, from, d}, nil
}

// Close closes the iterator, and releases the dataset and the element.
func (o *Opened) Close() {
	o.Iterator.Close()
	o.From.Release()
	if o.dataset != nil {
		o.dataset.Release()
	}
}

// Truth calls a predicate.
func (b *Bound) Truth(c *Call, args ...Element) (bool, error) {
	out, err := b.Call(c, args...)
	if err != nil {
		return false, err
	}
	defer out.Release()
	if len(out) != 1 {
		return false, errPredicate
	}
	return TruthOf(out, 0)
}

var errPredicate = status.InvalidArgumentf("`predicate` must returns a scalar bool tensor.")

// TruthOf reads a boolean component.
func TruthOf(e Element, i int) (bool, error) {
	if i < 0 || e[i].DType() != tensor.Bool || e[i].Len() != 1 {
		return false, errPredicate
	}
	return tensor.Of[bool](e[i])[0], nil
}

// ReturnsArguments reports whether the function returns its arguments unchanged and does nothing else, so that mapping it changes nothing.
func (f *Function) ReturnsArguments() bool {
	if len(f.captured) > 0 {
		return false
	}
	defs := map[string]*functionpb.FunctionDef{}
	if f.Library.Defs(f.Ref, defs) != nil {
		return false
	}
	for _, body := range defs {
		for _, n := range body.GetNodeDef() {
			if defs[n.GetOp()] != nil {
				continue
			}
			if op, err := graph.LookupOp(n.GetOp()); err != nil || op.GetIsStateful() {
				return false
			}
		}
	}
	body := defs[f.Ref.Name]
	if body == nil {
		return false
	}
	before := map[string]string{}
	for _, n := range body.GetNodeDef() {
		if n.GetOp() == "Identity" && len(n.GetInput()) > 0 {
			before[n.GetName()] = n.GetInput()[0]
		}
	}
	args, results := body.GetSignature().GetInputArg(), body.GetSignature().GetOutputArg()
	if len(args) != len(results) {
		return false
	}
	for i, arg := range args {
		source := body.GetRet()[results[i].GetName()]
		// A valid body has no cycle of identities, but a client may send one.
		for range len(before) + 1 {
			name, _, _ := strings.Cut(source, ":")
			if before[name] == "" {
				break
			}
			source = before[name]
		}
		if source != arg.GetName() {
			return false
		}
	}
	return true
}

// Number calls a function that returns one integer.
func (b *Bound) Number(c *Call, what string, args ...Element) (int64, error) {
	out, err := b.Call(c, args...)
	if err != nil {
		return 0, err
	}
	defer out.Release()
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

// External returns an error if a checkpoint of an iterator would miss state. The error names the op, in a function, that keeps state from
// call to call. Its code is FAILED_PRECONDITION, as in TensorFlow's CheckExternalState.
func (d *Dataset) External() error { return d.externalBut(map[*Dataset]bool{}) }

func (d *Dataset) externalBut(seen map[*Dataset]bool) error {
	if seen[d] {
		return nil
	}
	seen[d] = true
	for _, in := range d.Inputs {
		if err := in.externalBut(seen); err != nil {
			return err
		}
	}
	k, ok := d.Kind.(Caller)
	if !ok {
		return nil
	}
	for _, f := range k.Functions() {
		n, err := f.Library.Find(f.Ref, hasExternalState)
		if err != nil {
			return err
		}
		if n != nil {
			return status.Errorf(status.FailedPrecondition, "%s is stateful.", n.Op)
		}
	}
	return nil
}

// Definitions adds the definitions of the functions that a dataset calls, and of those that they call.
func (d *Dataset) Definitions(defs map[string]*functionpb.FunctionDef) error {
	k, ok := d.Kind.(Caller)
	if !ok {
		return nil
	}
	for _, f := range k.Functions() {
		if err := f.Library.Defs(f.Ref, defs); err != nil {
			return err
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
