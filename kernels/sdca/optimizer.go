package sdca

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/powers"
)

// optimizer is SdcaOptimizer, which makes one pass over a batch in random order.
type optimizer struct {
	loss                  loss
	adaptive              bool // important examples are drawn more often
	sparse, valued, dense int  // numbers of feature groups; the first valued sparse groups have values
	partitions            int64
	regularization        regularization
}

// newOptimizer returns the constructor of an op. adaptive is the name of the attribute that says whether the op is adaptive.
func newOptimizer(adaptive string) func(c *kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		a := c.Attrs().Reader()
		name, isAdaptive := a.Str("loss_type"), a.Bool(adaptive)
		sparse, valued := a.Int("num_sparse_features"), a.Int("num_sparse_features_with_values")
		dense, partitions := a.Int("num_dense_features"), a.Int("num_loss_partitions")
		r := newRegularization(&a)
		if err := a.Err(); err != nil {
			return nil, err
		}
		l, ok := losses[name]
		switch {
		case !ok:
			return nil, status.InvalidArgumentf("Unsupported loss type: %s", name)
		case sparse+dense <= 0:
			return nil, status.InvalidArgumentf("Requires at least one feature to train.")
		}
		return &optimizer{l, isAdaptive, int(sparse), int(valued), int(dense), partitions, r}, nil
	}
}

// inputs returns the inputs. It rejects wrong types, which feeds may have.
func (k *optimizer) inputs(ctx *kernels.Context) (in inputs, err error) {
	next := 0
	take := func(n int, t tensor.DType) []*tensor.Tensor {
		for i := range n {
			err = args.FirstError(err, args.CheckType(ctx, next+i, t))
		}
		next += n
		return args.Inputs(ctx, next-n, next)
	}
	in.exampleIndices = take(k.sparse, tensor.Int64)
	in.featureIndices = take(k.sparse, tensor.Int64)
	in.featureValues = take(k.valued, tensor.Float32)
	in.dense = take(k.dense, tensor.Float32)
	in.weights, in.labels = take(1, tensor.Float32)[0], take(1, tensor.Float32)[0]
	in.indices = take(k.sparse, tensor.Int64)
	in.sparseWeights = take(k.sparse, tensor.Float32)
	in.denseWeights = take(k.dense, tensor.Float32)
	in.state = take(1, tensor.Float32)[0]
	return in, err
}

// The columns of an example's state.
const (
	stateDual = iota
	statePrimalLoss
	stateDualLoss
	stateWeight
	stateWidth
)

// Compute implements kernels.Kernel.
func (k *optimizer) Compute(ctx *kernels.Context) error {
	in, err := k.inputs(ctx)
	if err != nil {
		return err
	}
	m := ctx.Meter()
	defer m.Done()
	e, err := newExamples(ctx, &m, in)
	if err != nil {
		return err
	}
	if in.state.Rank() != 2 {
		return status.InvalidArgumentf("example_state_data must be rank 2 but is rank %d", in.state.Rank())
	}
	if want := (tensor.Shape{int64(len(e.weights)), stateWidth}); !in.state.Shape().Equal(want) {
		return status.InvalidArgumentf("Expected shape %v for example_state_data, got %v", want, in.state.Shape())
	}
	out, err := ctx.Forward(len(ctx.Inputs)-1, 0, tensor.Float32, in.state.Shape())
	if err != nil {
		return err
	}
	state := tensor.Of[float32](out)
	copy(state, tensor.Of[float32](in.state))
	order, err := kernels.Scratch[int](&m, len(e.weights))
	if err != nil {
		return err
	}
	if k.adaptive {
		err = k.sample(&m, order, e, state)
	} else {
		shuffle(order)
	}
	if err != nil {
		return err
	}
	for _, i := range order {
		if err := k.step(e, i, state[i*stateWidth:][:stateWidth]); err != nil {
			return err
		}
	}
	return nil
}

func shuffle(order []int) {
	for i := range order {
		order[i] = i
	}
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
}

// step updates the dual variable of an example.
func (k *optimizer) step(e *examples, i int, state []float32) error {
	converted, err := k.loss.label(e.labels[i])
	if err != nil {
		return err
	}
	label, weight, dual := float64(converted), float64(e.weights[i]), float64(state[stateDual])
	before, now := e.predict(i, k.regularization, k.partitions)
	l2 := float64(k.regularization.l2)
	next := k.loss.ascend(situation{label, dual, now, float64(k.partitions) * (e.norms[i] / l2) * weight})
	e.move(i, (next-dual)*weight/l2)
	state[stateDual] = float32(next)
	state[statePrimalLoss] = float32(k.loss.primal(before, label, weight))
	state[stateDualLoss] = float32(k.loss.dual(dual, label, weight))
	state[stateWeight] = e.weights[i]
	return nil
}

// sample fills order with examples. It draws them in proportion to their importance, which grows with the distance of the dual variable
// from its optimum. An example that has already been drawn n times is accepted with a probability of only 1/10^n. After as many rejections
// as there are examples, the rest of order is filled with those never drawn, in descending order of importance.
func (k *optimizer) sample(m *kernels.Meter, order []int, e *examples, state []float32) error {
	n := len(order)
	upTo, err := kernels.Scratch[float64](m, n) // running sums of the importance of the examples
	if err != nil {
		return err
	}
	drawn, err := kernels.Scratch[int](m, n)
	if err != nil {
		return err
	}
	total := 0.
	for i := range upTo {
		total += k.importance(e, i, float64(state[i*stateWidth+stateDual]))
		upTo[i] = total
	}
	if !(total > 0) || math.IsInf(total, 0) {
		shuffle(order)
		return nil
	}
	taken := 0
	for failed := 0; taken < n && failed < n; {
		i, _ := slices.BinarySearchFunc(upTo, rand.Float64()*total, func(sum, x float64) int {
			if sum > x {
				return 1
			}
			return -1
		})
		i = min(i, n-1)
		if rand.Float64() > powers.Of(0.1, float64(drawn[i])) {
			failed++
			continue
		}
		drawn[i]++
		order[taken] = i
		taken++
	}
	rest, err := kernels.Scratch[int](m, n)
	if err != nil {
		return err
	}
	rest = rest[:0]
	for i, times := range drawn {
		if times == 0 {
			rest = append(rest, i)
		}
	}
	of := func(i int) float64 {
		if i == 0 {
			return upTo[0]
		}
		return upTo[i] - upTo[i-1]
	}
	slices.SortFunc(rest, func(i, j int) int { return cmp.Compare(of(j), of(i)) })
	copy(order[taken:], rest)
	return nil
}

// importance returns an example's importance. An invalid label does not fail here, but when the example is used.
func (k *optimizer) importance(e *examples, i int, dual float64) float64 {
	label, err := k.loss.label(e.labels[i])
	if err != nil {
		label = e.labels[i]
	}
	_, wx := e.predict(i, k.regularization, k.partitions)
	residue := dual + k.loss.slope(wx, float64(label), 1)
	return float64(e.weights[i]) * math.Sqrt(e.norms[i]+float64(k.regularization.l2)*k.loss.smoothness) * math.Abs(residue)
}
