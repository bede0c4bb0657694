package nn

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/gemm"
	"github.com/troupe-run/troupe/kernels/internal/launch"
)

// channelsLast returns the dimensions of images in the order that shared code expects.
func (w *windowing) channelsLast(s tensor.Shape) tensor.Shape {
	if !w.channelsFirst || len(s) != 4 {
		return s
	}
	return tensor.Shape{s[0], s[2], s[3], s[1]}
}

// inOrder is the inverse of channelsLast.
func (w *windowing) inOrder(s tensor.Shape) tensor.Shape {
	if !w.channelsFirst {
		return s
	}
	return tensor.Shape{s[0], s[3], s[1], s[2]}
}

// gridWords returns the parameters of images of the given size.
func gridWords(channels, height, width int, channelsFirst bool) []uint64 {
	return []uint64{uint64(channels), uint64(height), uint64(width), gemm.Flag(channelsFirst)}
}

// words returns the parameters of a window.
func (w *window) words() []uint64 {
	return []uint64{uint64(w.in), uint64(w.out), uint64(w.size), uint64(w.stride), uint64(w.dilation), uint64(w.before)}
}

// columnReduction is a reduction of rows by the functions that use columns.cuh. It reduces columns of a matrix, or channels that precede
// their pixels, of which each image has spatial.
type columnReduction struct {
	rows, columns, spatial int
	channelsFirst          bool
	width, span, parts     int
}

func newColumnReduction(a kernels.Accelerator, rows, columns, spatial int, channelsFirst bool) columnReduction {
	c := columnReduction{rows: rows, columns: columns, spatial: spatial, channelsFirst: channelsFirst, width: 1}
	for !channelsFirst && c.width < min(columns, 32) {
		c.width *= 2
	}
	// Each thread should get several rows, and each processor of the card several blocks.
	const least = 8
	parts := min((rows+least*launch.Threads/c.width-1)/(least*launch.Threads/c.width), max(1, 4*a.Card().Processors/c.blocks()), gemm.MostBlocks)
	c.span = max(1, (rows+max(1, parts)-1)/max(1, parts))
	c.parts = (rows + c.span - 1) / c.span
	return c
}

// blocks returns the number of blocks side by side.
func (c *columnReduction) blocks() int { return (c.columns + c.width - 1) / c.width }

func (c *columnReduction) words() []uint64 {
	return []uint64{uint64(c.rows), uint64(c.columns), uint64(c.spatial), gemm.Flag(c.channelsFirst), uint64(c.width), uint64(c.span)}
}

// launch launches a function on the blocks.
func (c *columnReduction) launch(ctx *kernels.Context, a kernels.Accelerator, function string, depth int, args []uint64) {
	a.Launch(ctx, kernels.Launch{Function: function, Grid: [3]int{c.blocks(), c.parts, min(depth, gemm.MostBlocks)}, Block: [3]int{launch.Threads}, Args: args})
}
