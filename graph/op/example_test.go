package op_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/tensor"
)

// run opens a session of the graph on a server in this process, runs the targets one after the other, and prints the
// fetched tensors.
func run(s *op.Scope, targets []*op.Operation, fetches ...op.Output) {
	ctx := context.Background()
	graph, err := s.GraphDef()
	if err != nil {
		log.Fatal(err)
	}
	server, err := troupe.NewLocalServer(ctx, troupe.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop(ctx)
	session, err := server.NewSession(ctx, graph, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, o := range targets {
		if _, err := session.Run(ctx, nil, nil, []string{o.Name()}); err != nil {
			log.Fatal(err)
		}
	}
	results, err := session.Run(ctx, nil, names(fetches), nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range results {
		switch r.DType() {
		case tensor.Float32:
			fmt.Println(r.Shape(), tensor.Of[float32](r))
		case tensor.Int32:
			fmt.Println(r.Shape(), tensor.Of[int32](r))
		}
		r.Release()
	}
}

// A graph is built in scopes, which determine the names, devices and control dependencies of operations.
func Example() {
	s := op.NewScope()
	layer := s.SubScope("layer").WithDevice("/device:CPU:0")
	x := op.Const(layer.WithName("x"), [][]float32{{1, 2}, {3, 4}})
	w := op.Const(layer.WithName("w"), [][]float32{{1, 0}, {-1, 1}})
	y := op.Relu(layer, op.MatMul(layer, x, w, attr.TransposeB(true)))
	fmt.Println(y.Name(), y.DType())
	run(s, nil, y)
	// Output:
	// layer/Relu:0 float
	// [2,2] [1 1 3 1]
}

// A mistake becomes the graph's error, with the line that made it. Everything that depends on it is skipped.
func ExampleScope_Err() {
	s := op.NewScope()
	a := op.Const(s, []float32{1, 2})
	b := op.Const(s, []int32{3, 4})
	op.Neg(s, op.Mul(s, a, b))
	fmt.Println(s.Err())
	// Output:
	// example_test.go:73: Argument 'y' of Mul makes its attribute 'T' DT_INT32, but argument 'x' makes it DT_FLOAT
}

func ExampleNewVariable() {
	s := op.NewScope()
	count := op.NewVariable(s.WithName("count"), op.Const(s, float32(40)))
	add := count.AssignAdd(s, op.Const(s, float32(1)))
	run(s, []*op.Operation{op.Initialize(s), add, add}, count.Read(s))
	// Output:
	// [] [42]
}

// Count the powers of two below a thousand.
func ExampleWhile() {
	s := op.NewScope()
	limit, one, two := op.Const(s, int32(1000)), op.Const(s, int32(1)), op.Const(s, int32(2))
	power, count := op.Const(s, int32(1)), op.Const(s, int32(0))
	loop := op.While(s, []op.Output{power, count},
		func(s *op.Scope, v []op.Output) op.Output { return op.Less(s, v[0], limit) },
		func(s *op.Scope, v []op.Output) []op.Output {
			return []op.Output{op.Mul(s, v[0], two), op.AddV2(s, v[1], one)}
		})
	run(s, nil, loop...)
	// Output:
	// [] [1024]
	// [] [10]
}

func ExampleCond() {
	s := op.NewScope()
	x := op.Const(s, []float32{3, 4})
	long := op.Greater(s, op.Sum(s, op.Square(s, x), op.Const(s, int32(0))), op.Const(s, float32(1)))
	unit := op.Cond(s, long,
		func(s *op.Scope) []op.Output {
			return []op.Output{op.Mul(s, x, op.Rsqrt(s, op.Sum(s, op.Square(s, x), op.Const(s, int32(0)))))}
		},
		func(s *op.Scope) []op.Output { return []op.Output{x} })
	run(s, nil, unit[0])
	// Output:
	// [2] [0.6 0.8]
}

func ExampleNewFunction() {
	s := op.NewScope()
	x := op.Const(s, []float32{1, 2, 3})
	scale := op.Const(s, float32(10))
	scaled := op.NewFunction(s, "scaled", op.ParamsOf(x), func(s *op.Scope, args []op.Output) []op.Output {
		return []op.Output{op.Mul(s, args[0], scale)}
	})
	run(s, nil, scaled.Call(s, scaled.Call(s, x)...)...)
	// Output:
	// [3] [100 200 300]
}

func ExampleQueue() {
	s := op.NewScope()
	rows := op.NewFIFOQueue(s.WithName("rows"), []tensor.DType{tensor.Float32}, attr.Shapes([]shape.Shape{shape.Of(2)}))
	put := rows.EnqueueMany(s, op.Const(s, [][]float32{{1, 2}, {3, 4}, {5, 6}}))
	batch := rows.DequeueMany(s, op.Const(s, int32(2)))
	run(s, []*op.Operation{put}, batch...)
	// Output:
	// [2,2] [1 2 3 4]
}
