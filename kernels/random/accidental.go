package random

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
)

// newAccidentalHits returns the kernel that finds true classes among the drawn candidates. For each it returns the row, the candidate's
// index, and a weight that rules the candidate out.
func newAccidentalHits(c *kernels.Construction) (any, error) {
	trues, err := c.Attrs().Int("num_true")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		wanted, drawn := ctx.Input(0), ctx.Input(1)
		if err := args.FirstError(args.CheckType(ctx, 0, tensor.Int64), args.CheckType(ctx, 1, tensor.Int64)); err != nil {
			return err
		}
		if wanted.Rank() != 2 || int64(wanted.Dim(1)) != trues {
			return status.InvalidArgumentf("true_candidates must be a batch_size * num_true matrix")
		}
		if drawn.Rank() != 1 {
			return status.InvalidArgumentf("sampled_candidates must be a vector, which is typically an output from CandidateSampler")
		}
		m := ctx.Meter()
		defer m.Done()
		if err := m.TakeMany(drawn.Len(), bytesPerUsed); err != nil {
			return err
		}
		places := make(map[int64]int, drawn.Len())
		for i, class := range tensor.Of[int64](drawn) {
			places[class] = i
		}
		return findHits(ctx, tensor.Of[int64](wanted), int(trues), places)
	}), nil
}

func findHits(ctx *kernels.Context, wanted []int64, trues int, places map[int64]int) error {
	hits := 0
	for _, class := range wanted {
		if _, ok := places[class]; ok {
			hits++
		}
	}
	rows, err := ctx.Allocate(0, tensor.Int32, tensor.Shape{int64(hits)})
	if err != nil {
		return err
	}
	ids, err := ctx.Allocate(1, tensor.Int64, tensor.Shape{int64(hits)})
	if err != nil {
		return err
	}
	weights, err := ctx.Allocate(2, tensor.Float32, tensor.Shape{int64(hits)})
	if err != nil {
		return err
	}
	at := 0
	for i, class := range wanted {
		if place, ok := places[class]; ok {
			tensor.Of[int32](rows)[at] = int32(i / trues)
			tensor.Of[int64](ids)[at] = int64(place)
			tensor.Of[float32](weights)[at] = -math.MaxFloat32
			at++
		}
	}
	return nil
}
