package sparse

import (
	"slices"

	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/halves"
)

// operation is an operation on two numbers.
type operation int

const (
	plus operation = iota
	times
	over
	greatest
	least
)

// numbers returns the rows of ops for an element type; for float also those for the half types.
type numbers interface {
	extremes(o operation) []kernels.Def
	withDense(o operation) []kernels.Def
	reduced(o operation, toSparse bool) []kernels.Def
}

// reals returns the rows for all real types.
func reals(rows func(t numbers) []kernels.Def) []kernels.Def {
	var all []kernels.Def
	for _, t := range []numbers{
		of[float32]{}, of[float64]{}, of[int8]{}, of[int16]{}, of[int32]{}, of[int64]{}, of[uint8]{}, of[uint16]{}, of[uint32]{}, of[uint64]{},
	} {
		all = append(all, rows(t)...)
	}
	return all
}

type of[T element.Ordered] struct{}

func (of[T]) extremes(o operation) []kernels.Def {
	choose := elementwise.Maximum[T]
	if o == least {
		choose = elementwise.Minimum[T]
	}
	return rowsOf[T](func(*kernels.Construction) (any, error) {
		return kernels.Func(func(ctx *kernels.Context) error { return extremes(ctx, choose) }), nil
	})
}

func (of[T]) withDense(o operation) []kernels.Def {
	combine := map[operation]func(dst, a, b []T){plus: elementwise.Add[T], times: elementwise.Mul[T], over: elementwise.Div[T]}[o]
	return rowsOf[T](func(*kernels.Construction) (any, error) {
		return kernels.Func(func(ctx *kernels.Context) error { return withDense(ctx, o == over, combine) }), nil
	})
}

func (of[T]) reduced(o operation, toSparse bool) []kernels.Def {
	if o == greatest {
		return reduceRows(toSparse, maxOf[T])
	}
	return reduceRows(toSparse, sumOf[T])
}

// rowsOf returns the rows for a type; for float also those for the half types.
func rowsOf[T element.Numeric](construct func(*kernels.Construction) (any, error)) []kernels.Def {
	return slices.Clone(halves.With("T", kernels.Def{New: construct}, element.DTypeOf[T]()))
}
