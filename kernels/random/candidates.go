package random

import (
	"math"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/philox"
)

// classes is a distribution over the classes from 0 up to a limit.
type classes interface {
	// prepare allocates memory and reads files. It is called before each run; calls do not overlap.
	prepare(ctx *kernels.Context) error
	// distinct returns the number of classes that can be drawn at all.
	distinct() int64
	sample(x *philox.Numbers32) int64
	probability(class int64) float32
	// learn records classes that occurred.
	learn(seen []int64)
	close()
}

// candidateSampler draws classes, and computes the expected counts of the drawn and the true classes.
type candidateSampler struct {
	trues, sampled int
	unique         bool
	max            int64
	gen            *philox.Generator

	mu   sync.Mutex // guards the distribution
	from classes
}

// newCandidateSampler returns the constructor of a sampler of the classes below the attribute range_max.
func newCandidateSampler(of func(c *kernels.Construction, max int64) (classes, error)) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		max, err := c.Attrs().Int("range_max")
		if err != nil {
			return nil, err
		}
		from, err := of(c, max)
		if err != nil {
			return nil, err
		}
		return candidateSamplerOf(c, max, from)
	}
}

func candidateSamplerOf(c *kernels.Construction, max int64, from classes) (*candidateSampler, error) {
	trues, err := smallAttr(c, "num_true")
	sampled, err2 := smallAttr(c, "num_sampled")
	unique, err3 := c.Attrs().Bool("unique")
	gen, err4 := philox.NewGenerator(c)
	if err := args.FirstError(err, err2, err3, err4); err != nil {
		return nil, err
	}
	return &candidateSampler{trues: trues, sampled: sampled, unique: unique, max: max, gen: gen, from: from}, nil
}

// smallAttr returns an attribute that TensorFlow reads as an int32.
func smallAttr(c *kernels.Construction, name string) (int, error) {
	v, err := c.Attrs().Int(name)
	if err == nil && (v < 1 || v > math.MaxInt32) {
		err = status.InvalidArgumentf("Attr %s has value %d out of range for an int32", name, v)
	}
	return int(v), err
}

// Close implements kernels.Closer.
func (k *candidateSampler) Close() { k.from.close() }

// Compute draws candidates.
func (k *candidateSampler) Compute(ctx *kernels.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.from.prepare(ctx); err != nil {
		return err
	}
	o, err := k.outputs(ctx)
	if err != nil {
		return err
	}
	gen := k.gen.Reserve(2048 * int64(k.sampled) / 4)
	tries, err := k.draw(ctx, o.candidates, philox.OneAtATime(&gen))
	if err != nil {
		return err
	}
	k.expect(o.expected, o.candidates, tries)
	k.expect(o.expectedTrue, o.trues, tries)
	k.from.learn(o.trues)
	return nil
}

// candidateOutputs holds the outputs of a run, and the classes known to be true.
type candidateOutputs struct {
	trues, candidates      []int64
	expectedTrue, expected []float32
}

func (k *candidateSampler) outputs(ctx *kernels.Context) (o candidateOutputs, err error) {
	trues := ctx.Input(0)
	if err := k.check(ctx, trues); err != nil {
		return o, err
	}
	candidates, err := ctx.Allocate(0, tensor.Int64, tensor.Shape{int64(k.sampled)})
	if err != nil {
		return o, err
	}
	expectedTrue, err := ctx.Allocate(1, tensor.Float32, trues.Shape())
	if err != nil {
		return o, err
	}
	expected, err := ctx.Allocate(2, tensor.Float32, tensor.Shape{int64(k.sampled)})
	if err != nil {
		return o, err
	}
	o = candidateOutputs{tensor.Of[int64](trues), tensor.Of[int64](candidates), tensor.Of[float32](expectedTrue), tensor.Of[float32](expected)}
	for _, class := range o.trues {
		if class < 0 || class >= k.max {
			return o, status.InvalidArgumentf("`true_candidate` out of range [%d, %d), received %d", 0, k.max, class)
		}
	}
	return o, nil
}

func (k *candidateSampler) check(ctx *kernels.Context, trues *tensor.Tensor) error {
	if err := args.CheckType(ctx, 0, tensor.Int64); err != nil {
		return err
	}
	switch {
	case trues.Rank() != 2:
		return status.InvalidArgumentf("true_classes must be a matrix")
	case trues.Dim(1) != k.trues:
		return status.InvalidArgumentf("true_classes must have num_true columns, expected: %d was: %d", trues.Dim(1), k.trues)
	case k.unique && int64(k.sampled) > k.max:
		return status.InvalidArgumentf("Sampler's range is too small.")
	}
	return nil
}

// triesPerCheck is the number of draws between two checks whether the run was cancelled.
const triesPerCheck = 1 << 14

// draw fills the list and returns the number of draws that it took: more than the length of the list if all classes must differ.
func (k *candidateSampler) draw(ctx *kernels.Context, drawn []int64, x philox.Numbers32) (tries int, err error) {
	if !k.unique {
		for i := range drawn {
			if drawn[i] = k.from.sample(&x); i%triesPerCheck == 0 && ctx.Ended() != nil {
				return 0, ctx.Ended()
			}
		}
		return len(drawn), nil
	}
	if have := k.from.distinct(); have < int64(len(drawn)) {
		return 0, status.InvalidArgumentf("%d different candidates are asked for, but only %d have a probability above 0", len(drawn), have)
	}
	m := ctx.Meter()
	defer m.Done()
	if err := m.TakeMany(len(drawn), bytesPerUsed); err != nil {
		return 0, err
	}
	used := make(map[int64]struct{}, len(drawn))
	for picked := 0; picked < len(drawn); tries++ {
		if tries == math.MaxInt32 {
			return 0, status.Errorf(status.ResourceExhausted, "%d tries gave only %d of %d different candidates", tries, picked, len(drawn))
		}
		if err := ctx.Ended(); tries%triesPerCheck == 0 && err != nil {
			return 0, err
		}
		class := k.from.sample(&x)
		if _, known := used[class]; !known {
			used[class] = struct{}{}
			drawn[picked] = class
			picked++
		}
	}
	return tries, nil
}

// bytesPerUsed is the memory that a map takes for each drawn class.
const bytesPerUsed = 40

// expect sets counts to the expected number of occurrences of each class among the candidates or, if those are all different, to its
// probability of being one of them.
func (k *candidateSampler) expect(counts []float32, list []int64, tries int) {
	for i, class := range list {
		p := k.from.probability(class)
		if tries == k.sampled {
			counts[i] = p * float32(k.sampled)
			continue
		}
		// 1 - (1-p)^tries, rounded to float32 after each step as in TensorFlow.
		none := float32(tries) * float32(math.Log1p(-float64(p)))
		counts[i] = -float32(math.Expm1(float64(none)))
	}
}

// fixedClasses is embedded in distributions that need no preparation and learn nothing.
type fixedClasses struct{ max int64 }

func (fixedClasses) prepare(*kernels.Context) error { return nil }
func (c fixedClasses) distinct() int64              { return c.max }
func (fixedClasses) learn([]int64)                  {}
func (fixedClasses) close()                         {}

// uniformClasses have equal probabilities.
type uniformClasses struct{ fixedClasses }

func newUniformClasses(_ *kernels.Construction, max int64) (classes, error) {
	return uniformClasses{fixedClasses{max}}, nil
}

func (c uniformClasses) sample(x *philox.Numbers32) int64 { return int64(x.Below(uint64(c.max))) }
func (c uniformClasses) probability(int64) float32        { return float32(1 / float64(c.max)) }

// logUniformClasses are less likely the larger they are, close to Zipf's law.
type logUniformClasses struct {
	fixedClasses
	log float64
}

func newLogUniformClasses(_ *kernels.Construction, max int64) (classes, error) {
	return logUniformClasses{fixedClasses{max}, math.Log1p(float64(max))}, nil
}

func (c logUniformClasses) sample(x *philox.Numbers32) int64 {
	x0 := x.Next()
	class := int64(math.Exp(philox.UnitDouble(x0, x.Next())*c.log)) - 1
	return class % c.max // rounding may have reached the end of the range
}

func (c logUniformClasses) probability(class int64) float32 {
	return float32(math.Log((float64(class)+2)/(float64(class)+1)) / c.log)
}

// newAllCandidates returns the kernel whose candidates are all classes, in order.
func newAllCandidates(c *kernels.Construction) (any, error) {
	k, err := candidateSamplerOf(c, 0, nil)
	if err != nil {
		return nil, err
	}
	k.max = int64(k.sampled)
	return kernels.Func(func(ctx *kernels.Context) error {
		o, err := k.outputs(ctx)
		if err != nil {
			return err
		}
		for i := range o.candidates {
			o.candidates[i] = int64(i)
			o.expected[i] = 1
		}
		for i := range o.expectedTrue {
			o.expectedTrue[i] = 1
		}
		return nil
	}), nil
}
