package random

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// Table returns the ops of the family.
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
	op("StatefulUniform", uniform.variable())
	normal := samplers{samplerOf(&normal32), samplerOf(&normal64), samplerOf(normalHalf[element.Float16]()), samplerOf(normalHalf[element.BFloat16]())}
	op("RandomStandardNormal", normal.stateful())
	op("StatelessRandomNormal", normal.seeded())
	op("StatelessRandomNormalV2", normal.keyed())
	op("StatefulStandardNormal", normal.tagged())
	op("StatefulStandardNormalV2", normal.variable())
	truncated := samplers{samplerOf(truncated32(asFloat)), samplerOf(&truncated64), samplerOf(truncated32(element.ToFloat16)), samplerOf(truncated32(element.ToBFloat16))}
	op("TruncatedNormal", truncated.stateful())
	op("StatelessTruncatedNormal", truncated.seeded())
	op("StatelessTruncatedNormalV2", truncated.keyed())
	op("StatefulTruncatedNormal", truncated.variable())
	anyInt := samplers{samplerOf(anyInt32[int32]()), samplerOf(anyInt32[uint32]()), samplerOf(anyInt64[int64]()), samplerOf(anyInt64[uint64]())}
	op("StatelessRandomUniformFullInt", anyInt.seeded())
	op("StatelessRandomUniformFullIntV2", anyInt.keyed())
	op("StatefulUniformFullInt", anyInt.variable())
	ints := samplers{boundedSampler(uniformInt32), boundedSampler(uniformInt64)}
	op("RandomUniformInt", ints.stateful())
	op("StatelessRandomUniformInt", ints.seeded())
	op("StatelessRandomUniformIntV2", ints.keyed())
	op("StatefulUniformInt", ints.variable())
	op("NonDeterministicInts", unseededOf[int32](), unseededOf[uint32](), unseededOf[int64](), unseededOf[uint64]())

	op("Multinomial", multinomialOf[float32](), multinomialOf[float64]())
	op("StatelessMultinomial", statelessMultinomialOf[float32](), statelessMultinomialOf[float64]())
	op("RandomGamma", gammaOf[float32](), gammaOf[float64]())
	op("StatelessRandomGammaV2", seededGammaOf[float32](), seededGammaOf[float64]())
	op("StatelessRandomGammaV3", keyedGammaOf[float32](), keyedGammaOf[float64]())
	op("RandomIndexShuffle", kernels.ForType("dtype", tensor.Int32, newIndexShuffle[int32]), kernels.ForType("dtype", tensor.Int64, newIndexShuffle[int64]),
		kernels.ForType("dtype", tensor.Uint32, newIndexShuffle[uint32]), kernels.ForType("dtype", tensor.Uint64, newIndexShuffle[uint64]))
	op("ParameterizedTruncatedNormal", kernels.ForType("dtype", tensor.Float16, newTruncatedNormal(&numbersHalf)),
		kernels.ForType("dtype", tensor.Float32, newTruncatedNormal(&numbers32)), kernels.ForType("dtype", tensor.Float64, newTruncatedNormal(&numbers64)))
	op("StatelessParameterizedTruncatedNormal", kernels.ForType("dtype", tensor.Float16, kernels.Always(statelessTruncatedNormal(&numbersHalf))),
		kernels.ForType("dtype", tensor.Float32, kernels.Always(statelessTruncatedNormal(&numbers32))),
		kernels.ForType("dtype", tensor.Float64, kernels.Always(statelessTruncatedNormal(&numbers64))))
	op("SobolSample", kernels.ForType("dtype", tensor.Float32, kernels.Always(sobolSample[float32])), kernels.ForType("dtype", tensor.Float64, kernels.Always(sobolSample[float64])))
	op("StochasticCastToInt", kernels.ForType("Tout", tensor.Int8, newStochasticCast[int8]), kernels.ForType("Tout", tensor.Int16, newStochasticCast[int16]),
		kernels.ForType("Tout", tensor.Int32, newStochasticCast[int32]))
	floats := []tensor.DType{tensor.Float16, tensor.Float32, tensor.Float64}
	counts := []tensor.DType{tensor.Float16, tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64}
	table.Add([]kernels.Def{
		{Op: "RandomPoissonV2", Types: map[string][]tensor.DType{"R": counts, "dtype": counts}, HostInputs: []string{"shape"}, Expensive: true, New: newRandomPoisson},
		{Op: "RandomPoisson", Types: map[string][]tensor.DType{"dtype": counts[:3]}, HostInputs: []string{"shape"}, Expensive: true, New: newRandomPoisson},
		{Op: "StatelessRandomPoisson", Types: map[string][]tensor.DType{"Rtype": counts, "dtype": counts}, HostInputs: []string{"shape", "seed", "lam"}, Expensive: true, New: newStatelessPoisson},
		{Op: "StatelessRandomBinomial", Types: map[string][]tensor.DType{"T": floats, "dtype": counts}, HostInputs: onHost, Expensive: true, New: binomial(0, 2, fromSeed)},
		{Op: "StatefulRandomBinomial", Types: map[string][]tensor.DType{"T": floats, "dtype": counts}, HostInputs: onHost, Expensive: true, New: binomial(2, 3, fromInput)},
		{Op: "RandomShuffle", New: newShuffle},
		{Op: "StatelessShuffle", New: kernels.Always(statelessShuffle)},
		{Op: "RngSkip", HostInputs: onHost, New: kernels.Always(skip)},
		{Op: "RngReadAndSkip", HostInputs: onHost, HostOutputs: onHost, New: kernels.Always(readAndSkip)},
		{Op: "UniformCandidateSampler", Expensive: true, New: newCandidateSampler(newUniformClasses)},
		{Op: "LogUniformCandidateSampler", Expensive: true, New: newCandidateSampler(newLogUniformClasses)},
		{Op: "LearnedUnigramCandidateSampler", Expensive: true, New: newCandidateSampler(newLearnedClasses)},
		{Op: "ThreadUnsafeUnigramCandidateSampler", Expensive: true, New: newCandidateSampler(newLearnedClasses)},
		{Op: "FixedUnigramCandidateSampler", Expensive: true, New: newCandidateSampler(newWeightedClasses)},
		{Op: "AllCandidateSampler", New: newAllCandidates},
		{Op: "ComputeAccidentalHits", New: newAccidentalHits},
		{Op: "StatelessRandomGetKeyCounter", HostInputs: onHost, HostOutputs: onHost, New: kernels.Always(keyAndCounter)},
		{Op: "StatelessRandomGetAlg", HostOutputs: onHost, New: kernels.Always(algorithm)},
		{Op: "StatelessRandomGetKeyCounterAlg", HostInputs: onHost, HostOutputs: onHost, New: kernels.Always(keyCounterAlgorithm)},
	}...)
}
