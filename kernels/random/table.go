package random

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// Table is the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addRandom(table)
	addKernelGPU(table)
	return table
}

func addRandom(table *kernels.Table) {
	op, onHost := table.Op, []string{kernels.Everything}
	uniform := samplers{samplerOf(&uniform32), samplerOf(&uniform64), samplerOf(&uniformHalf), samplerOf(&uniformBFloat)}
	op("RandomUniform", uniform.stateful())
	op("StatelessRandomUniform", uniform.seeded())
	op("StatelessRandomUniformV2", uniform.keyed())
	normal := samplers{samplerOf(&normal32), samplerOf(&normal64), samplerOf(normalHalf[element.Float16]()), samplerOf(normalHalf[element.BFloat16]())}
	op("RandomStandardNormal", normal.stateful())
	op("StatelessRandomNormal", normal.seeded())
	op("StatelessRandomNormalV2", normal.keyed())
	truncated := samplers{samplerOf(truncated32(asFloat)), samplerOf(&truncated64), samplerOf(truncated32(element.ToFloat16)), samplerOf(truncated32(element.ToBFloat16))}
	op("TruncatedNormal", truncated.stateful())
	op("StatelessTruncatedNormal", truncated.seeded())
	op("StatelessTruncatedNormalV2", truncated.keyed())
	anyInt := samplers{samplerOf(anyInt32[int32]()), samplerOf(anyInt32[uint32]()), samplerOf(anyInt64[int64]()), samplerOf(anyInt64[uint64]())}
	op("StatelessRandomUniformFullInt", anyInt.seeded())
	op("StatelessRandomUniformFullIntV2", anyInt.keyed())
	ints := samplers{boundedSampler(uniformInt32), boundedSampler(uniformInt64)}
	op("RandomUniformInt", ints.stateful())
	op("StatelessRandomUniformInt", ints.seeded())
	op("StatelessRandomUniformIntV2", ints.keyed())

	op("Multinomial", multinomialOf[float32](), multinomialOf[float64]())
	op("StatelessMultinomial", statelessMultinomialOf[float32](), statelessMultinomialOf[float64]())
	op("RandomGamma", gammaOf[float32](), gammaOf[float64]())
	op("RandomIndexShuffle", kernels.ForType("dtype", tensor.Int32, newIndexShuffle[int32]), kernels.ForType("dtype", tensor.Int64, newIndexShuffle[int64]),
		kernels.ForType("dtype", tensor.Uint32, newIndexShuffle[uint32]), kernels.ForType("dtype", tensor.Uint64, newIndexShuffle[uint64]))
	counts := []tensor.DType{tensor.Float16, tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64}
	table.Add([]kernels.Def{
		{Op: "RandomPoissonV2", Types: map[string][]tensor.DType{"R": counts, "dtype": counts}, HostInputs: []string{"shape"}, Expensive: true, New: newRandomPoisson},
		{Op: "RandomShuffle", New: newShuffle},
		{Op: "StatelessRandomGetKeyCounter", HostInputs: onHost, HostOutputs: onHost, New: kernels.Always(keyAndCounter)},
		{Op: "StatelessRandomGetAlg", HostOutputs: onHost, New: kernels.Always(algorithm)},
		{Op: "StatelessRandomGetKeyCounterAlg", HostInputs: onHost, HostOutputs: onHost, New: kernels.Always(keyCounterAlgorithm)},
	}...)
}
