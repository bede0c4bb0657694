package nn

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/gemm"
	"github.com/troupe-run/troupe/kernels/internal/launch"
	"github.com/troupe-run/troupe/kernels/internal/reduce"
)

func addActivationGPU(table *kernels.Table) {
	for op, function := range map[string]string{
		"Relu": "relu", "Relu6": "relu6", "Elu": "elu", "Selu": "selu", "Softplus": "softplus", "Softsign": "softsign",
	} {
		elementwise.UnaryOnGPU(table, op, function, launch.Reals)
	}
	for op, function := range map[string]string{
		"ReluGrad": "relugrad", "Relu6Grad": "relu6grad", "EluGrad": "elugrad", "SeluGrad": "selugrad",
		"SoftplusGrad": "softplusgrad", "SoftsignGrad": "softsigngrad",
	} {
		elementwise.GradOnGPU(table, op, function)
	}
	for _, t := range launch.Reals {
		types := map[string][]tensor.DType{"T": {t.DType}}
		table.Add(
			kernels.Def{Op: "LeakyRelu", Device: "GPU", Types: types, New: func(c *kernels.Construction) (any, error) {
				alpha, err := c.Attrs().Float("alpha")
				return &elementwise.GPUUnary{GPUKernel: elementwise.GPUKernel{Function: "leakyrelu_" + t.Suffix, In: t.DType, Out: t.DType}, More: []uint64{kernels.Double(float64(alpha))}}, err
			}},
			kernels.Def{Op: "LeakyReluGrad", Device: "GPU", Types: types, New: func(c *kernels.Construction) (any, error) {
				alpha, err := c.Attrs().Float("alpha")
				return &elementwise.GPUZip{GPUKernel: elementwise.GPUKernel{Function: "leakyrelugrad_" + t.Suffix, In: t.DType, Out: t.DType}, More: []uint64{kernels.Double(float64(alpha))}}, err
			}})
	}
}

func addBatchNormGPU(table *kernels.Table) {
	for _, dtype := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16} {
		row := func(op string, outputs int, run func(*deviceBatchNorm, *kernels.Context) error) {
			types := map[string][]tensor.DType{"T": {dtype}}
			if dtype != tensor.Float32 {
				types["U"] = []tensor.DType{tensor.Float32}
			}
			table.Add(kernels.Def{Op: op, Device: "GPU", Types: types, Expensive: true, New: func(c *kernels.Construction) (any, error) {
				b, err := newBatchNorm(c, outputs)
				k := &deviceBatchNorm{b, dtype}
				return kernels.Func(func(ctx *kernels.Context) error { return run(k, ctx) }), err
			}})
		}
		if dtype == tensor.Float32 {
			row("FusedBatchNorm", 5, (*deviceBatchNorm).forward)
			row("FusedBatchNormGrad", 5, (*deviceBatchNorm).backward)
		}
		row("FusedBatchNormV2", 5, (*deviceBatchNorm).forward)
		row("FusedBatchNormV3", 6, (*deviceBatchNorm).forward)
		row("FusedBatchNormGradV2", 5, (*deviceBatchNorm).backward)
		row("FusedBatchNormGradV3", 5, (*deviceBatchNorm).backward)
	}
}

func addBiasGPU(table *kernels.Table) {
	for _, t := range append(launch.Bits, launch.Reals...) {
		biasOnGPU(table, t)
	}
	launch.EachDenseType(func(dtype tensor.DType) {
		table.Add(kernels.Def{Op: "BiasAddGrad", Device: "GPU", Types: map[string][]tensor.DType{"T": {dtype}}, Expensive: true, New: func(c *kernels.Construction) (any, error) {
			first, err := args.ChannelsFirst(c)
			return &deviceBiasGrad{dtype, first}, err
		}})
	})
}

func addConvGPU(table *kernels.Table) {
	launch.EachDenseType(func(dtype tensor.DType) {
		row := func(op string, host []string, run func(*deviceConv, *kernels.Context) error, images []int, sizes int, results ...int) {
			table.Add(kernels.Def{Op: op, Device: "GPU", Types: map[string][]tensor.DType{"T": {dtype}}, HostInputs: host, Expensive: true, New: func(c *kernels.Construction) (any, error) {
				w, err := newWindowing(c)
				k := &deviceConv{w, dtype, gemm.AllowTF32()}
				return w.inLayout(kernels.Func(func(ctx *kernels.Context) error { return run(k, ctx) }), images, sizes, results...), err
			}})
		}
		row("Conv2D", nil, (*deviceConv).forward, []int{0}, -1, 0)
		row("Conv2DBackpropInput", []string{"input_sizes"}, (*deviceConv).inputGrad, []int{2}, 0, 0)
		row("Conv2DBackpropFilter", []string{"filter_sizes"}, (*deviceConv).filterGrad, []int{0, 2}, -1)

		row3 := func(op string, host []string, run func(*deviceConv3, *kernels.Context) error, images []int, sizes int, results ...int) {
			table.Add(kernels.Def{Op: op, Device: "GPU", Types: map[string][]tensor.DType{"T": {dtype}}, HostInputs: host, Expensive: true, New: func(c *kernels.Construction) (any, error) {
				w, err := newWindowing3(c)
				k := &deviceConv3{w, dtype, gemm.AllowTF32(), len(host) > 0}
				return w.inLayout(kernels.Func(func(ctx *kernels.Context) error { return run(k, ctx) }), images, sizes, results...), err
			}})
		}
		row3("Conv3D", nil, (*deviceConv3).forward, []int{0}, -1, 0)
		row3("Conv3DBackpropInput", nil, (*deviceConv3).inputGrad, []int{2}, 0, 0)
		row3("Conv3DBackpropInputV2", []string{"input_sizes"}, (*deviceConv3).inputGrad, []int{2}, 0, 0)
		row3("Conv3DBackpropFilter", nil, (*deviceConv3).filterGrad, []int{0, 2}, -1)
		row3("Conv3DBackpropFilterV2", []string{"filter_sizes"}, (*deviceConv3).filterGrad, []int{0, 2}, -1)
	})
}

func addDepthwiseGPU(table *kernels.Table) {
	launch.EachDenseType(func(dtype tensor.DType) {
		row := func(op string, host []string, run func(*deviceDepthwise, *kernels.Context) error) {
			table.Add(kernels.Def{Op: op, Device: "GPU", Types: map[string][]tensor.DType{"T": {dtype}}, HostInputs: host, Expensive: true, New: func(c *kernels.Construction) (any, error) {
				w, err := newWindowing(c)
				k := &deviceDepthwise{w, dtype}
				return kernels.Func(func(ctx *kernels.Context) error { return run(k, ctx) }), err
			}})
		}
		row("DepthwiseConv2dNative", nil, (*deviceDepthwise).forward)
		row("DepthwiseConv2dNativeBackpropInput", []string{"input_sizes"}, (*deviceDepthwise).inputGrad)
		row("DepthwiseConv2dNativeBackpropFilter", []string{"filter_sizes"}, (*deviceDepthwise).filterGrad)
	})
}

func addLRNGPU(table *kernels.Table) {
	for _, dtype := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16} {
		row := func(op string, run func(*deviceLRN, *kernels.Context) error) {
			table.Add(kernels.Def{Op: op, Device: "GPU", Types: map[string][]tensor.DType{"T": {dtype}}, Expensive: true, New: func(c *kernels.Construction) (any, error) {
				l, err := newLRN(c)
				k := &deviceLRN{l, dtype}
				return kernels.Func(func(ctx *kernels.Context) error { return run(k, ctx) }), err
			}})
		}
		row("LRN", (*deviceLRN).forward)
		row("LRNGrad", (*deviceLRN).backward)
	}
}

func addL2LossGPU(table *kernels.Table) {
	half := reduce.GPUReduction{First: "reduce_squares", Then: "reduce_sum", Widens: true, Finish: reduce.FinishHalf}
	for _, dtype := range dtypes.Floats {
		table.Add(kernels.Def{Op: "L2Loss", Device: "GPU", Types: dtypes.Only("T", dtype), New: kernels.Always(func(ctx *kernels.Context) error {
			in := ctx.Input(0)
			if err := args.CheckType(ctx, 0, dtype); err != nil {
				return err
			}
			out, err := ctx.Allocate(0, dtype, nil)
			if err != nil {
				return err
			}
			return half.Reduce(ctx, out, in, []int{in.Len()}, true)
		})})
	}
}

func addPoolGPU(table *kernels.Table) {
	launch.EachDenseType(func(dtype tensor.DType) {
		row := func(op string, window bool, run func(*devicePool, *kernels.Context) error, host ...string) {
			table.Add(kernels.Def{Op: op, Device: "GPU", Types: map[string][]tensor.DType{"T": {dtype}}, HostInputs: host, Expensive: true, New: func(c *kernels.Construction) (any, error) {
				p, err := newPooling(c, window)
				k := &devicePool{p, dtype, !window}
				return kernels.Func(func(ctx *kernels.Context) error { return run(k, ctx) }), err
			}})
		}
		row("MaxPool", true, (*devicePool).max)
		row("MaxPoolV2", false, (*devicePool).max, "ksize", "strides")
		row("MaxPoolGrad", true, (*devicePool).maxGrad)
		row("MaxPoolGradV2", false, (*devicePool).maxGrad, "ksize", "strides")
		row("AvgPool", true, (*devicePool).avg)
		row("AvgPoolGrad", true, (*devicePool).avgGrad, "orig_input_shape")

		argmax := func(op string, index []tensor.DType, run func(*deviceArgmaxPool, *kernels.Context) error) {
			types := map[string][]tensor.DType{"T": {dtype}, "Targmax": index}
			table.Add(kernels.Def{Op: op, Device: "GPU", Types: types, Expensive: true, New: func(c *kernels.Construction) (any, error) {
				p, err := newArgmaxPooling(c)
				if err != nil {
					return nil, err
				}
				k := &deviceArgmaxPool{argmaxPooling: p, dtype: dtype}
				k.index, err = c.Attrs().Type("Targmax")
				return kernels.Func(func(ctx *kernels.Context) error { return run(k, ctx) }), err
			}})
		}
		argmax("MaxPoolWithArgmax", []tensor.DType{tensor.Int32, tensor.Int64}, (*deviceArgmaxPool).forward)
		argmax("MaxPoolGradWithArgmax", []tensor.DType{tensor.Int64}, (*deviceArgmaxPool).backward)
	})
	table.Add(kernels.Def{Op: "ExtractImagePatches", Device: "GPU", Types: dtypes.Numbers("T"), New: func(c *kernels.Construction) (any, error) {
		made, err := newPatches(2)(c)
		if err != nil {
			return nil, err
		}
		return kernels.Func(made.(*patchesKernel).onGPU), nil
	}})
}

func addSoftmaxGPU(table *kernels.Table) {
	for _, dtype := range dtypes.Floats {
		for op, f := range map[string]kernels.Func{
			"Softmax": gpuSoftmax(dtype, false), "LogSoftmax": gpuSoftmax(dtype, true),
			"SoftmaxCrossEntropyWithLogits": gpuXent(dtype), "SparseSoftmaxCrossEntropyWithLogits": gpuSparseXent(dtype),
		} {
			table.Add(kernels.Def{Op: op, Device: "GPU", Types: dtypes.Only("T", dtype), New: kernels.Always(f)})
		}
	}
}

func addTopKGPU(table *kernels.Table) {
	for _, dtype := range append(dtypes.Floats[:len(dtypes.Floats):len(dtypes.Floats)], tensor.Int32, tensor.Int64) {
		table.Add(
			kernels.Def{Op: "TopK", Device: "GPU", Types: dtypes.Only("T", dtype), New: func(c *kernels.Construction) (any, error) {
				k, err := c.Attrs().Int("k")
				return gpuTopK(dtype, tensor.Int32, k, -1), err
			}},
			kernels.Def{Op: "TopKV2", Device: "GPU", Types: dtypes.Only("T", dtype), HostInputs: []string{"k"}, New: func(c *kernels.Construction) (any, error) {
				index, err := topKIndex(c)
				return gpuTopK(dtype, index, 0, 1), err
			}})
	}
	table.Add(
		kernels.Def{Op: "InTopK", Device: "GPU", New: func(c *kernels.Construction) (any, error) {
			k, err := c.Attrs().Int("k")
			return gpuInTopK(&inTopKKernel{k: k}), err
		}},
		kernels.Def{Op: "InTopKV2", Device: "GPU", HostInputs: []string{"k"}, New: kernels.Always(gpuInTopK(&inTopKKernel{fromInput: true}))})
}
