package image

import (
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// pixel is an element type that ops on images can compute with.
type pixel interface {
	element.Integer | element.Floating
}

// loader returns the pixels of input i, valid until they are released.
type loader[T pixel] func(ctx *kernels.Context, i int) (list []T, release func(), err error)

// pixels is the loader of images whose type needs no conversion.
func pixels[T pixel](ctx *kernels.Context, i int) ([]T, func(), error) {
	if err := args.CheckType(ctx, i, element.DTypeOf[T]()); err != nil {
		return nil, nil, err
	}
	return element.ViewOf[T](ctx.Input(i)), func() {}, nil
}

// widened is the loader of images of a half type, which it converts.
func widened[H element.HalfFloat](ctx *kernels.Context, i int) ([]float32, func(), error) {
	if err := args.CheckType(ctx, i, element.DTypeOf[H]()); err != nil {
		return nil, nil, err
	}
	src := element.ViewOf[H](ctx.Input(i))
	wide, release, err := element.Scratch[float32](ctx.Device, len(src))
	if err != nil {
		return nil, nil, err
	}
	ctx.Parallel(len(src), element.CheapGrain, func(lo, hi int) { element.Widen(wide[lo:hi], src[lo:hi]) })
	return wide, release, nil
}
