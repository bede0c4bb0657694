package nn

import (
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// formats reads the attributes src_format and dst_format, which name each dimension by a letter.
func formats(c *kernels.Construction) (src, dst string, err error) {
	a := c.Attrs().Reader()
	src, dst = a.Str("src_format"), a.Str("dst_format")
	if err := a.Err(); err != nil {
		return "", "", err
	}
	if len(src) != 4 && len(src) != 5 {
		return "", "", status.InvalidArgumentf("Source format must be of length 4 or 5, received src_format = %s", src)
	}
	if len(dst) != 4 && len(dst) != 5 {
		return "", "", status.InvalidArgumentf("Destination format must be of length 4 or 5, received dst_format = %s", dst)
	}
	seen := map[rune]bool{}
	for _, letter := range src {
		if seen[letter] || len(src) != len(dst) || !strings.ContainsRune(dst, letter) {
			return "", "", status.InvalidArgumentf("Destination and source format must determine a permutation, got %s and %s", src, dst)
		}
		seen[letter] = true
	}
	return src, dst, nil
}

// formatDimMap returns the kernel of DataFormatDimMap, which translates dimensions from one format to the other.
func formatDimMap[T int32 | int64](c *kernels.Construction) (any, error) {
	src, dst, err := formats(c)
	if err != nil {
		return nil, err
	}
	to := make([]T, len(src))
	for i := range src {
		to[i] = T(strings.IndexByte(dst, src[i]))
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		if err := args.CheckType(ctx, 0, element.DTypeOf[T]()); err != nil {
			return err
		}
		in := ctx.Input(0)
		out, err := ctx.Allocate(0, in.DType(), in.Shape())
		if err != nil {
			return err
		}
		n := T(len(to))
		for i, v := range element.ViewOf[T](in) {
			if v < -n || v >= n {
				return status.InvalidArgumentf("Dimension %d is not in the range [%d, %d)", v, -n, n)
			}
			element.ViewOf[T](out)[i] = to[(v+n)%n]
		}
		return nil
	}), nil
}

// formatPermute returns the kernel of DataFormatVecPermute, which permutes the entries for the dimensions, or for the spatial ones, as the
// dimensions themselves.
func formatPermute[T int32 | int64](c *kernels.Construction) (any, error) {
	src, dst, err := formats(c)
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		if err := args.CheckType(ctx, 0, element.DTypeOf[T]()); err != nil {
			return err
		}
		in := ctx.Input(0)
		full, spatial := len(src), len(src)-2
		switch {
		case in.Rank() != 1 && in.Rank() != 2:
			return status.InvalidArgumentf("input must be a vector or 2D tensor, but got shape %v", in.Shape())
		case in.Rank() == 1 && in.Len() != spatial && in.Len() != full:
			return status.InvalidArgumentf("1D input must be of size %d or %d, but got shape %v", spatial, full, in.Shape())
		case in.Rank() == 2 && in.Dim(0) != spatial && in.Dim(0) != full:
			return status.InvalidArgumentf("First dimension of 2D input must be of size %d or %d, but got shape %v", spatial, full, in.Shape())
		case in.Rank() == 2 && in.Dim(1) != 2:
			return status.InvalidArgumentf("Second dimension of 2D input must be of size 2, but got shape %v", in.Shape())
		}
		from, to := src, dst
		if in.Dim(0) == spatial {
			from, to = spatialOnly(src, spatial), spatialOnly(dst, spatial)
			if len(from) != spatial || len(to) != spatial {
				if spatial == 3 {
					return status.InvalidArgumentf("Format specifier must contain D, H and W for 2D case")
				}
				return status.InvalidArgumentf("Format specifier must contain H and W for 2D case")
			}
		}
		out, err := ctx.Allocate(0, in.DType(), in.Shape())
		if err != nil {
			return err
		}
		a, b := element.ViewOf[T](in), element.ViewOf[T](out)
		per := len(a) / len(from)
		for i := range from {
			copy(b[strings.IndexByte(to, from[i])*per:][:per], a[i*per:])
		}
		return nil
	}), nil
}

// spatialOnly keeps only the letters of the spatial dimensions.
func spatialOnly(format string, spatial int) string {
	return strings.Map(func(r rune) rune {
		if r == 'H' || r == 'W' || spatial == 3 && r == 'D' {
			return r
		}
		return -1
	}, format)
}
