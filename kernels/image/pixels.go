package image

import (
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// pixel is an element that ops on images compute floats from.
type pixel interface {
	element.Integer | element.Floating
}

// loader gives the pixels of input i, until they are released.
type loader[T pixel] func(ctx *kernels.Context, i int) (list []T, release func(), err error)

// pixels is the loader of images whose type is computed with as it is.
func pixels[T pixel](ctx *kernels.Context, i int) ([]T, func(), error) {
	if err := args.CheckType(ctx, i, element.DTypeOf[T]()); err != nil {
		return nil, nil, err
	}
	return element.ViewOf[T](ctx.Input(i)), func() {}, nil
}

// widened is the loader of images of a half type.
func widened[H element.HalfFloat](ctx *kernels.Context, i int) ([]float32, func(), error) {
	if err := args.CheckType(ctx, i, element.DTypeOf[H]()); err != nil {
		return nil, nil, err
	}
	src := element.ViewOf[H](ctx.Input(i))
	wide, release, err := element.Scratch[float32](ctx.Device, len(src))
	if err != nil {
		return nil, nil, err
	}
	ctx.Device.Parallel(len(src), element.CheapGrain, func(lo, hi int) { element.Widen(wide[lo:hi], src[lo:hi]) })
	return wide, release, nil
}
