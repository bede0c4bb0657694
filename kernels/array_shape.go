package kernels

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// shapeWriter reads the attribute that tells how shapes come out, int32 or int64, and gives the
// function that makes output o a vector of a shape.
func shapeWriter(c *Construction, attr string) (func(ctx *Context, o int, s tensor.Shape) error, error) {
	dtype, err := c.Attrs().Type(attr)
	if err != nil {
		return nil, err
	}
	switch dtype {
	case tensor.Int32, tensor.Int64:
	default:
		return nil, status.InvalidArgumentf("Value for attr '%s' of %v is not in the list of allowed values: int32, int64", attr, dtype)
	}
	return func(ctx *Context, o int, s tensor.Shape) error {
		out, err := ctx.Allocate(o, dtype, tensor.Shape{int64(len(s))})
		if err != nil {
			return err
		}
		return writeInts(out, s)
	}, nil
}

// writeInts fills an int32 or int64 tensor with the values; one that does not fit int32 is
// refused, as a dimension is by TensorFlow's Shape op.
func writeInts(out *tensor.Tensor, values []int64) error {
	if out.DType() == tensor.Int64 {
		copy(tensor.Of[int64](out), values)
		return nil
	}
	for i, v := range values {
		if v > math.MaxInt32 || v < math.MinInt32 {
			return status.InvalidArgumentf("Shape output type is 32-bit but dim %d is %d", i, v)
		}
		tensor.Of[int32](out)[i] = int32(v)
	}
	return nil
}
