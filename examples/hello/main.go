// Hello asks an actor in its own process.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/troupe-run/troupe"
)

func greet(_ *troupe.ActorContext, name string) (string, error) { return "Hello, " + name, nil }

func main() {
	ctx := context.Background()
	server, err := troupe.NewLocalServer(ctx, troupe.WithActor("greeter", troupe.Stateless(troupe.Answer(greet)), troupe.Virtual{}))
	if err != nil {
		log.Fatal(err)
	}
	answer, err := troupe.Ask[string](ctx, server, troupe.VirtualActor("greeter", "first"), "world")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer)
}
