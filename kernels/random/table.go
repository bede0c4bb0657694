package random

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/philox"
)

// Table is the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addGamma(table)
	addIndex(table)
	addPoisson(table)
	addRandom(table)
	addKernelGPU(table)
	return table
}

func addGamma(table *kernels.Table) {
	randomGammaRows[float32](table)
	randomGammaRows[float64](table)
}

func addIndex(table *kernels.Table) {
	only := func(t tensor.DType) map[string][]tensor.DType { return map[string][]tensor.DType{"dtype": {t}} }
	table.Add(
		kernels.Def{Op: "RandomIndexShuffle", Types: only(tensor.Int32), New: newIndexShuffle[int32]},
		kernels.Def{Op: "RandomIndexShuffle", Types: only(tensor.Int64), New: newIndexShuffle[int64]},
		kernels.Def{Op: "RandomIndexShuffle", Types: only(tensor.Uint32), New: newIndexShuffle[uint32]},
		kernels.Def{Op: "RandomIndexShuffle", Types: only(tensor.Uint64), New: newIndexShuffle[uint64]})
}

func addPoisson(table *kernels.Table) {
	counts := []tensor.DType{tensor.Float16, tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64}
	table.Add([]kernels.Def{
		{Op: "RandomPoissonV2", Types: map[string][]tensor.DType{"R": counts, "dtype": counts}, HostInputs: []string{"shape"}, Expensive: true, New: newRandomPoisson},
	}...)
}

// randomRows makes the rows of a distribution for one element type: the op that keeps a
// generator, and the stateless ones. An empty name stands for an op that there is not.
func randomRows[T any](table *kernels.Table, stateful, stateless string, d *distribution[T]) {
	types := map[string][]tensor.DType{"dtype": {element.DTypeOf[T]()}}
	if stateful != "" {
		table.Add(kernels.Def{Op: stateful, Types: types, HostInputs: []string{"shape"}, Expensive: true, New: func(c *kernels.Construction) (any, error) {
			g, err := philox.NewGenerator(c)
			return randomKernel(fromState(g), constantly(d)), err
		}})
	}
	registerStateless(table, stateless, types, constantly(d), constantly(d))
}

func registerStateless[T any](table *kernels.Table, op string, types map[string][]tensor.DType, first, second distributed[T]) {
	fixed := func(k kernels.Func) func(*kernels.Construction) (any, error) {
		return func(*kernels.Construction) (any, error) { return k, nil }
	}
	table.Add(
		kernels.Def{Op: op, Types: types, HostInputs: []string{"shape", "seed", "minval", "maxval"}, Expensive: true, New: fixed(randomKernel(fromSeed, first))},
		kernels.Def{Op: op + "V2", Types: types, HostInputs: []string{"shape", "alg"}, Expensive: true, New: fixed(randomKernel(fromKey, second))})
}

// randomIntRows makes the rows of integers between bounds.
func randomIntRows[T int32 | int64](table *kernels.Table, make func(lo, hi T) *distribution[T]) {
	dtype := element.DTypeOf[T]()
	table.Add(kernels.Def{Op: "RandomUniformInt", Types: map[string][]tensor.DType{"Tout": {dtype}}, HostInputs: []string{"shape", "minval", "maxval"}, Expensive: true, New: func(c *kernels.Construction) (any, error) {
		g, err := philox.NewGenerator(c)
		return randomKernel(fromState(g), bounded(1, make)), err
	}})
	registerStateless(table, "StatelessRandomUniformInt", map[string][]tensor.DType{"dtype": {dtype}}, bounded(2, make), bounded(4, make))
}

func addRandom(table *kernels.Table) {
	randomRows(table, "RandomUniform", "StatelessRandomUniform", &uniform32)
	randomRows(table, "RandomUniform", "StatelessRandomUniform", &uniform64)
	randomRows(table, "RandomUniform", "StatelessRandomUniform", &uniformHalf)
	randomRows(table, "RandomUniform", "StatelessRandomUniform", &uniformBFloat)
	randomRows(table, "RandomStandardNormal", "StatelessRandomNormal", normal32(asFloat))
	randomRows(table, "RandomStandardNormal", "StatelessRandomNormal", &normal64)
	randomRows(table, "RandomStandardNormal", "StatelessRandomNormal", normal32(element.ToFloat16))
	randomRows(table, "RandomStandardNormal", "StatelessRandomNormal", normal32(element.ToBFloat16))
	randomRows(table, "TruncatedNormal", "StatelessTruncatedNormal", truncated32(asFloat))
	randomRows(table, "TruncatedNormal", "StatelessTruncatedNormal", &truncated64)
	randomRows(table, "TruncatedNormal", "StatelessTruncatedNormal", truncated32(element.ToFloat16))
	randomRows(table, "TruncatedNormal", "StatelessTruncatedNormal", truncated32(element.ToBFloat16))
	randomRows(table, "", "StatelessRandomUniformFullInt", anyInt32[int32]())
	randomRows(table, "", "StatelessRandomUniformFullInt", anyInt32[uint32]())
	randomRows(table, "", "StatelessRandomUniformFullInt", anyInt64[int64]())
	randomRows(table, "", "StatelessRandomUniformFullInt", anyInt64[uint64]())
	randomIntRows(table, uniformInt32)
	randomIntRows(table, uniformInt64)
	table.Add(
		kernels.Def{Op: "RandomShuffle", New: newShuffle},
		kernels.Def{Op: "StatelessRandomGetKeyCounter", HostInputs: []string{"*"}, HostOutputs: []string{"*"}, New: func(*kernels.Construction) (any, error) { return kernels.Func(keyAndCounter), nil }},
		kernels.Def{Op: "StatelessRandomGetAlg", HostOutputs: []string{"*"}, New: func(*kernels.Construction) (any, error) {
			return kernels.Func(func(ctx *kernels.Context) error {
				ctx.SetOutput(0, tensor.Scalar[int32](tensor.Int32, algPhilox))
				return nil
			}), nil
		}},
		kernels.Def{Op: "StatelessRandomGetKeyCounterAlg", HostInputs: []string{"*"}, HostOutputs: []string{"*"}, New: func(*kernels.Construction) (any, error) {
			return kernels.Func(func(ctx *kernels.Context) error {
				ctx.SetOutput(2, tensor.Scalar[int32](tensor.Int32, algPhilox))
				return keyAndCounter(ctx)
			}), nil
		}})
	multinomialRows[float32](table)
	multinomialRows[float64](table)
}
