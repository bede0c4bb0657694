package kernels

import (
	"fmt"

	"github.com/troupe-run/troupe/graph/tensor"
)

// moveChannelsOn is moveChannels on an accelerator, by the functions in channels.cu.
func moveChannelsOn(ctx *Context, a Accelerator, dst, src *tensor.Tensor, n, rows, columns int) {
	const side = 32 // of a tile
	tiles := (rows + side - 1) / side * ((columns + side - 1) / side)
	a.Launch(ctx, Launch{
		Function: fmt.Sprintf("move_channels_%d", 8*src.DType().Size()), Grid: [3]int{tiles, min(n, mostBlocks)}, Block: [3]int{threads},
		Args: []uint64{src.Address(), dst.Address(), uint64(n), uint64(rows), uint64(columns)},
	})
}
