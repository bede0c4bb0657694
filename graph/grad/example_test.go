package grad_test

import (
	"fmt"

	"github.com/troupe-run/troupe/graph/grad"
	"github.com/troupe-run/troupe/graph/op"
)

// The gradient of an embedding contains only the rows that were read; other gradients are dense.
func ExampleGradients() {
	s := op.NewScope()
	table := op.NewVariable(s.WithName("table"), op.Const(s, [][]float32{{1, 2}, {3, 4}, {5, 6}}))
	scale := op.NewVariable(s.WithName("scale"), op.Const(s, float32(2)))
	rows := table.Gather(s, op.Const(s, []int32{2, 0}))
	loss := op.L2Loss(s, op.Mul(s, rows, scale.Read(s)))

	for _, d := range grad.Gradients(s, []op.Output{loss}, []op.Output{table.Handle(), scale.Handle()}) {
		fmt.Println(d.Connected(), d.Sparse(), d.Dense(s).DType())
	}
	fmt.Println(s.Err())
	// Output:
	// true true float
	// true false float
	// <nil>
}
