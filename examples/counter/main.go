// Counter has a virtual actor for each name, which counts. Its binary is a server with all flags of troupe serve:
//
//	go run ./examples/counter --count=localhost:7101,localhost:7102,localhost:7103 --task 0
//	go run ./examples/counter --join localhost:7101    (twice)
//
// Each process adds one to the counter "visits", wherever it lives, and prints the sum. Every other client can ask, too:
//
//	troupe ask localhost:7102 /kind:counter/actor:visits '{"@type": "counter.Add", "N": 1}'
package main

import (
	"context"
	"fmt"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/serve"
)

// Add adds N; the answer's N is the sum.
type Add struct{ N int64 }

var _ = troupe.RegisterMessage[Add]("counter.Add")

func newCounter(*troupe.ActorContext, any) (troupe.Actor, error) {
	var sum int64
	return troupe.Handlers(troupe.Answer(func(_ *troupe.ActorContext, m Add) (Add, error) {
		sum += m.N
		return Add{sum}, nil
	})), nil
}

func main() {
	serve.Program{
		Options: []troupe.Option{troupe.WithActor("counter", newCounter, troupe.Virtual{})},
		Started: func(ctx context.Context, s *troupe.Server) error {
			sum, err := troupe.Ask[Add](ctx, s, troupe.VirtualActor("counter", "visits"), Add{1})
			if err == nil {
				fmt.Println(s.Task(), "visits:", sum.N)
			}
			return err
		},
	}.Main()
}
