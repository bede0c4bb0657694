// Hello asks an actor in its own process.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/troupe-run/troupe/node"
)

func greet(_ *node.ActorContext, name string) (string, error) { return "Hello, " + name, nil }

func main() {
	ctx := context.Background()
	n, err := node.NewLocal(ctx, node.WithActor("greeter", node.Stateless(node.Answer(greet)), node.Virtual{}))
	if err != nil {
		log.Fatal(err)
	}
	answer, err := node.Ask[string](ctx, n, node.VirtualActor("greeter", "first"), "world")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer)
}
