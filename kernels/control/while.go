package control

import (
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/calls"
)

// loop is the kernel of While: it calls cond and body alternately. The attributes output_shapes and parallel_iterations are hints that it
// ignores.
type loop struct{ cond, body kernels.Function }

func newWhile(c *kernels.Construction) (any, error) {
	cond, err := calls.FunctionAttr(c, "cond")
	if err != nil {
		return nil, err
	}
	body, err := calls.FunctionAttr(c, "body")
	if err != nil {
		return nil, err
	}
	return &loop{cond, body}, nil
}

// ComputeAsync starts an execution of the loop.
func (k *loop) ComputeAsync(ctx *kernels.Context, done func(error)) {
	r := &loopRun{loop: k, ctx: ctx, done: done, vars: calls.Arguments(ctx, 0)}
	r.returned = r.receive
	r.run()
}

// loopRun is one execution of a loop. A call may complete before it returns, or later on another goroutine. Either way the loop continues
// in a for statement and does not recurse: the goroutine that started the call and the one that received its results both count in arrived,
// and the later one continues.
type loopRun struct {
	*loop
	ctx      *kernels.Context
	done     func(error)
	vars     []kernels.Value
	results  []kernels.Value
	err      error
	arrived  atomic.Int32
	returned func([]kernels.Value, error)
	testing  bool            // whether the pending call is one of cond
	spare    []kernels.Value // the results of the last call of cond, reused as arguments of the next
}

func (r *loopRun) run() {
	for {
		if r.err = r.ctx.Ended(); r.err != nil {
			r.err = kernels.Cancelled(r.err)
			r.finish()
			return
		}
		r.arrived.Store(0)
		r.testing = !r.testing
		if r.testing {
			args := append(r.spare[:0], r.vars...)
			r.spare = nil
			for _, v := range args {
				if v.Tensor != nil {
					v.Tensor.Retain()
				}
			}
			r.cond.Call(r.ctx.Step, args, r.returned)
		} else {
			args := r.vars
			r.vars = nil
			r.body.Call(r.ctx.Step, args, r.returned)
		}
		if r.arrived.Add(1) == 1 || !r.proceed() {
			return
		}
	}
}

// receive handles the results of a call.
func (r *loopRun) receive(results []kernels.Value, err error) {
	r.results, r.err = results, err
	if r.arrived.Add(1) == 2 && r.proceed() {
		r.run()
	}
}

// proceed handles the results of the completed call; it returns false if the loop has ended.
func (r *loopRun) proceed() bool {
	results := r.results
	r.results = nil
	if r.err != nil {
		r.finish()
		return false
	}
	if !r.testing {
		if len(results) != len(r.ctx.Outputs) {
			r.err = status.InvalidArgumentf("While loop body returned %d arguments. Expected: %d", len(results), len(r.ctx.Outputs))
			calls.ReleaseAll(results)
			r.finish()
			return false
		}
		r.vars = results
		return true
	}
	var more bool
	if len(results) != 1 || results[0].Tensor == nil {
		r.err = status.InvalidArgumentf("Expected a single scalar which can be converted to a boolean, got %d tensors.", len(results))
	} else {
		more, r.err = truth(results[0].Tensor)
	}
	calls.ReleaseAll(results)
	r.spare = results
	if !more {
		r.finish()
	}
	return more
}

// finish ends the loop with its variables as outputs, or with the error.
func (r *loopRun) finish() {
	vars := r.vars
	r.vars = nil
	if r.err == nil {
		r.err = deliver(r.ctx, vars)
	} else {
		calls.ReleaseAll(vars)
	}
	r.done(r.err)
}
