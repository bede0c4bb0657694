package kernels

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

func init() {
	Register(
		Def{Op: "CheckNumerics", Device: "GPU", Types: floats, New: checkNumericsOn(anomalies.String)},
		Def{Op: "CheckNumericsV2", Device: "GPU", Types: floats, New: checkNumericsOn(anomalies.signed)},
	)
}

// checkNumericsOn makes the kernel that looks for anomalies on the device, and waits for what was
// found: the value goes on only where there is none.
func checkNumericsOn(describe func(anomalies) string) func(*Construction) (any, error) {
	return func(c *Construction) (any, error) {
		message, err := c.Attrs().Str("message")
		if err != nil {
			return nil, err
		}
		return AsyncFunc(func(ctx *Context, done func(error)) {
			t := ctx.Input(0)
			if t.Len() == 0 {
				ctx.Pass(0, 0)
				done(nil)
				return
			}
			found, err := zeros(ctx, ctx.Device.Memory(), tensor.Uint32, nil)
			if err != nil {
				done(err)
				return
			}
			a := accelerator(ctx.Device)
			a.Launch(ctx, elementwise(a, "find_anomalies_"+suffixes[t.DType()], t.Len(), t.Address(), uint64(t.Len()), found.Address()))
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
