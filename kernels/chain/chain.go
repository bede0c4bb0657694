package chain

import (
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
)

// Operand is the source of an operand of an op in a chain: an input of the chain or, if it is negative, the result of the earlier op number
// -1-Operand.
type Operand int

// ResultOf returns the operand that is the result of op number i of the chain.
func ResultOf(i int) Operand { return Operand(-1 - i) }

// result returns the op whose result the operand is; ok is false for an input.
func (o Operand) result() (op int, ok bool) { return int(-1 - o), o < 0 }

// Op is an op of a chain.
type Op struct {
	// Node is the op's own node, which errors name; Kernel is its kernel.
	Node     *graph.Node
	Kernel   kernels.Kernel
	Operands []Operand
}

// MaxOps is the maximum number of ops in a chain: their blocks must fit the processor's caches.
const MaxOps = 32

// Takes reports whether a kernel may be part of a chain.
func Takes(kernel any) bool {
	_, ok := stageOf(kernel)
	return ok
}

func stageOf(kernel any) (elementwise.Stage, bool) {
	if s, ok := kernel.(elementwise.Staged); ok {
		return s.Stage()
	}
	return elementwise.Stage{}, false
}

// Chain is the kernel of several ops, ordered so that each op follows the ops whose results it uses. The last op's result is the output. It
// may be used by several goroutines.
type Chain struct {
	ops    []op
	inputs []*elementwise.Elem
	// registers is the number of blocks needed for the results of all ops but the last; blockSize is the size of a block in bytes.
	registers, blockSize int
	layout               atomic.Pointer[layout]
	workers              sync.Pool
}

// op is an Op with what is needed to compute it block by block.
type op struct {
	Op
	elementwise.Stage
	register int
}

// New returns the kernel of a chain with the given number of inputs and at least two ops, whose kernels Takes has accepted.
func New(ops []Op, inputs int) *Chain {
	c := &Chain{inputs: make([]*elementwise.Elem, inputs)}
	for _, o := range ops {
		stage, ok := stageOf(o.Kernel)
		if !ok {
			panic("chain: no stage for op " + o.Node.Op)
		}
		for _, from := range o.Operands {
			if _, ok := from.result(); !ok {
				c.inputs[from] = stage.In
			}
		}
		c.ops = append(c.ops, op{Op: o, Stage: stage})
		c.blockSize = max(c.blockSize, element.BlockLen*max(stage.In.Size(), stage.Out.Size()))
	}
	c.assignRegisters()
	c.workers.New = func() any { return newWorker(c) }
	return c
}

// assignRegisters assigns each result but the last a block that holds no other result still needed. A result may replace an operand of its
// op if the elements of both have the same size.
func (c *Chain) assignRegisters() {
	last := make([]int, len(c.ops)) // the last op that uses each result
	for i, o := range c.ops {
		for _, from := range o.Operands {
			if r, ok := from.result(); ok {
				last[r] = i
			}
		}
	}
	var free []int
	for i := range c.ops {
		o := &c.ops[i]
		var ended []int
		for k, from := range o.Operands {
			if r, ok := from.result(); ok && last[r] == i && (k == 0 || o.Operands[0] != from) {
				ended = append(ended, c.ops[r].register)
			}
		}
		if o.In.Size() == o.Out.Size() {
			free, ended = append(free, ended...), nil
		}
		if n := len(free); n > 0 {
			o.register, free = free[n-1], free[:n-1]
		} else {
			o.register = c.registers
			c.registers++
		}
		free = append(free, ended...)
	}
}

// Compute implements kernels.Kernel.
func (c *Chain) Compute(ctx *kernels.Context) error {
	l := c.layout.Load()
	if l == nil || !l.fits(ctx.Inputs) {
		l = c.lay(ctx.Inputs)
		c.layout.Store(l)
	}
	if len(l.joint) < 2 {
		return c.apart(ctx)
	}
	return c.together(ctx, l)
}

// together computes the ops whose results are smaller than the chain's with their own kernels, and then the rest block by block.
func (c *Chain) together(ctx *kernels.Context, l *layout) error {
	results, err := c.run(ctx, l.alone)
	defer release(results)
	if err != nil {
		return err
	}
	out, err := ctx.ForwardAny(0, c.ops[len(c.ops)-1].Out.DType, l.shape, l.full...)
	if err != nil {
		return err
	}
	if l.rows*l.width <= element.CheapGrain {
		c.blocks(l, ctx.Inputs, results, out, 0, l.units())
	} else {
		c.parallel(ctx, l, results, out)
	}
	return nil
}

// blocks computes units lo to hi of the result block by block.
func (c *Chain) blocks(l *layout, inputs []kernels.Value, results []*tensor.Tensor, out *tensor.Tensor, lo, hi int) {
	w := c.workers.Get().(*worker)
	defer c.workers.Put(w)
	w.compute(l, inputs, results, element.Elements(out), lo, hi)
}

func (c *Chain) parallel(ctx *kernels.Context, l *layout, results []*tensor.Tensor, out *tensor.Tensor) {
	inputs := ctx.Inputs
	ctx.Parallel(l.units(), max(1, max(element.CostlyGrain, element.CheapGrain/len(l.joint))/l.unit), func(lo, hi int) {
		c.blocks(l, inputs, results, out, lo, hi)
	})
}

// apart computes all ops with their own kernels. It handles incompatible operands, which the failing op's kernel rejects, and results that
// grow from op to op.
func (c *Chain) apart(ctx *kernels.Context) error {
	all := make([]int, len(c.ops))
	for i := range all {
		all[i] = i
	}
	results, err := c.run(ctx, all)
	defer release(results)
	if err == nil {
		ctx.SetOutput(0, results[len(results)-1].Retain())
	}
	return err
}

// run computes ops with their kernels. It returns the results by op, nil for ops that have not run. The caller must release them.
func (c *Chain) run(ctx *kernels.Context, ops []int) ([]*tensor.Tensor, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	results := make([]*tensor.Tensor, len(c.ops))
	for _, i := range ops {
		t, err := c.runOp(ctx, &c.ops[i], results)
		if err != nil {
			return results, graph.AtNode(err, c.ops[i].Node)
		}
		results[i] = t
	}
	return results, nil
}

func (c *Chain) runOp(ctx *kernels.Context, o *op, results []*tensor.Tensor) (*tensor.Tensor, error) {
	own := kernels.Context{Node: o.Node, Device: ctx.Device, Step: ctx.Step, Tag: ctx.Tag, Inputs: make([]kernels.Value, len(o.Operands)), Outputs: make([]kernels.Value, 1)}
	for k, from := range o.Operands {
		t := ctxInput(ctx, from, results)
		own.Inputs[k].Tensor = t.Retain()
	}
	err := o.Kernel.Compute(&own)
	for _, in := range own.Inputs {
		in.Release()
	}
	if err != nil {
		own.Outputs[0].Release()
		return nil, err
	}
	return own.Outputs[0].Tensor, nil
}

// ctxInput returns the tensor of an operand.
func ctxInput(ctx *kernels.Context, from Operand, results []*tensor.Tensor) *tensor.Tensor {
	if r, ok := from.result(); ok {
		return results[r]
	}
	return ctx.Inputs[from].Tensor
}

func release(results []*tensor.Tensor) {
	for _, t := range results {
		if t != nil {
			t.Release()
		}
	}
}
