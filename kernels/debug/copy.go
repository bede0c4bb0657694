package debug

import (
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// newCopy makes the kernel of Copy and CopyHost: what a variable holds now, or its input, which nobody changes. A variable
// without a value is handed on as it is.
func newCopy(c *kernels.Construction) (any, error) {
	specs, err := c.Attrs().List("debug_ops_spec")
	if err != nil {
		return nil, err
	}
	for _, spec := range specs.GetS() {
		if strings.Count(string(spec), ";") != 2 {
			return nil, status.Internalf("Unexpected number of semicolons in debug_ops_spec element: %s", spec)
		}
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		t := watched(ctx)
		if t == nil {
			ctx.Pass(0, 0)
			return nil
		}
		ctx.SetOutput(0, t)
		return nil
	}), nil
}

// watched is the tensor at input 0, which the caller is to release; nil for a variable without a value.
func watched(ctx *kernels.Context) *tensor.Tensor {
	in := ctx.Inputs[0]
	if in.Tensor != nil {
		return in.Tensor.Retain()
	}
	return in.Ref.Read()
}
