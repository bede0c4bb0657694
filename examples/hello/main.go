// Hello asks an actor in its own process.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/troupe-run/troupe"
)

type greeting struct{ Text string }

var _ = troupe.RegisterMessage[greeting]("hello.greeting")

func newGreeter(*troupe.ActorContext, any) (troupe.Actor, error) {
	return troupe.Handlers(troupe.Answer(func(_ *troupe.ActorContext, g greeting) (greeting, error) { return greeting{"Hello, " + g.Text}, nil })), nil
}

func main() {
	ctx := context.Background()
	server, err := troupe.NewLocalServer(ctx, troupe.WithActor("greeter", newGreeter, troupe.Virtual{}))
	if err != nil {
		log.Fatal(err)
	}
	answer, err := troupe.Ask[greeting](ctx, server, troupe.VirtualActor("greeter", "first"), greeting{"world"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Text)
}
