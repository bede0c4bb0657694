package debug

import (
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// newCopy returns the kernel of Copy and CopyHost. It outputs the current value of a variable, or its input, which is immutable. A variable
// without a value is passed on unchanged.
func newCopy(c *kernels.Construction) (any, error) {
	specs, err := c.Attrs().StrList("debug_ops_spec")
	if err != nil {
		return nil, err
	}
	for _, spec := range specs {
		if strings.Count(spec, ";") != 2 {
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

// watched returns the tensor at input 0, or nil for a variable without a value. The caller must release it.
func watched(ctx *kernels.Context) *tensor.Tensor {
	in := ctx.Inputs[0]
	if in.Tensor != nil {
		return in.Tensor.Retain()
	}
	return in.Ref.Read()
}
