package control

import (
	"slices"
	"sync/atomic"

	devicename "github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/calls"
)

// counted is the kernel of For: it calls body with an index, from start by delta up to limit, and the results of the previous call.
type counted struct{ body kernels.Function }

func newFor(c *kernels.Construction) (any, error) {
	body, err := calls.FunctionAttr(c, "body")
	if err != nil {
		return nil, err
	}
	return &counted{body}, nil
}

// ComputeAsync starts an execution of the loop.
func (k *counted) ComputeAsync(ctx *kernels.Context, done func(error)) {
	var bounds [3]int64
	for i, name := range []string{"start", "limit", "delta"} {
		if ctx.Input(i).Rank() != 0 {
			done(status.InvalidArgumentf("%s must be a scalar, but %v", name, ctx.Input(i).Shape()))
			return
		}
		bounds[i] = int64(tensor.Of[int32](ctx.Input(i))[0])
	}
	start, limit, delta := bounds[0], bounds[1], bounds[2]
	if delta > 0 && start > limit || delta < 0 && start < limit || delta == 0 && start != limit {
		done(status.InvalidArgumentf("Invalid start/limit/delta: %d %d %d", start, limit, delta))
		return
	}
	r := &countedRun{counted: k, ctx: ctx, done: done, at: start, limit: limit, delta: delta, vars: calls.Arguments(ctx, 3)}
	r.returned = r.receive
	r.run()
}

// countedRun is one execution of a For. Like that of a While, it does not recurse.
type countedRun struct {
	*counted
	ctx              *kernels.Context
	done             func(error)
	at, limit, delta int64
	vars             []kernels.Value
	err              error
	arrived          atomic.Int32
	returned         func([]kernels.Value, error)
}

func (r *countedRun) run() {
	for {
		if r.err == nil {
			if r.err = r.ctx.Ended(); r.err != nil {
				r.err = kernels.Cancelled(r.err)
			}
		}
		if r.err != nil || r.delta >= 0 && r.at >= r.limit || r.delta < 0 && r.at <= r.limit {
			r.finish()
			return
		}
		index, err := tensor.New(r.ctx.Device.Pool(), tensor.Int32, nil)
		if err != nil {
			r.err = err
			continue
		}
		tensor.Of[int32](index)[0] = int32(r.at)
		args := append(make([]kernels.Value, 0, len(r.vars)+1), kernels.Value{Tensor: index})
		args = append(args, r.vars...)
		r.vars = nil
		r.at += r.delta
		r.arrived.Store(0)
		r.body.Call(r.ctx.Step, args, r.returned)
		if r.arrived.Add(1) == 1 {
			return
		}
	}
}

// receive handles the results of a call.
func (r *countedRun) receive(results []kernels.Value, err error) {
	r.vars, r.err = results, err
	if err == nil && len(results) != len(r.ctx.Outputs) {
		r.err = status.InvalidArgumentf("For loop body returned %d arguments. Expected: %d", len(results), len(r.ctx.Outputs))
	}
	if r.arrived.Add(1) == 2 {
		r.run()
	}
}

// finish ends the loop with its variables as outputs, or with the error.
func (r *countedRun) finish() {
	vars := r.vars
	r.vars = nil
	if r.err == nil {
		r.err = deliver(r.ctx, vars)
	} else {
		calls.ReleaseAll(vars)
	}
	r.done(r.err)
}

// newRemoteCall returns the kernel of a RemoteCall on the only device of its session. For all other RemoteCalls, package lower has replaced
// the node with the function's nodes.
func newRemoteCall(c *kernels.Construction) (any, error) {
	fn, err := calls.FunctionAttr(c, "f")
	if err != nil {
		return nil, err
	}
	own, err := devicename.Parse(c.Device.Name())
	if err != nil {
		return nil, err
	}
	return kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) {
		if ctx.Input(0).Rank() != 0 {
			done(status.InvalidArgumentf("The target of a RemoteCall must be a scalar, but it has shape %v", ctx.Input(0).Shape()))
			return
		}
		name := ctx.Input(0).Strings()[0]
		target, err := devicename.Parse(name)
		if err == nil && !target.Matches(own) {
			err = status.InvalidArgumentf("RemoteCall: the session has no device %s, only %s", name, ctx.Device.Name())
		}
		if err != nil {
			done(err)
			return
		}
		callFunction(ctx, fn, calls.Arguments(ctx, 1), done)
	}), nil
}

// newDeviceIndex returns the kernel that outputs the position of its own device type in a list of types, or the list's length if it is
// missing.
func newDeviceIndex(c *kernels.Construction) (any, error) {
	names, err := c.Attrs().StrList("device_names")
	if err != nil {
		return nil, err
	}
	index := slices.Index(names, c.Device.Type())
	if index < 0 {
		index = len(names)
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		out, err := ctx.Allocate(0, tensor.Int32, nil)
		if err == nil {
			tensor.Of[int32](out)[0] = int32(index)
		}
		return err
	}), nil
}
