package reduce

import (
	"math/bits"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/launch"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// GPUReduction is a reduction on an accelerator.
type GPUReduction struct {
	// First is the function that reduces a tensor's elements, Then the one that reduces First's results.
	First, Then string
	Finish      Finish
	// Widens reports that half types are computed as floats until the last step.
	Widens bool
}

// Finish is the operation applied to each result, see kernels/cuda/reduce.cu.
type Finish uint64

// The values of Finish.
const (
	FinishNothing Finish = iota
	FinishMean           // divides by the number of elements
	FinishRoot           // takes the square root
	FinishHalf           // halves
)

// Reduce reduces in into out. groups are in's dimensions, merged into alternating reduced and kept groups.
func (k *GPUReduction) Reduce(ctx *kernels.Context, out, in *tensor.Tensor, groups []int, firstReduced bool) error {
	if out.Len() == 0 {
		return nil
	}
	folds := planFolds(groups, firstReduced, kernels.AcceleratorOf(ctx.Device).Card().Processors)
	function, from := k.First, in
	for i, f := range folds {
		to, how := out, k.Finish
		if i+1 < len(folds) {
			dtype := in.DType()
			if k.Widens && (dtype == tensor.Float16 || dtype == tensor.BFloat16) {
				dtype = tensor.Float32
			}
			between, err := ctx.Device.Memory().New(dtype, tensor.Shape{int64(f.Outer * f.Parts * f.Inner)})
			if err != nil {
				return err
			}
			defer between.Release()
			to, how = between, FinishNothing
		}
		f.Launch(ctx, function, to, from, how, in.Len()/out.Len())
		function, from = k.Then, to
	}
	return nil
}

// Fold reduces the middle one of three dimensions; it is divided into Parts parts, each of which is reduced separately.
type Fold struct{ Outer, Reduced, Inner, Parts int }

// planFolds splits a reduction into folds. The last reduced group comes first. A fold that is too small to keep a card's processors busy is
// done in two steps.
func planFolds(groups []int, firstReduced bool, processors int) (folds []Fold) {
	groups = append([]int(nil), groups...)
	for i := len(groups) - 1; i >= 0; i-- {
		if (i%2 == 0) != firstReduced {
			continue
		}
		f := Fold{shapes.LoopSize(groups[:i]), groups[i], shapes.LoopSize(groups[i+1:]), 1}
		groups[i] = 1
		width := f.Width()
		tiles := (f.Outer*f.Inner + width - 1) / width
		// A part is worth a block if each thread has several elements.
		if most := f.Reduced / (16 * launch.Threads / width); most > 1 && tiles < 2*processors {
			f.Parts = min(most, (4*processors+tiles-1)/tiles, 1<<15)
			folds = append(folds, f)
			f.Reduced, f.Parts = f.Parts, 1
		}
		folds = append(folds, f)
	}
	if len(folds) == 0 { // only dimensions of size 1 are reduced
		folds = []Fold{{shapes.LoopSize(groups), 1, 1, 1}}
	}
	return folds
}

// Width returns the number of results that a block computes side by side: few enough to leave each thread several elements, but enough to
// read neighbours in memory together.
func (f Fold) Width() int {
	per := min(PowerOf2((f.Reduced+3)/4), launch.Threads)
	return max(launch.Threads/per, min(PowerOf2(f.Inner), 32))
}

// PowerOf2 returns the least power of 2 that is at least n.
func PowerOf2(n int) int {
	if n <= 1 {
		return 1
	}
	return 1 << bits.Len(uint(n-1))
}

// Launch runs the fold. elements is the number of elements that each final result combines.
func (f Fold) Launch(ctx *kernels.Context, function string, to, from *tensor.Tensor, how Finish, elements int) {
	outputs := f.Outer * f.Inner
	if outputs == 0 {
		return
	}
	function += "_" + launch.Suffixes[from.DType()]
	if to.DType() != from.DType() {
		function += "_" + launch.Suffixes[to.DType()]
	}
	a, width := kernels.AcceleratorOf(ctx.Device), f.Width()
	inner := launch.Divisor(f.Inner, outputs)
	per := (f.Reduced + f.Parts - 1) / f.Parts
	a.Launch(ctx, kernels.Launch{Function: function, Grid: [3]int{f.Blocks(a), f.Parts}, Block: [3]int{launch.Threads},
		Args: []uint64{from.Address(), to.Address(), uint64(outputs), uint64(f.Reduced), inner[0], inner[1], uint64(width), uint64(per), uint64(how), uint64(elements)}})
}

// Blocks returns the number of blocks in a grid for the results.
func (f Fold) Blocks(a kernels.Accelerator) int {
	width := f.Width()
	return min((f.Outer*f.Inner+width-1)/width, 32*a.Card().Processors)
}
