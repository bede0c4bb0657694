// The program cards prints the cards of the machine, or why there are none.
package main

import (
	"fmt"

	"github.com/troupe-run/troupe/devices/cuda"
)

func main() {
	cards, err := cuda.Driver{}.Cards()
	if err != nil {
		fmt.Println("no cards:", err)
	}
	for _, card := range cards {
		fmt.Printf("%+v\n", card.Info())
	}
}
