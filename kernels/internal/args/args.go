package args

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// ScalarInt reads input i, which must be a single int32 or int64.
func ScalarInt(ctx *kernels.Context, i int, what string) (int64, error) {
	t := ctx.Input(i)
	if t.Len() != 1 {
		return 0, status.InvalidArgumentf("%s must be a scalar, but it has shape %v", what, t.Shape())
	}
	if d := t.DType(); d != tensor.Int32 && d != tensor.Int64 {
		return 0, status.InvalidArgumentf("%s must be int32 or int64, not %v", what, d)
	}
	return IntAt(t, 0)
}

// VectorInts reads input i, a vector of int32 or int64.
func VectorInts(ctx *kernels.Context, i int, what string) ([]int64, error) {
	if t := ctx.Input(i); t.Rank() != 1 {
		return nil, status.InvalidArgumentf("%s must be 1-D, not %v", what, t.Shape())
	}
	return ctx.Ints(i)
}

// Inputs returns the tensors at inputs from (inclusive) to to (exclusive), borrowed.
func Inputs(ctx *kernels.Context, from, to int) []*tensor.Tensor {
	list := make([]*tensor.Tensor, to-from)
	for i := range list {
		list[i] = ctx.Input(from + i)
	}
	return list
}

// ShapeWriter reads the attribute that selects int32 or int64 for shapes, and returns the function that sets output o to a shape as a
// vector.
func ShapeWriter(c *kernels.Construction, attr string) (func(ctx *kernels.Context, o int, s tensor.Shape) error, error) {
	dtype, err := IntAttr(c, attr)
	if err != nil {
		return nil, err
	}
	return func(ctx *kernels.Context, o int, s tensor.Shape) error { return OutputInts(ctx, o, dtype, s) }, nil
}

// IntAttr reads a type attribute that must be int32 or int64.
func IntAttr(c *kernels.Construction, attr string) (tensor.DType, error) {
	dtype, err := c.Attrs().Type(attr)
	if err == nil && dtype != tensor.Int32 && dtype != tensor.Int64 {
		err = status.InvalidArgumentf("Value for attr '%s' of %v is not in the list of allowed values: int32, int64", attr, dtype)
	}
	return dtype, err
}

// OutputInts sets output o to a vector of int32 or int64. A value that does not fit int32 is rejected, as a dimension is by TensorFlow's
// Shape op.
func OutputInts(ctx *kernels.Context, o int, dtype tensor.DType, values []int64) error {
	return OutputIntsOf(ctx, o, dtype, tensor.Shape{int64(len(values))}, values)
}

// OutputIntsOf is OutputInts for an output of any shape with len(values) elements.
func OutputIntsOf(ctx *kernels.Context, o int, dtype tensor.DType, shape tensor.Shape, values []int64) error {
	out, err := ctx.Allocate(o, dtype, shape)
	if err != nil {
		return err
	}
	if dtype == tensor.Int64 {
		copy(tensor.Of[int64](out), values)
		return nil
	}
	for i, v := range values {
		if v > math.MaxInt32 || v < math.MinInt32 {
			return status.InvalidArgumentf("%s output type is 32-bit but dim %d is %d", ctx.Node.Op, i, v)
		}
		tensor.Of[int32](out)[i] = int32(v)
	}
	return nil
}

// NeedScalar returns an error if t is not a scalar of the dtype. text is the error for a wrong rank.
func NeedScalar(t *tensor.Tensor, dtype tensor.DType, text string) error {
	if t.DType() != dtype {
		return status.InvalidArgumentf("Expected a scalar of type %v, got type %v", dtype, t.DType())
	}
	if t.Rank() != 0 {
		return status.InvalidArgumentf(text, t.Shape())
	}
	return nil
}

// ScalarInput32 reads input i, an int32 scalar.
func ScalarInput32(ctx *kernels.Context, i int, text string) (int, error) {
	t := ctx.Input(i)
	if err := NeedScalar(t, tensor.Int32, text); err != nil {
		return 0, err
	}
	return int(tensor.Of[int32](t)[0]), nil
}

// FirstError returns the first error that is not nil.
func FirstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// CheckType returns an error if input i does not have the dtype that the kernel was chosen for.
func CheckType(ctx *kernels.Context, i int, want tensor.DType) error {
	if have := ctx.Inputs[i].Tensor.DType(); have != want {
		return status.InvalidArgumentf("Input %d of %s is of type %v, but %v is expected", i, ctx.Node.Op, have, want)
	}
	return nil
}

// IntAt returns element i of a tensor of int16, int32 or int64.
func IntAt(t *tensor.Tensor, i int) (int64, error) {
	switch t.DType() {
	case tensor.Int16:
		return int64(tensor.Of[int16](t)[i]), nil
	case tensor.Int32:
		return int64(tensor.Of[int32](t)[i]), nil
	case tensor.Int64:
		return tensor.Of[int64](t)[i], nil
	}
	return 0, status.InvalidArgumentf("Expected a tensor of int16, int32 or int64, not of %v", t.DType())
}

// ChannelsFirst reads the attribute data_format of image ops. It returns true for NCHW and NCDHW.
func ChannelsFirst(c *kernels.Construction) (bool, error) {
	format, err := c.Attrs().Str("data_format")
	if err != nil {
		return false, err
	}
	switch format {
	case "NHWC", "NDHWC":
		return false, nil
	case "NCHW", "NCDHW":
		return true, nil
	}
	return false, status.InvalidArgumentf("Invalid data format")
}

// ShapeInput returns the shape given by a vector of int32 or int64 at input i.
func ShapeInput(ctx *kernels.Context, i int) (tensor.Shape, error) {
	t := ctx.Input(i)
	if t.Rank() != 1 {
		return nil, status.InvalidArgumentf("shape must be a vector of {int32,int64}, got shape %v", t.Shape())
	}
	dims, err := ctx.Ints(i)
	if err != nil {
		return nil, status.InvalidArgumentf("shape must be a vector of {int32,int64}.")
	}
	for _, d := range dims {
		if d < 0 {
			return nil, status.InvalidArgumentf("Dimension %d must be >= 0", d)
		}
	}
	shape := tensor.Shape(dims)
	_, err = shape.NumElements()
	return shape, err
}

// OutputString sets output 0 to a scalar string.
func OutputString(ctx *kernels.Context, s string) error {
	out, err := ctx.Allocate(0, tensor.String, nil)
	if err == nil {
		out.Strings()[0] = s
	}
	return err
}

// ScalarString returns the string at input i; refused is the error if the input is not a scalar string.
func ScalarString(c *kernels.Context, i int, refused string) (string, error) {
	if t := c.Input(i); t.DType() == tensor.String && t.Rank() == 0 {
		return t.Strings()[0], nil
	}
	return "", status.New(status.InvalidArgument, refused)
}

// ScalarNumber returns the integer at input i; refused is the error if the input is not a scalar of the dtype.
func ScalarNumber(c *kernels.Context, i int, dtype tensor.DType, refused string) (int64, error) {
	if t := c.Input(i); t.DType() == dtype && t.Rank() == 0 {
		return IntAt(t, 0)
	}
	return 0, status.New(status.InvalidArgument, refused)
}
