package gemm

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/launch"
	"github.com/troupe-run/troupe/kernels/internal/process"
)

// AllowTF32 reports whether products of float32 may round their operands to TF32, as TensorFlow does on cards that support it.
// NVIDIA_TF32_OVERRIDE=0 forbids it, as in NVIDIA's libraries.
func AllowTF32() bool { return process.Env("NVIDIA_TF32_OVERRIDE") != "0" }

// SumType returns the type in which products of elements are accumulated.
func SumType(dtype tensor.DType) tensor.DType {
	if dtype == tensor.Float64 {
		return tensor.Float64
	}
	return tensor.Float32
}

// TensorCores reports whether the card multiplies matrices of such elements on tensor cores.
func TensorCores(a kernels.Accelerator, dtype tensor.DType, tf32 bool) bool {
	return a.Card().Compute >= 80 && dtype != tensor.Float64 && (dtype != tensor.Float32 || tf32)
}

// Flag encodes a condition as a parameter.
func Flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// Aligned reports whether operands can be read 16 bytes at a time, that is, whether their address and all strides and lengths (in elements)
// are multiples of 16 bytes.
func Aligned(t *tensor.Tensor, sizes ...int) bool {
	count := 16 / t.DType().Size()
	for _, s := range sizes {
		if s%count != 0 {
			return false
		}
	}
	return t.Address()%16 == 0
}

// Tiling describes how a function computes a product, tile by tile.
type Tiling struct {
	Function      string
	Rows, Columns int // of a tile
	Threads       int
}

// tiles returns the number of tiles in an m by n matrix.
func (t *Tiling) tiles(m, n int) int {
	return (m + t.Rows - 1) / t.Rows * ((n + t.Columns - 1) / t.Columns)
}

// Launch is a batch of products to be launched on a card.
type Launch struct {
	Tiling
	M, N, K, Batch int
	Out            *tensor.Tensor
}

// Splits are along k, in multiples of splitStep, and at least splitLeast long.
const (
	splitStep  = 32
	splitLeast = 256
	mostSplits = 32
	MostBlocks = 1<<16 - 1 // in the second and third dimension of a grid
)

// Run launches the function. args returns the parameters that follow the sizes; partial is the address for the sums of splits. If there are
// too few tiles to fill the card, the products are split along k. Their sums are added in order, so the same card always gives the same
// result.
func (g *Launch) Run(ctx *kernels.Context, args func(partial uint64) []uint64) error {
	const most = 1<<31 - 1
	if g.M > most || g.N > most || g.K > most {
		return status.Errorf(status.ResourceExhausted, "A product of matrices of %d by %d and %d by %d is too large for %s: dimensions are limited to %d", g.M, g.K, g.K, g.N, ctx.Device.Name(), most)
	}
	a := kernels.AcceleratorOf(ctx.Device)
	tiles := g.tiles(g.M, g.N)
	splits, span := 1, max(g.K, 1)
	if blocks, fill := tiles*g.Batch, a.Card().Processors; blocks < fill {
		splits = max(1, min((2*fill+blocks-1)/blocks, g.K/splitLeast, mostSplits))
	}
	partial := uint64(0)
	if splits > 1 {
		span = ((g.K+splits-1)/splits + splitStep - 1) / splitStep * splitStep
		splits = (g.K + span - 1) / span
		sums, err := ctx.Device.Memory().New(SumType(g.Out.DType()), tensor.Shape{int64(splits), int64(g.Out.Len())})
		if err != nil {
			return err
		}
		defer sums.Release()
		partial = sums.Address()
	}
	a.Launch(ctx, kernels.Launch{
		Function: g.Function, Grid: [3]int{tiles, splits, min(g.Batch, MostBlocks)}, Block: [3]int{g.Threads},
		Args: append([]uint64{uint64(g.M), uint64(g.N), uint64(g.K), uint64(g.Batch), uint64(splits), uint64(span)}, args(partial)...),
	})
	if splits > 1 {
		AddSplits(ctx, g.Out, partial, splits)
	}
	return nil
}

// AddSplits adds the splits' sums for each element of out.
func AddSplits(ctx *kernels.Context, out *tensor.Tensor, partial uint64, splits int) {
	a := kernels.AcceleratorOf(ctx.Device)
	a.Launch(ctx, launch.PerElement(a, "add_splits_"+launch.Suffixes[out.DType()], out.Len(), partial, out.Address(), uint64(splits), uint64(out.Len())))
}
