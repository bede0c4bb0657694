package clustering

import (
	"math"
	"sort"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/gemm"
	"github.com/troupe-run/troupe/kernels/internal/philox"
)

// int64Scalar reads input i. Errors refer to it by name.
func int64Scalar(ctx *kernels.Context, i int, name string) (int64, error) {
	if err := args.CheckType(ctx, i, tensor.Int64); err != nil {
		return 0, err
	}
	if ctx.Input(i).Rank() != 0 {
		return 0, status.InvalidArgumentf("Input %s should be a scalar.", name)
	}
	return tensor.Of[int64](ctx.Input(i))[0], nil
}

// simplePhilox returns the random numbers of TensorFlow's SimplePhilox for a seed.
func simplePhilox(seed int64) philox.Numbers32 {
	gen := philox.New(uint64(seed), 0)
	return philox.OneAtATime(&gen)
}

// kmc2Chain returns the final point of a Markov chain over all points. The farther a candidate is from the centres, the more likely the
// chain moves to it (k-MC², "Approximate K-Means++ in Sublinear Time").
func kmc2Chain(ctx *kernels.Context) error {
	t := ctx.Input(0)
	if err := args.CheckType(ctx, 0, tensor.Float32); err != nil {
		return err
	}
	if t.Rank() != 1 {
		return status.InvalidArgumentf("Input distances should be a vector.")
	}
	seed, err := int64Scalar(ctx, 1, "seed")
	if err != nil {
		return err
	}
	if t.Len() == 0 {
		return status.InvalidArgumentf("Expected distances_tensor.size() > 0.")
	}
	rng := simplePhilox(seed)
	distances := tensor.Of[float32](t)
	at := 0
	for i := 1; i < len(distances); i++ {
		if distances[i] > philox.UnitFloat(rng.Next())*distances[at] {
			at = i
		}
	}
	ctx.SetOutput(0, tensor.Scalar(tensor.Int64, int64(at)))
	return nil
}

// plusPlus is a run of k-means++, which chooses points one by one. The farther a point is from those already chosen, the more likely it is
// chosen.
type plusPlus struct {
	points []float32
	n, dim int
	norms  []float32 // half of each point's squared length
	nearest,
	sums []float32 // half the squared distance of each point to the nearest chosen one, and the running sums
	chosen map[int]bool
	rng    philox.Numbers32
}

func kmeansPlusPlus(ctx *kernels.Context) error {
	points := ctx.Input(0)
	if err := args.CheckType(ctx, 0, tensor.Float32); err != nil {
		return err
	}
	if points.Rank() != 2 {
		return status.InvalidArgumentf("Input points should be a matrix.")
	}
	samples, err1 := int64Scalar(ctx, 1, "num_to_sample")
	seed, err2 := int64Scalar(ctx, 2, "seed")
	retries, err3 := int64Scalar(ctx, 3, "num_retries_per_sample")
	if err := args.FirstError(err1, err2, err3); err != nil {
		return err
	}
	n, dim := points.Dim(0), points.Dim(1)
	switch {
	case n == 0:
		return status.InvalidArgumentf("Expected points.rows() > 0.")
	case samples <= 0:
		return status.InvalidArgumentf("Expected num_to_sample > 0.")
	case samples > int64(n):
		return status.InvalidArgumentf("Expected num_to_sample <= points.rows(). %d vs %d.", samples, n)
	case retries > math.MaxInt32-1:
		return status.InvalidArgumentf("Expected num_retries_per_sample < %d, got %d", math.MaxInt32, retries)
	case retries < 0:
		retries = 2 + int64(math.Log(float64(samples)))
	}
	out, err := ctx.Allocate(0, tensor.Float32, tensor.Shape{samples, int64(dim)})
	if err != nil {
		return err
	}
	k := &plusPlus{points: tensor.Of[float32](points), n: n, dim: dim, norms: halfNorms(tensor.Of[float32](points), n, dim),
		nearest: make([]float32, n), sums: make([]float32, n), chosen: map[int]bool{}, rng: simplePhilox(seed)}
	for i := range k.nearest {
		k.nearest[i] = float32(math.Inf(1))
	}
	for i := range int(samples) {
		if i > 0 {
			k.sum()
		}
		if err := ctx.Ended(); err != nil {
			return kernels.Cancelled(err)
		}
		p, err := k.sample(ctx, int(retries))
		if err != nil {
			return err
		}
		k.chosen[p] = true
		copy(tensor.Of[float32](out)[i*dim:(i+1)*dim], k.point(p))
	}
	return nil
}

func halfNorms(points []float32, n, dim int) []float32 {
	norms := make([]float32, n)
	for i := range norms {
		p := points[i*dim : (i+1)*dim]
		norms[i] = gemm.Dot(p, p) / 2
	}
	return norms
}

func (k *plusPlus) point(i int) []float32 { return k.points[i*k.dim : (i+1)*k.dim] }

func (k *plusPlus) sum() {
	total := float32(0)
	for i, d := range k.nearest {
		total += d
		k.sums[i] = total
	}
}

// maxDraws bounds the draws for one point. Rounding may leave chosen points as the only ones with a distance, so that no other point can be
// drawn.
const maxDraws = 1 << 16

// draw returns a point that has not been chosen yet.
func (k *plusPlus) draw() int {
	if len(k.chosen) == 0 {
		return int(k.rng.Below(uint64(k.n)))
	}
	for range maxDraws {
		at := philox.UnitFloat(k.rng.Next()) * k.sums[k.n-1]
		i := sort.Search(k.n, func(i int) bool { return at < k.sums[i] })
		if !k.chosen[i] {
			return min(i, k.n-1)
		}
	}
	i := 0
	for k.chosen[i] {
		i++
	}
	return min(i, k.n-1)
}

// with sets dst to what nearest would be if point p were chosen, and returns the sum.
func (k *plusPlus) with(dst []float32, p int) (sum float32) {
	x, norm := k.point(p), k.norms[p]
	for i, d := range k.nearest {
		dst[i] = min(d, k.norms[i]-gemm.Dot(k.point(i), x)+norm)
		sum += dst[i]
	}
	return sum
}

// sample draws 1 + retries points and chooses the one that minimizes the sum of distances.
func (k *plusPlus) sample(ctx *kernels.Context, retries int) (best int, err error) {
	least := float32(math.Inf(1))
	found, next := make([]float32, k.n), make([]float32, k.n)
	for i := range 1 + retries {
		if i%64 == 63 {
			if err := ctx.Ended(); err != nil {
				return 0, kernels.Cancelled(err)
			}
		}
		p := k.draw()
		if sum := k.with(next, p); i == 0 || sum < least {
			best, least = p, sum
			found, next = next, found
		}
	}
	k.nearest = found
	return best, nil
}
