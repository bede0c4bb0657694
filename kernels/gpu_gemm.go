package kernels

import (
	"os"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// allowTF32 tells whether products of floats may round them to TF32 first, as TensorFlow does on
// cards that can. NVIDIA_TF32_OVERRIDE=0 forbids it, as it does with NVIDIA's libraries.
func allowTF32() bool { return os.Getenv("NVIDIA_TF32_OVERRIDE") != "0" }

// sumType is the type that products of elements are summed up in.
func sumType(dtype tensor.DType) tensor.DType {
	if dtype == tensor.Float64 {
		return tensor.Float64
	}
	return tensor.Float32
}

// tensorCores tells whether the card multiplies matrices of such elements by tensor cores.
func tensorCores(a Accelerator, dtype tensor.DType, tf32 bool) bool {
	return a.Card().Compute >= 80 && dtype != tensor.Float64 && (dtype != tensor.Float32 || tf32)
}

// flag is a condition as a parameter.
func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// aligned tells whether operands can be read 16 bytes at a time: if their address and all strides
// and lengths, in elements, are multiples of that.
func aligned(t *tensor.Tensor, sizes ...int) bool {
	count := 16 / t.DType().Size()
	for _, s := range sizes {
		if s%count != 0 {
			return false
		}
	}
	return t.Address()%16 == 0
}

// tiling is a product as a function computes it: tile by tile.
type tiling struct {
	function      string
	rows, columns int // of a tile
	threads       int
}

// tiles is how many tiles there are in an m by n matrix.
func (t *tiling) tiles(m, n int) int {
	return (m + t.rows - 1) / t.rows * ((n + t.columns - 1) / t.columns)
}

// gemmLaunch is a batch of products on its way to a card.
type gemmLaunch struct {
	tiling
	m, n, k, batch int
	out            *tensor.Tensor
}

// Splits are along k, in multiples of splitStep, each of splitLeast or more.
const (
	splitStep  = 32
	splitLeast = 256
	mostSplits = 32
	mostBlocks = 1<<16 - 1 // in the second and third dimension of a grid
)

// run launches the function. args makes its parameters after the sizes, of the address that sums of
// splits go to. When there are too few tiles to fill the card the products are divided along k. Their
// sums are added up in order, so that the same card always gives the same result.
func (g *gemmLaunch) run(ctx *Context, args func(partial uint64) []uint64) error {
	const most = 1<<31 - 1
	if g.m > most || g.n > most || g.k > most {
		return status.Errorf(status.ResourceExhausted, "A product of matrices of %d by %d and %d by %d is too large for %s: dimensions are limited to %d", g.m, g.k, g.k, g.n, ctx.Device.Name(), most)
	}
	a := accelerator(ctx.Device)
	tiles := g.tiles(g.m, g.n)
	splits, span := 1, max(g.k, 1)
	if blocks, fill := tiles*g.batch, a.Card().Processors; blocks < fill {
		splits = max(1, min((2*fill+blocks-1)/blocks, g.k/splitLeast, mostSplits))
	}
	partial := uint64(0)
	if splits > 1 {
		span = ((g.k+splits-1)/splits + splitStep - 1) / splitStep * splitStep
		splits = (g.k + span - 1) / span
		sums, err := ctx.Device.Memory().New(sumType(g.out.DType()), tensor.Shape{int64(splits), int64(g.out.Len())})
		if err != nil {
			return err
		}
		defer sums.Release()
		partial = sums.Address()
	}
	a.Launch(ctx, Launch{
		Function: g.function, Grid: [3]int{tiles, splits, min(g.batch, mostBlocks)}, Block: [3]int{g.threads},
		Args: append([]uint64{uint64(g.m), uint64(g.n), uint64(g.k), uint64(g.batch), uint64(splits), uint64(span)}, args(partial)...),
	})
	if splits > 1 {
		addSplits(ctx, g.out, partial, splits)
	}
	return nil
}

// addSplits adds up sums for each element of out.
func addSplits(ctx *Context, out *tensor.Tensor, partial uint64, splits int) {
	a := accelerator(ctx.Device)
	a.Launch(ctx, elementwise(a, "add_splits_"+suffixes[out.DType()], out.Len(), partial, out.Address(), uint64(splits), uint64(out.Len())))
}
