package control

import (
	"time"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// timestamp outputs the seconds since 1970 on the task's clock.
func timestamp(ctx *kernels.Context) error {
	ctx.SetOutput(0, tensor.Scalar(tensor.Float64, float64(time.Now().UnixMicro())/1e6))
	return nil
}
