// Pack writes ptx.zip, which binaries with the tag cuda contain, of the PTX in the folder ptx:
//
//	go generate ./kernels/cuda
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/troupe-run/troupe/kernels/cuda"
)

func main() {
	var archive bytes.Buffer
	err := cuda.Pack(&archive, os.DirFS("."))
	if err == nil {
		err = os.WriteFile("ptx.zip", archive.Bytes(), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}
