// Pool computes squares with a pool of workers, some of which fail. The pool replaces them, and gives their requests to others.
package main

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"

	"github.com/troupe-run/troupe"
)

type number struct{ N int64 }

var _ = troupe.RegisterMessage[number]("pool.number")

func newWorker(*troupe.ActorContext, any) (troupe.Actor, error) {
	return troupe.Handlers(troupe.Answer(func(_ *troupe.ActorContext, m number) (number, error) {
		if rand.IntN(10) == 0 {
			panic("out of luck")
		}
		return number{m.N * m.N}, nil
	})), nil
}

func main() {
	ctx := context.Background()
	cluster, err := troupe.NewLocalCluster(ctx, map[string]int{"worker": 2}, troupe.WithActor("worker", newWorker),
		troupe.WithActor("pool", troupe.Pool{Kind: "worker", Each: 8, Route: troupe.LeastLoaded, Retries: 20}.Make))
	if err != nil {
		log.Fatal(err)
	}
	server := cluster.Server("worker", 0)
	pool, err := server.Spawn(ctx, "pool", troupe.ActorAt("", "squares"), nil)
	if err != nil {
		log.Fatal(err)
	}
	sum := int64(0)
	for n := range int64(100) {
		square, err := troupe.Ask[number](ctx, server, pool, number{n})
		if err != nil {
			log.Fatal(err)
		}
		sum += square.N
	}
	fmt.Println("the sum of the squares is", sum)
}
