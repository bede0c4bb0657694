package kernels

import "github.com/troupe-run/troupe/graph/tensor"

// randomRows makes the rows of a distribution for one element type: the op that keeps a
// generator, and the stateless ones. An empty name stands for an op that there is not.
func randomRows[T any](stateful, stateless string, d *distribution[T]) {
	types := map[string][]tensor.DType{"dtype": {dtypeOf[T]()}}
	if stateful != "" {
		Register(Def{Op: stateful, Types: types, HostInputs: []string{"shape"}, Expensive: true, New: func(c *Construction) (any, error) {
			g, err := newGenerator(c)
			return randomKernel(fromState(g), constantly(d)), err
		}})
	}
	registerStateless(stateless, types, constantly(d), constantly(d))
}

func registerStateless[T any](op string, types map[string][]tensor.DType, first, second distributed[T]) {
	fixed := func(k Func) func(*Construction) (any, error) {
		return func(*Construction) (any, error) { return k, nil }
	}
	Register(
		Def{Op: op, Types: types, HostInputs: []string{"shape", "seed", "minval", "maxval"}, Expensive: true, New: fixed(randomKernel(fromSeed, first))},
		Def{Op: op + "V2", Types: types, HostInputs: []string{"shape", "alg"}, Expensive: true, New: fixed(randomKernel(fromKey, second))})
}

// randomIntRows makes the rows of integers between bounds.
func randomIntRows[T int32 | int64](make func(lo, hi T) *distribution[T]) {
	dtype := dtypeOf[T]()
	Register(Def{Op: "RandomUniformInt", Types: map[string][]tensor.DType{"Tout": {dtype}}, HostInputs: []string{"shape", "minval", "maxval"}, Expensive: true, New: func(c *Construction) (any, error) {
		g, err := newGenerator(c)
		return randomKernel(fromState(g), bounded(1, make)), err
	}})
	registerStateless("StatelessRandomUniformInt", map[string][]tensor.DType{"dtype": {dtype}}, bounded(2, make), bounded(4, make))
}

func init() {
	randomRows("RandomUniform", "StatelessRandomUniform", &uniform32)
	randomRows("RandomUniform", "StatelessRandomUniform", &uniform64)
	randomRows("RandomUniform", "StatelessRandomUniform", &uniformHalf)
	randomRows("RandomUniform", "StatelessRandomUniform", &uniformBFloat)
	randomRows("RandomStandardNormal", "StatelessRandomNormal", normal32(asFloat))
	randomRows("RandomStandardNormal", "StatelessRandomNormal", &normal64)
	randomRows("RandomStandardNormal", "StatelessRandomNormal", normal32(toFloat16))
	randomRows("RandomStandardNormal", "StatelessRandomNormal", normal32(toBFloat16))
	randomRows("TruncatedNormal", "StatelessTruncatedNormal", truncated32(asFloat))
	randomRows("TruncatedNormal", "StatelessTruncatedNormal", &truncated64)
	randomRows("TruncatedNormal", "StatelessTruncatedNormal", truncated32(toFloat16))
	randomRows("TruncatedNormal", "StatelessTruncatedNormal", truncated32(toBFloat16))
	randomRows("", "StatelessRandomUniformFullInt", anyInt32[int32]())
	randomRows("", "StatelessRandomUniformFullInt", anyInt32[uint32]())
	randomRows("", "StatelessRandomUniformFullInt", anyInt64[int64]())
	randomRows("", "StatelessRandomUniformFullInt", anyInt64[uint64]())
	randomIntRows(uniformInt32)
	randomIntRows(uniformInt64)
	Register(
		Def{Op: "RandomShuffle", New: newShuffle},
		Def{Op: "StatelessRandomGetKeyCounter", HostInputs: []string{"*"}, HostOutputs: []string{"*"}, New: func(*Construction) (any, error) { return Func(keyAndCounter), nil }},
		Def{Op: "StatelessRandomGetAlg", HostOutputs: []string{"*"}, New: func(*Construction) (any, error) {
			return Func(func(ctx *Context) error {
				ctx.SetOutput(0, tensor.Scalar[int32](tensor.Int32, algPhilox))
				return nil
			}), nil
		}},
		Def{Op: "StatelessRandomGetKeyCounterAlg", HostInputs: []string{"*"}, HostOutputs: []string{"*"}, New: func(*Construction) (any, error) {
			return Func(func(ctx *Context) error {
				ctx.SetOutput(2, tensor.Scalar[int32](tensor.Int32, algPhilox))
				return keyAndCounter(ctx)
			}), nil
		}})
	multinomialRows[float32]()
	multinomialRows[float64]()
}
