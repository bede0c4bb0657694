package troupe_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/tensor"
)

var quiet = troupe.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))

// A graph runs on a server of the process.
func ExampleServer_NewSession() {
	ctx := context.Background()
	server, err := troupe.NewLocalServer(ctx, quiet)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop(ctx)

	s := op.NewScope()
	x := op.Placeholder(s, tensor.Float32)
	gram := op.MatMul(s, x, x, attr.TransposeB(true))
	def, err := s.GraphDef()
	if err != nil {
		log.Fatal(err)
	}
	session, err := server.NewSession(ctx, def, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx)

	value, err := troupe.Fetch[[][]float32](ctx, session, troupe.Feeds{x: [][]float32{{1, 2}, {3, 4}}}, gram)
	fmt.Println(value, err)
	// Output: [[5 11] [11 25]] <nil>
}

// The same over the network, on any server: here it is one of this process.
func ExampleDial() {
	ctx := context.Background()
	server, err := troupe.NewLocalServer(ctx, quiet)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop(ctx)

	client, err := troupe.Dial(ctx, server.Target())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	devices, err := client.Devices(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range devices {
		fmt.Println(d.Name)
	}
	// Output: /job:local/replica:0/task:0/device:CPU:0
}

// A step that is run often is prepared once: tensors go in and come out by position.
func ExampleCallable() {
	ctx := context.Background()
	server, err := troupe.NewLocalServer(ctx, quiet)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop(ctx)

	s := op.NewScope()
	total := op.NewVariable(s, op.Const(s, float32(0)))
	x := op.Placeholder(s, tensor.Float32)
	sum := total.Read(s.WithControlDependencies(total.AssignAdd(s, x)))
	def, err := s.GraphDef()
	if err != nil {
		log.Fatal(err)
	}
	session, err := server.NewSession(ctx, def, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx)
	if _, err := session.Eval(ctx, nil, total.Initializer()); err != nil {
		log.Fatal(err)
	}

	add, err := session.Prepare(ctx, []op.Output{x}, sum)
	if err != nil {
		log.Fatal(err)
	}
	for _, v := range []float32{1, 2, 3} {
		fed := tensor.FromScalar(v)
		fetched, err := add.Run(ctx, fed)
		fed.Release()
		if err != nil {
			log.Fatal(err)
		}
		value, err := tensor.To[float32](fetched[0])
		fetched[0].Release()
		fmt.Println(value, err)
	}
	// Output:
	// 1 <nil>
	// 3 <nil>
	// 6 <nil>
}
