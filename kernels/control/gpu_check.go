package control

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/launch"
	"github.com/troupe-run/troupe/kernels/internal/layout"
)

// checkNumericsOn returns the constructor of a kernel that checks for anomalies on the device and waits for the result: the value is passed
// on only if there are none.
func checkNumericsOn(describe func(anomalies) string) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		message, err := c.Attrs().Str("message")
		if err != nil {
			return nil, err
		}
		return kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) {
			t := ctx.Input(0)
			if t.Len() == 0 {
				ctx.Pass(0, 0)
				done(nil)
				return
			}
			found, err := layout.Zeros(ctx, ctx.Device.Memory(), tensor.Uint32, nil)
			if err != nil {
				done(err)
				return
			}
			a := kernels.AcceleratorOf(ctx.Device)
			a.Launch(ctx, launch.PerElement(a, "find_anomalies_"+launch.Suffixes[t.DType()], t.Len(), t.Address(), uint64(t.Len()), found.Address()))
			a.Download(ctx, found, func(bits *tensor.Tensor, err error) {
				if err != nil {
					done(err)
					return
				}
				seen := tensor.Of[uint32](bits)[0]
				bits.Release()
				if text := describe(anomalies{nan: seen&1 != 0, plusInf: seen&2 != 0, minusInf: seen&4 != 0}); text != "" {
					done(status.InvalidArgumentf("%s : Tensor had %s values", message, text))
					return
				}
				ctx.Pass(0, 0)
				done(nil)
			})
			found.Release()
		}), nil
	}
}
