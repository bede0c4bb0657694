package sdca

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// sparseGroup is a group of sparse features. Those of example i have the indices splits[i] to splits[i+1].
type sparseGroup struct {
	splits   []int64
	at       []int64   // the index of each feature's weight
	values   []float32 // nil if all are 1
	weights  []float32
	deltas   []float32
	features []int64 // the ids of the features, as given
}

func (g sparseGroup) value(k int64) float64 {
	if g.values == nil {
		return 1
	}
	return float64(g.values[k])
}

// denseGroup is a group of features that every example has.
type denseGroup struct {
	values          []float32
	weights, deltas []float32
}

func (g denseGroup) row(i int) []float32 { return g.values[i*len(g.weights):][:len(g.weights)] }

// examples is a batch of examples, with the weights of their features.
type examples struct {
	weights, labels []float32
	sparse          []sparseGroup
	dense           []denseGroup
	norms           []float64 // squared norms
}

// inputs holds the inputs of the optimizers by name.
type inputs struct {
	exampleIndices, featureIndices, featureValues, dense []*tensor.Tensor
	weights, labels                                      *tensor.Tensor
	indices, sparseWeights, denseWeights                 []*tensor.Tensor
	state                                                *tensor.Tensor
}

// newExamples reads the batch and allocates the outputs of deltas, which start as zeros.
func newExamples(ctx *kernels.Context, m *kernels.Meter, in inputs) (*examples, error) {
	e := &examples{weights: tensor.Of[float32](in.weights), labels: tensor.Of[float32](in.labels)}
	n := len(e.weights)
	deltas := func(o int, like *tensor.Tensor) ([]float32, error) {
		t, err := ctx.Allocate(o, tensor.Float32, like.Shape())
		if err != nil {
			return nil, err
		}
		return tensor.Of[float32](t), kernels.Clear(ctx, tensor.Of[float32](t))
	}
	for i, w := range in.sparseWeights {
		d, err := deltas(1+i, w)
		if err != nil {
			return nil, err
		}
		e.sparse = append(e.sparse, sparseGroup{weights: tensor.Of[float32](w), deltas: d})
	}
	for i, w := range in.denseWeights {
		d, err := deltas(1+len(e.sparse)+i, w)
		if err != nil {
			return nil, err
		}
		e.dense = append(e.dense, denseGroup{weights: tensor.Of[float32](w), deltas: d})
	}
	switch {
	case n >= math.MaxInt32:
		return nil, status.InvalidArgumentf("Too many examples in a mini-batch: %d > %d", n, math.MaxInt32)
	case len(e.labels) != n:
		return nil, status.InvalidArgumentf("Expected %d example labels but got %d", n, len(e.labels))
	}
	for i, t := range in.dense {
		if t.Rank() != 2 {
			return nil, status.InvalidArgumentf("Dense features at index %d must be rank 2 but is rank %d", i, t.Rank())
		}
	}
	for i := range e.sparse {
		if err := e.sparse[i].read(m, in, i, n); err != nil {
			return nil, err
		}
	}
	for i := range e.dense {
		if err := e.dense[i].read(in.dense[i], n); err != nil {
			return nil, err
		}
	}
	return e, e.measure(m)
}

// read locates the features of each of n examples.
func (g *sparseGroup) read(m *kernels.Meter, in inputs, i, n int) (err error) {
	of := tensor.Of[int64](in.exampleIndices[i])
	g.features = tensor.Of[int64](in.featureIndices[i])
	if len(of) != len(g.features) {
		return status.InvalidArgumentf("Found mismatched example_indices and feature_indices [%s] vs [%s]", aligned(of), aligned(g.features))
	}
	if i < len(in.featureValues) {
		if g.values = tensor.Of[float32](in.featureValues[i]); len(g.values) != len(g.features) {
			return status.InvalidArgumentf("Expected %d sparse feature values at index %d but got %d", len(g.features), i, len(g.values))
		}
	}
	known, err := placesOf(m, tensor.Of[int64](in.indices[i]), len(g.weights))
	if err != nil {
		return err
	}
	if g.splits, err = kernels.Scratch[int64](m, n+1); err != nil {
		return err
	}
	if g.at, err = kernels.Scratch[int64](m, len(of)); err != nil {
		return err
	}
	k := 0
	for example := range n {
		for ; k < len(of) && of[k] == int64(example); k++ {
			at, ok := known[g.features[k]]
			if !ok {
				return status.InvalidArgumentf("Found sparse feature indices out of valid range: %d", g.features[k])
			}
			g.at[k] = at
		}
		g.splits[example+1] = int64(k)
	}
	return nil
}

// aligned formats numbers as TensorFlow does: padded to the width of the widest one, and only the first ones of many.
func aligned(v []int64) string {
	const most = 1000
	var words []string
	widest := 0
	for _, x := range v[:min(len(v), most)] {
		words = append(words, strconv.FormatInt(x, 10))
		widest = max(widest, len(words[len(words)-1]))
	}
	for i, w := range words {
		words[i] = fmt.Sprintf("%*s", widest, w)
	}
	return strings.Join(words, " ")
}

// placesOf maps each feature that has a weight to the weight's index.
func placesOf(m *kernels.Meter, features []int64, weights int) (map[int64]int64, error) {
	if len(features) > weights {
		return nil, status.InvalidArgumentf("sparse_indices name %d features, but there are %d sparse_weights", len(features), weights)
	}
	const entry = 40 // approximate bytes per entry of a map
	if err := m.TakeMany(len(features), entry); err != nil {
		return nil, err
	}
	places := make(map[int64]int64, len(features))
	for i, f := range features {
		places[f] = int64(i)
	}
	return places, nil
}

func (g *denseGroup) read(t *tensor.Tensor, n int) error {
	switch width := t.Dim(1); {
	case width == 0 || width > len(g.weights):
		return status.InvalidArgumentf("More dense features than we have parameters for: %d", width)
	case width < len(g.weights):
		return status.InvalidArgumentf("Fewer dense features than we have parameters for: %d of %d", width, len(g.weights))
	case t.Dim(0) != n:
		return status.InvalidArgumentf("Expected dense features of %d examples but got %d", n, t.Dim(0))
	}
	g.values = tensor.Of[float32](t)
	return nil
}

// measure computes the norms of all examples.
func (e *examples) measure(m *kernels.Meter) (err error) {
	if e.norms, err = kernels.Scratch[float64](m, len(e.weights)); err != nil {
		return err
	}
	var sorted []int64
	for i := range e.norms {
		for _, g := range e.sparse {
			lo, hi := g.splits[i], g.splits[i+1]
			if int(hi-lo) > cap(sorted) {
				if err := m.TakeMany(int(hi-lo), 2*8); err != nil {
					return err
				}
			}
			sorted = append(sorted[:0], g.features[lo:hi]...)
			slices.Sort(sorted)
			if len(slices.Compact(sorted)) < int(hi-lo) {
				return status.InvalidArgumentf("Duplicate index in sparse vector.")
			}
			for k := lo; k < hi; k++ {
				e.norms[i] += g.value(k) * g.value(k)
			}
		}
		for _, g := range e.dense {
			sum := float32(0)
			for _, v := range g.row(i) {
				sum += float32(v * v)
			}
			e.norms[i] += float64(sum)
		}
	}
	return nil
}

// predict returns the predictions for example i from the original weights, and from the weights as changed by the batch so far. The changes
// count once for each partition, on the assumption that the others make similar changes.
func (e *examples) predict(i int, r regularization, partitions int64) (before, now float64) {
	for _, g := range e.sparse {
		for k := g.splits[i]; k < g.splits[i+1]; k++ {
			at, value := g.at[k], g.value(k)
			weight := g.weights[at]
			before += value * r.shrink(float64(weight))
			now += value * r.shrink(float64(weight+float32(g.deltas[at]*float32(partitions))))
		}
	}
	for _, g := range e.dense {
		was, is := float32(0), float32(0)
		for j, v := range g.row(i) {
			weight := g.weights[j]
			was += float32(v * r.shrink32(weight))
			is += float32(v * r.shrink32(weight+float32(g.deltas[j]*float32(partitions))))
		}
		before += float64(was)
		now += float64(is)
	}
	return before, now
}

// move changes the weights of example i's features by their values times step.
func (e *examples) move(i int, step float64) {
	for _, g := range e.sparse {
		for k := g.splits[i]; k < g.splits[i+1]; k++ {
			d := &g.deltas[g.at[k]]
			*d = float32(float64(*d) + g.value(k)*step)
		}
	}
	for _, g := range e.dense {
		for j, v := range g.row(i) {
			g.deltas[j] += float32(v * float32(step))
		}
	}
}
