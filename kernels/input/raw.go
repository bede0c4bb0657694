package input

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
)

// rawTypes are the types that DecodePaddedRaw decodes to; DecodeRaw supports some more.
var rawTypes = []tensor.DType{
	tensor.Float16, tensor.Float32, tensor.Float64, tensor.Int32, tensor.Uint16, tensor.Uint8, tensor.Int16, tensor.Int8, tensor.Int64, tensor.BFloat16,
}

// rawOp is the common part of the two ops that decode strings into numbers.
type rawOp struct {
	dtype tensor.DType
	swap  int // size of a number whose bytes are to be reversed; 1 for none
}

func newRawOp(c *kernels.Construction) (rawOp, error) {
	a := c.Attrs().Reader()
	dtype, little := a.Type("out_type"), a.Bool("little_endian")
	if err := a.Err(); err != nil {
		return rawOp{}, err
	}
	k := rawOp{dtype: dtype, swap: 1}
	if !little {
		k.swap = dtype.Size()
		if dtype.IsComplex() {
			k.swap /= 2
		}
	}
	return k, nil
}

// put decodes s, which must fit, and sets the rest to zero.
func (k rawOp) put(dst []byte, s string) {
	clear(dst[copy(dst, s):])
	if k.swap > 1 {
		for number := range slices.Chunk(dst, k.swap) {
			slices.Reverse(number)
		}
	}
	if k.dtype == tensor.Bool {
		for i, b := range dst {
			dst[i] = min(b, 1)
		}
	}
}

func newDecodeRaw(c *kernels.Construction) (any, error) {
	k, err := newRawOp(c)
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		in := ctx.Input(0)
		length := 0
		for i, s := range in.Strings() {
			if i == 0 {
				length = len(s)
			} else if len(s) != length {
				return status.InvalidArgumentf("DecodeRaw requires input strings to all be the same size, but element %d has size %d != %d", i, length, len(s))
			}
		}
		if size := k.dtype.Size(); length%size != 0 {
			return status.InvalidArgumentf("Input to DecodeRaw has length %d that is not a multiple of %d, the size of %v", length, size, k.dtype)
		}
		return k.decode(ctx, length)
	}), nil
}

func newDecodePaddedRaw(c *kernels.Construction) (any, error) {
	k, err := newRawOp(c)
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		length, err := args.ScalarInput32(ctx, 1, "k must be scalar, got shape %v")
		switch size := k.dtype.Size(); {
		case err != nil:
			return err
		case length%size != 0:
			return status.InvalidArgumentf("fixed_length (%d) must be a multiple of the size of out_type (%d)", length, size)
		case length <= 0:
			return status.InvalidArgumentf("fixed_length (%d) must be greater than zero.", length)
		}
		return k.decode(ctx, length)
	}), nil
}

// decode decodes length bytes of each string into numbers.
func (k rawOp) decode(ctx *kernels.Context, length int) error {
	in := ctx.Input(0)
	out, err := ctx.Allocate(0, k.dtype, append(in.Shape().Clone(), int64(length/k.dtype.Size())))
	if err != nil {
		return err
	}
	if length > 0 {
		rest := out.Data()
		for _, s := range in.Strings() {
			k.put(rest[:length], s[:min(length, len(s))])
			rest = rest[length:]
		}
	}
	return nil
}
