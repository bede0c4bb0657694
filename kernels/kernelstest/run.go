package kernelstest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// Case is one execution of an op and its expected result.
type Case struct {
	// Name is the subtest's name; it defaults to the op's name.
	Name string
	Op   string
	// Node is the node's name; it defaults to "n".
	Node string
	// Attrs are the attributes that differ from the op's defaults and cannot be inferred from the inputs.
	Attrs Attrs
	// Raw are attributes as messages; Attrs take precedence.
	Raw graph.Attrs
	// Inputs are *tensor.Tensor or, for references, *containers.Variable. The case keeps its references.
	Inputs []any
	// Want are the expected outputs; nil means that the output must be missing.
	Want []*tensor.Tensor
	// Tolerance is the permitted error of floating-point elements, see Diff.
	Tolerance float64
	// Code and Err, if set, are the code and a part of the message that the op must fail with.
	Code status.Code
	Err  string
}

// Check runs each case as a subtest, once with shared inputs and once with inputs that the kernel may take over.
func Check(t *testing.T, cases ...Case) {
	t.Helper()
	for _, c := range cases {
		name := c.Name
		if name == "" {
			name = c.Op
		}
		t.Run(name, func(t *testing.T) {
			t.Helper()
			for _, own := range []bool{false, true} {
				c.run(t, own)
			}
		})
	}
}

func (c *Case) run(t *testing.T, own bool) {
	t.Helper()
	d := NewDevice(t)
	inputs := make([]any, len(c.Inputs))
	var before, shared []*tensor.Tensor
	for i, in := range c.Inputs {
		inputs[i] = in
		if in, ok := in.(*tensor.Tensor); ok {
			mine := must(in.Clone(d.pool))
			inputs[i] = mine
			if !own {
				before, shared = append(before, in), append(shared, mine.Retain())
			}
		}
	}
	outputs, err := d.Try(Op{Type: c.Op, Name: c.Node, Attrs: c.Attrs, Raw: c.Raw, Outputs: len(c.Want)}, inputs...)
	for i, s := range shared {
		if diff := Diff(s, before[i], 0); diff != "" {
			t.Errorf("the kernel wrote to an input that others can see: %s", diff)
		}
		s.Release()
	}
	if c.Err != "" || c.Code != status.OK {
		if status.CodeOf(err) != c.Code || !strings.Contains(fmt.Sprint(err), c.Err) {
			t.Errorf("got %v: %v, want %v: %s", status.CodeOf(err), err, c.Code, c.Err)
		}
	} else if err != nil {
		t.Errorf("failed: %v: %v", status.CodeOf(err), err)
	} else {
		c.compare(t, outputs)
	}
	for _, v := range outputs {
		v.Release()
	}
}

func (c *Case) compare(t *testing.T, outputs []kernels.Value) {
	t.Helper()
	for i, want := range c.Want {
		got := outputs[i].Tensor
		if outputs[i].Ref != nil {
			if got = outputs[i].Ref.Read(); got != nil {
				defer got.Release()
			}
		}
		if want == nil {
			if got != nil {
				t.Errorf("output %d should be missing", i)
			}
		} else if diff := Diff(got, want, c.Tolerance); diff != "" {
			t.Errorf("output %d: %s", i, diff)
		}
	}
}

// Op is a node to run.
type Op struct {
	Type string
	// Name is the node's name; it defaults to "n".
	Name  string
	Attrs Attrs
	Raw   graph.Attrs
	// Outputs is the number of outputs, for ops that are not in the registry.
	Outputs int
	// Step is the step to run in; nil creates a new one.
	Step *kernels.Step
	// Caller, if not nil, is notified of what the op waits for.
	Caller kernels.Caller
	// Functions are the functions that functional ops call.
	Functions kernels.Functions
	Session   string
}

// Try creates the op's kernel and runs it once. It takes over a reference to each input; the caller owns the outputs. After an error there
// are no outputs.
func (d *Device) Try(op Op, inputs ...any) ([]kernels.Value, error) {
	values := Values(inputs...)
	k, err := d.Kernel(op, inputs...)
	if err != nil {
		Release(values)
		return nil, err
	}
	return k.Try(values...)
}

// Run is Try for an op that must not fail.
func (d *Device) Run(t testing.TB, op Op, inputs ...any) []kernels.Value {
	t.Helper()
	out, err := d.Try(op, inputs...)
	if err != nil {
		t.Fatalf("%s failed: %v: %v", op.Type, status.CodeOf(err), err)
	}
	return out
}

// Values converts tensors and variables to values.
func Values(inputs ...any) []kernels.Value {
	values := make([]kernels.Value, len(inputs))
	for i, in := range inputs {
		switch in := in.(type) {
		case *tensor.Tensor:
			values[i].Tensor = in
		case *containers.Variable:
			values[i].Ref = in
		case kernels.Value:
			values[i] = in
		default:
			panic(fmt.Sprintf("kernelstest: a %T cannot be an input", in))
		}
	}
	return values
}

// Kernel is a node with its kernel, which may run more than once.
type Kernel struct {
	Node      *graph.Node
	Step      *kernels.Step
	Caller    kernels.Caller
	device    kernels.Device
	carry     *carry // nil on the CPU
	resources *containers.Manager
	impl      any
}

// Kernel creates the node and its kernel; inputs determine the types.
func (d *Device) Kernel(op Op, inputs ...any) (*Kernel, error) {
	node := op.node(inputs)
	k := &Kernel{Node: node, Step: op.Step, Caller: op.Caller, device: d, resources: d.resources}
	if d.accelerator != nil && kernels.Supports(node, d.accelerator.Type()) {
		k.device, k.carry = d.accelerator, newCarry(d.accelerator, node)
	}
	def, err := kernels.Find(node, k.device.Type())
	if err != nil {
		return nil, err
	}
	if k.carry != nil {
		countRow(def)
	}
	k.impl, err = def.New(&kernels.Construction{Node: node, Device: k.device, Session: op.Session, Functions: op.Functions})
	if err != nil {
		return nil, err
	}
	if c, ok := k.impl.(kernels.Closer); ok {
		d.t.Cleanup(c.Close)
	}
	if k.Step == nil {
		k.Step = NewStep()
	}
	return k, nil
}

// Try runs the kernel and waits for it. It takes over the inputs.
func (k *Kernel) Try(inputs ...kernels.Value) ([]kernels.Value, error) {
	type result struct {
		out []kernels.Value
		err error
	}
	c := make(chan result, 1)
	k.Start(inputs, func(out []kernels.Value, err error) { c <- result{out, err} })
	r := <-c
	return r.out, r.err
}

// Start runs the kernel; done receives the outputs, on any goroutine. It takes over the inputs.
func (k *Kernel) Start(inputs []kernels.Value, done func([]kernels.Value, error)) {
	ctx := &kernels.Context{Node: k.Node, Device: k.device, Step: k.Step, Caller: k.Caller, Inputs: inputs, Outputs: make([]kernels.Value, len(k.Node.OutTypes))}
	back := func() error { return nil }
	if k.carry != nil {
		ctx.HostOutputs = k.carry.hostOut
		var err error
		if back, err = k.carry.in(k.resources, inputs); err != nil {
			Release(inputs)
			done(nil, err)
			return
		}
	}
	end := func(err error) {
		err = k.settle(ctx, back, err)
		if err == nil {
			err = k.Step.Ended() // as the executor does
		}
		Release(ctx.Inputs)
		if err != nil {
			Release(ctx.Outputs)
			ctx.Outputs = nil
		}
		done(ctx.Outputs, err)
	}
	switch impl := k.impl.(type) {
	case kernels.Kernel:
		end(impl.Compute(ctx))
	case kernels.AsyncKernel:
		impl.ComputeAsync(ctx, end)
	default:
		panic(fmt.Sprintf("kernelstest: a %T is no kernel", impl))
	}
}

// settle waits until the accelerator has done the kernel's work, and moves the values back.
func (k *Kernel) settle(ctx *kernels.Context, back func() error, err error) error {
	if k.carry == nil {
		return err
	}
	settled := make(chan error, 1)
	k.carry.accelerator.Settle(k.Step, func(err error) { settled <- err })
	if e := <-settled; err == nil {
		err = e
	}
	if e := k.carry.out(ctx.Outputs); err == nil {
		err = e
	}
	if e := back(); err == nil {
		err = e
	}
	return err
}

// Release releases each of the values.
func Release(values []kernels.Value) {
	for _, v := range values {
		v.Release()
	}
}

// Impl returns the kernel itself, a kernels.Kernel or kernels.AsyncKernel.
func (k *Kernel) Impl() any { return k.impl }
