package kernels

import "github.com/troupe-run/troupe/graph/tensor"

func init() {
	for op, function := range map[string]string{
		"Relu": "relu", "Relu6": "relu6", "Elu": "elu", "Selu": "selu", "Softplus": "softplus", "Softsign": "softsign",
	} {
		unaryOnGPU(op, function, gpuReals)
	}
	for op, function := range map[string]string{
		"ReluGrad": "relugrad", "Relu6Grad": "relu6grad", "EluGrad": "elugrad", "SeluGrad": "selugrad",
		"SoftplusGrad": "softplusgrad", "SoftsignGrad": "softsigngrad",
	} {
		gradOnGPU(op, function)
	}
	for _, t := range gpuReals {
		types := map[string][]tensor.DType{"T": {t.dtype}}
		Register(
			Def{Op: "LeakyRelu", Device: "GPU", Types: types, New: func(c *Construction) (any, error) {
				alpha, err := c.Attrs().Float("alpha")
				return &gpuUnary{gpuKernel{"leakyrelu_" + t.suffix, t.dtype, t.dtype}, []uint64{Double(float64(alpha))}}, err
			}},
			Def{Op: "LeakyReluGrad", Device: "GPU", Types: types, New: func(c *Construction) (any, error) {
				alpha, err := c.Attrs().Float("alpha")
				return &gpuZip{gpuKernel{"leakyrelugrad_" + t.suffix, t.dtype, t.dtype}, []uint64{Double(float64(alpha))}}, err
			}})
	}
}
