// Command asm writes the assembly of package simd. It is a module of its own, so that users of the package do
// not need avo. The output is committed, and go generate in the parent directory makes it again.
package main

import (
	"flag"
	"log"

	"github.com/mmcloughlin/avo/build"
)

var set = flag.String("set", "", "kernels to write: elementwise, bfloat16, moves, random, math, gemm, rows, filtered, fourier or jpeg")

func main() {
	flag.Parse()
	build.ConstraintExpr("amd64")
	for _, v := range []isa{avx512, avx2} {
		switch *set {
		case "elementwise":
			elementwise(v)
			reductions(v)
			windowTaps(v)
			maxGradOfTaps(v)
			interpolations(v)
			norms(v)
			optimizers(v)
		case "bfloat16":
			bfloats(v)
		case "moves":
			moves(v)
		case "random":
			randoms(v)
		case "math":
			mathematics(v)
		case "gemm":
			gemm(v)
		case "rows":
			rows(v)
		case "filtered":
			for rows := 1; rows <= mostTapRows; rows++ {
				for cols := 1; cols <= mostTapCols; cols++ {
					filteredTaps(v, rows, cols)
				}
			}
		case "fourier":
			fourier(v)
			fourierRowKernels(v)
		case "jpeg":
			pictures(v)
		default:
			log.Fatalf("unknown kernel set %q", *set)
		}
	}
	build.Generate()
}
