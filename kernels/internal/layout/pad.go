package layout

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// padding describes a padded tensor as lines. A line consists of the last dimension that has a border and the dimensions after it. Lines
// within the border of another dimension contain nothing of the source.
type padding struct {
	dims, sizes, before []int // of the dimensions that count lines: sizes in dst and in src, and the width of the leading border
	line, from, n       int   // elements in a line, in its leading border, and in its part of the source
}

func newPadding(out, in tensor.Shape, before []int64) *padding {
	last := len(out) - 1
	for last > 0 && out[last] == in[last] {
		last--
	}
	after := shapes.LoopSize(shapes.Ints(in[last+1:]))
	return &padding{
		dims: shapes.Ints(out[:last]), sizes: shapes.Ints(in[:last]), before: shapes.Ints(before[:last]),
		line: int(out[last]) * after, from: int(before[last]) * after, n: int(in[last]) * after,
	}
}

// Pad sets dst to src within a border of the first element of value, or of zeros if value is nil. The border begins with before[i]
// positions in dimension i. Neither tensor may be empty or a scalar.
func Pad(ctx *kernels.Context, dst, src, value *tensor.Tensor, before []int64) {
	m := MoverOf(dst.DType())
	if !dst.OnHost() || m.pad == nil {
		padMoved(ctx, dst, src, value, before)
		return
	}
	p := newPadding(dst.Shape(), src.Shape(), before)
	lines := dst.Len() / p.line
	ctx.Parallel(lines, max(1, moveGrain/(p.line*moveBytes(dst.DType()))), func(lo, hi int) { m.pad(dst, src, value, p, lo, hi) })
}

// padMoved fills dst, then copies src into it.
func padMoved(ctx *kernels.Context, dst, src, value *tensor.Tensor, before []int64) {
	if value != nil {
		Fill(ctx, dst, value)
	} else {
		Zero(ctx, dst)
	}
	to, offset := shapes.StridesOf(dst.Shape()), 0
	for i, b := range before {
		offset += int(b) * to[i]
	}
	Move(ctx, dst, src, NewNest(shapes.Ints(src.Shape()), to, shapes.StridesOf(src.Shape()), offset, 0))
}

func padLines[E any](dst, src []E, v E, p *padding, lo, hi int) {
	at := make([]int, len(p.dims))
	for k, rest := len(at)-1, lo; k >= 0; k-- {
		at[k] = rest % p.dims[k]
		rest /= p.dims[k]
	}
	for ; lo < hi; lo++ {
		line := dst[lo*p.line : (lo+1)*p.line]
		if from, ok := p.source(at); ok {
			element.Fill(line[:p.from], v)
			tensor.Copy(line[p.from:p.from+p.n], src[from*p.n:(from+1)*p.n])
			element.Fill(line[p.from+p.n:], v)
		} else {
			element.Fill(line, v)
		}
		for k := len(at) - 1; k >= 0; k-- {
			if at[k]++; at[k] < p.dims[k] {
				break
			}
			at[k] = 0
		}
	}
}

// source returns the source's line at a place of dst, if there is one.
func (p *padding) source(at []int) (line int, ok bool) {
	for k, i := range at {
		i -= p.before[k]
		if i < 0 || i >= p.sizes[k] {
			return 0, false
		}
		line = line*p.sizes[k] + i
	}
	return line, true
}
