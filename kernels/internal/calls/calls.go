package calls

import (
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
)

// Instantiate prepares a function of the graph's library. It fails with INTERNAL if the graph has none.
func Instantiate(c *kernels.Construction, ref *graph.FunctionRef) (kernels.Function, error) {
	if c.Functions == nil {
		return nil, status.Internalf("No function library")
	}
	return c.Functions.Instantiate(ref)
}

// FunctionAttr instantiates the function named by an attribute.
func FunctionAttr(c *kernels.Construction, attr string) (kernels.Function, error) {
	ref, err := c.Attrs().Func(attr)
	if err != nil {
		return nil, err
	}
	return Instantiate(c, ref)
}

// Arguments takes over the inputs starting at index from.
func Arguments(ctx *kernels.Context, from int) []kernels.Value {
	args := make([]kernels.Value, len(ctx.Inputs)-from)
	for i := range args {
		args[i], ctx.Inputs[from+i] = ctx.Inputs[from+i], kernels.Value{}
	}
	return args
}

// ReleaseAll releases each value.
func ReleaseAll(values []kernels.Value) {
	for _, v := range values {
		v.Release()
	}
}
