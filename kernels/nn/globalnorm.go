package nn

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
)

// globalNorm is BatchNormWithGlobalNormalization and its gradient: images are normalized with a given mean and variance.
type globalNorm[T element.Floating] struct {
	epsilon T
	scale   bool // whether gamma scales the result
	grad    bool
}

// globalNormRows returns the rows of one element type. The ops do not support bfloat16.
func globalNormRows[T element.Floating](grad bool) []kernels.Def {
	construct := func(c *kernels.Construction) (any, error) {
		a := c.Attrs().Reader()
		return &globalNorm[T]{T(a.Float("variance_epsilon")), a.Bool("scale_after_normalization"), grad}, a.Err()
	}
	rows := kernels.ForType("T", element.DTypeOf[T](), construct)
	if element.DTypeOf[T]() == tensor.Float32 {
		rows = append(rows, kernels.ForType("T", tensor.Float16, halves.Constructor(tensor.Float16, construct))...)
	}
	return rows
}

func (k *globalNorm[T]) Compute(ctx *kernels.Context) error {
	names := []string{"input", "mean", "var", "beta", "gamma"}
	if k.grad {
		names = []string{"input", "mean", "var", "gamma", "out_backprop"}
	}
	for i, name := range names {
		if err := args.CheckType(ctx, i, element.DTypeOf[T]()); err != nil {
			return err
		}
		t, rank := ctx.Input(i), 1
		if i == 0 || k.grad && i == 4 {
			rank = 4
		}
		if t.Rank() != rank {
			return status.InvalidArgumentf("%s must be %d-dimensional%v", name, rank, t.Shape())
		}
		if depth := ctx.Input(0).Dim(3); rank == 1 && t.Len() != depth {
			return status.InvalidArgumentf("%s must have the same number of elements as the channels of the input, got %d and %d", name, t.Len(), depth)
		}
	}
	if k.grad {
		return k.backward(ctx)
	}
	return k.forward(ctx)
}

// views returns the elements of the inputs.
func (k *globalNorm[T]) views(ctx *kernels.Context) (v [5][]T) {
	for i := range v {
		v[i] = element.ViewOf[T](ctx.Input(i))
	}
	return v
}

func (k *globalNorm[T]) forward(ctx *kernels.Context) error {
	shape := ctx.Input(0).Shape()
	out, err := ctx.Allocate(0, element.DTypeOf[T](), shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	v, dst, depth := k.views(ctx), element.ViewOf[T](out), int(shape[3])
	factors, release, err := element.Scratch[T](ctx.Device, depth)
	if err != nil {
		return err
	}
	defer release()
	for c := range factors {
		factors[c] = 1 / element.Sqrt(v[2][c]+k.epsilon)
		if k.scale {
			factors[c] *= v[4][c]
		}
	}
	element.EachRow(ctx, len(dst)/depth, depth, func(lo, hi int) {
		for i := lo * depth; i < hi*depth; i += depth {
			for c, x := range v[0][i : i+depth] {
				dst[i+c] = (x-v[1][c])*factors[c] + v[3][c]
			}
		}
	})
	return nil
}

func (k *globalNorm[T]) backward(ctx *kernels.Context) error {
	image := ctx.Input(0)
	if !ctx.Input(4).Shape().Equal(image.Shape()) {
		return status.InvalidArgumentf("out_backprop must have the shape of the input, got %v and %v", ctx.Input(4).Shape(), image.Shape())
	}
	shapes := []tensor.Shape{image.Shape(), ctx.Input(1).Shape(), ctx.Input(1).Shape(), ctx.Input(1).Shape(), ctx.Input(1).Shape()}
	var out [5][]T
	for o, shape := range shapes {
		t, err := ctx.Allocate(o, element.DTypeOf[T](), shape)
		if err != nil {
			return err
		}
		out[o] = element.ViewOf[T](t)
	}
	v, depth := k.views(ctx), image.Dim(3)
	dx, dm, dv, db, dg := out[0], out[1], out[2], out[3], out[4]
	// dg starts as the sum of the gradients times the deviations from the mean.
	clear(db)
	clear(dg)
	for i := range v[0] {
		c := i % depth
		db[c] += v[4][i]
		dg[c] += v[4][i] * (v[0][i] - v[1][c])
	}
	for c := range depth {
		root := 1 / element.Sqrt(v[2][c]+k.epsilon)
		gamma := T(1)
		if k.scale {
			gamma = v[3][c]
		}
		dm[c] = -db[c] * (root * gamma)
		dv[c] = dg[c] * (root * -0.5 / (v[2][c] + k.epsilon) * gamma)
		if k.scale {
			dg[c] *= root
		} else {
			dg[c] = 0
		}
	}
	for i, g := range v[4] {
		c := i % depth
		root := 1 / element.Sqrt(v[2][c]+k.epsilon)
		if k.scale {
			root *= v[3][c]
		}
		dx[i] = g * root
	}
	return nil
}
