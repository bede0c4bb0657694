package kernels

import (
	"math/bits"

	"github.com/troupe-run/troupe/graph/tensor"
)

// gpuReduction is a reduction on an accelerator.
type gpuReduction struct {
	// first is the function for a tensor's elements, then the one for what it made of them.
	first, then string
	finish      finish
	// widens tells that half types are floats up to the last step.
	widens bool
}

// finish is what is done to each result, see kernels/cuda/reduce.cu.
type finish uint64

const (
	finishNothing finish = iota
	finishMean
	finishRoot
	finishHalf
)

// gpuReduceKernel reduces tensors over axes, which lie on the host.
type gpuReduceKernel struct {
	gpuReduction
	dtype tensor.DType
	keep  bool
}

func (k *gpuReduceKernel) Compute(ctx *Context) error {
	data := ctx.Inputs[0].Tensor
	if err := checkType(ctx, 0, k.dtype); err != nil {
		return err
	}
	var plan reducePlan
	if err := plan.make(data.Shape(), ctx.Inputs[1].Tensor, k.keep); err != nil {
		return err
	}
	if plan.trivial() && k.first == k.then {
		ctx.SetOutput(0, data.Reshaped(plan.out))
		return nil
	}
	out, err := ctx.Allocate(0, k.dtype, plan.out)
	if err != nil {
		return err
	}
	return k.reduce(ctx, out, data, plan.groups, plan.firstReduced)
}

// reduce reduces in into out. groups are in's dimensions, merged so that reduced ones and others
// take turns.
func (k *gpuReduction) reduce(ctx *Context, out, in *tensor.Tensor, groups []int, firstReduced bool) error {
	if out.Len() == 0 {
		return nil
	}
	folds := planFolds(groups, firstReduced, accelerator(ctx.Device).Card().Processors)
	function, from := k.first, in
	for i, f := range folds {
		to, how := out, k.finish
		if i+1 < len(folds) {
			dtype := in.DType()
			if k.widens && (dtype == tensor.Float16 || dtype == tensor.BFloat16) {
				dtype = tensor.Float32
			}
			between, err := ctx.Device.Memory().New(dtype, tensor.Shape{int64(f.outer * f.parts * f.inner)})
			if err != nil {
				return err
			}
			defer between.Release()
			to, how = between, finishNothing
		}
		f.launch(ctx, function, to, from, how, in.Len()/out.Len())
		function, from = k.then, to
	}
	return nil
}

// gpuFold reduces the middle of three dimensions, each of parts parts of it by itself.
type gpuFold struct{ outer, reduced, inner, parts int }

// planFolds takes a reduction apart: of the groups that are reduced the last comes first, and what
// would not keep a card's processors busy is done in two steps.
func planFolds(groups []int, firstReduced bool, processors int) (folds []gpuFold) {
	groups = append([]int(nil), groups...)
	for i := len(groups) - 1; i >= 0; i-- {
		if (i%2 == 0) != firstReduced {
			continue
		}
		f := gpuFold{loopSize(groups[:i]), groups[i], loopSize(groups[i+1:]), 1}
		groups[i] = 1
		width := f.width()
		tiles := (f.outer*f.inner + width - 1) / width
		// A part is worth its block when each thread has some elements.
		if most := f.reduced / (16 * threads / width); most > 1 && tiles < 2*processors {
			f.parts = min(most, (4*processors+tiles-1)/tiles, 1<<15)
			folds = append(folds, f)
			f.reduced, f.parts = f.parts, 1
		}
		folds = append(folds, f)
	}
	if len(folds) == 0 { // nothing is reduced but single elements
		folds = []gpuFold{{loopSize(groups), 1, 1, 1}}
	}
	return folds
}

// width is how many results a block has side by side: as many as leave each thread some elements, but
// neighbours in memory together.
func (f gpuFold) width() int {
	per := min(powerOf2((f.reduced+3)/4), threads)
	return max(threads/per, min(powerOf2(f.inner), 32))
}

// powerOf2 is the least power of 2 that is not below n.
func powerOf2(n int) int {
	if n <= 1 {
		return 1
	}
	return 1 << bits.Len(uint(n-1))
}

// launch runs the fold. elements is what each of the last results is made of.
func (f gpuFold) launch(ctx *Context, function string, to, from *tensor.Tensor, how finish, elements int) {
	outputs := f.outer * f.inner
	if outputs == 0 {
		return
	}
	function += "_" + suffixes[from.DType()]
	if to.DType() != from.DType() {
		function += "_" + suffixes[to.DType()]
	}
	a, width := accelerator(ctx.Device), f.width()
	inner := divisor(f.inner, outputs)
	per := (f.reduced + f.parts - 1) / f.parts
	a.Launch(ctx, Launch{Function: function, Grid: [3]int{f.blocks(a), f.parts}, Block: [3]int{threads},
		Args: []uint64{from.Address(), to.Address(), uint64(outputs), uint64(f.reduced), inner[0], inner[1], uint64(width), uint64(per), uint64(how), uint64(elements)}})
}

func (f gpuFold) blocks(a Accelerator) int {
	width := f.width()
	return min((f.outer*f.inner+width-1)/width, 32*a.Card().Processors)
}

// gpuReductionRows registers a reduction for the types.
func gpuReductionRows(op string, r gpuReduction, types ...tensor.DType) {
	for _, dtype := range types {
		row := Def{Op: op, Device: "GPU", Types: only("T", dtype), HostInputs: []string{"reduction_indices"}, New: func(c *Construction) (any, error) {
			keep, err := c.Attrs().Bool("keep_dims")
			return &gpuReduceKernel{r, dtype, keep}, err
		}}
		if dtype == tensor.Bool {
			row.Types = nil // the op has no type
		}
		Register(row)
	}
}

// floatTypes are the floating-point types of kernels on accelerators.
var floatTypes = []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16}

func init() {
	numbers := append(floatTypes[:len(floatTypes):len(floatTypes)], tensor.Int64)
	gpuReductionRows("Sum", gpuReduction{first: "reduce_sum", then: "reduce_sum", widens: true}, numbers...)
	gpuReductionRows("Mean", gpuReduction{first: "reduce_sum", then: "reduce_sum", widens: true, finish: finishMean}, numbers...)
	gpuReductionRows("Prod", gpuReduction{first: "reduce_prod", then: "reduce_prod", widens: true}, numbers...)
	gpuReductionRows("Max", gpuReduction{first: "reduce_max", then: "reduce_max"}, numbers...)
	gpuReductionRows("Min", gpuReduction{first: "reduce_min", then: "reduce_min"}, numbers...)
	gpuReductionRows("EuclideanNorm", gpuReduction{first: "reduce_squares", then: "reduce_sum", widens: true, finish: finishRoot}, numbers...)
	gpuReductionRows("All", gpuReduction{first: "reduce_all", then: "reduce_all"}, tensor.Bool)
	gpuReductionRows("Any", gpuReduction{first: "reduce_any", then: "reduce_any"}, tensor.Bool)
	half := gpuReduction{first: "reduce_squares", then: "reduce_sum", widens: true, finish: finishHalf}
	for _, dtype := range floatTypes {
		Register(Def{Op: "L2Loss", Device: "GPU", Types: only("T", dtype), New: always(func(ctx *Context) error {
			in := ctx.Input(0)
			if err := checkType(ctx, 0, dtype); err != nil {
				return err
			}
			out, err := ctx.Allocate(0, dtype, nil)
			if err != nil {
				return err
			}
			return half.reduce(ctx, out, in, []int{in.Len()}, true)
		})})
	}
}
