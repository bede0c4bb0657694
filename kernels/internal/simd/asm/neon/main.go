// Command neon writes the assembly of package simd for arm64: vectors of four float32 in Advanced SIMD. Most of these instructions
// have no name in Go's assembler, so they are written as words.
package main

import (
	"flag"
	"log"
	"os"
)

var (
	out   = flag.String("out", "", "file for the assembly")
	stubs = flag.String("stubs", "", "file for the declarations")
)

func main() {
	flag.Parse()
	g := new(generator)
	elementwise(g)
	mathematics(g)
	reductions(g)
	rows(g)
	optimizers(g)
	products(g)
	for file, text := range map[string]string{*out: g.assembly(), *stubs: g.declarations()} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
