package nn

import (
	"fmt"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/gemm"
	"github.com/troupe-run/troupe/kernels/internal/launch"
)

// moveChannelsOn is moveChannels on an accelerator. It uses the functions in channels.cu.
func moveChannelsOn(ctx *kernels.Context, a kernels.Accelerator, dst, src *tensor.Tensor, n, rows, columns int) {
	const side = 32 // of a tile
	tiles := (rows + side - 1) / side * ((columns + side - 1) / side)
	a.Launch(ctx, kernels.Launch{
		Function: fmt.Sprintf("move_channels_%d", 8*src.DType().Size()), Grid: [3]int{tiles, min(n, gemm.MostBlocks)}, Block: [3]int{launch.Threads},
		Args: []uint64{src.Address(), dst.Address(), uint64(n), uint64(rows), uint64(columns)},
	})
}
