package troupe_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/train"
)

// A line through points, found by Adam.
func ExampleTrain() {
	ctx := context.Background()
	s := op.NewScope()
	x := op.Const(s, []float32{0, 1, 2, 3})
	y := op.Const(s, []float32{1, 3, 5, 7})
	slope := op.NewVariable(s.WithName("slope"), op.Const(s, float32(0)))
	offset := op.NewVariable(s.WithName("offset"), op.Const(s, float32(0)))

	guess := op.AddV2(s, op.Mul(s, x, slope.Read(s)), offset.Read(s))
	loss := op.Mean(s, op.SquaredDifference(s, guess, y), op.Const(s, []int32{0}))
	step := train.Minimize(s, train.NewAdam(0.1), loss)
	found := op.Pack(s, []op.Output{slope.Read(s), offset.Read(s)})
	training := troupe.Training{Step: step, Loss: loss, Init: op.Initialize(s), Steps: 300}

	graph, err := s.GraphDef()
	if err != nil {
		fmt.Println(err)
		return
	}
	server, err := troupe.NewLocalServer(ctx, troupe.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = server.Stop(ctx) }()
	session, err := server.NewSession(ctx, graph, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	progress, err := troupe.Train(ctx, session, training)
	if err != nil {
		fmt.Println(err)
		return
	}
	line, err := troupe.Fetch[[]float32](ctx, session, nil, found)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("after %d steps: y = %.1fx + %.1f\n", progress.Steps, line[0], line[1])
	// Output: after 300 steps: y = 2.0x + 1.0
}
