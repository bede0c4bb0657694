package image

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
)

// newSuppressWithOverlaps returns the kernel of NonMaxSuppressionWithOverlaps, whose inputs include the overlap of each pair of boxes.
func newSuppressWithOverlaps(*kernels.Construction) (any, error) {
	return kernels.Func(func(ctx *kernels.Context) error {
		for i, want := range []tensor.DType{tensor.Float32, tensor.Float32, tensor.Int32, tensor.Float32, tensor.Float32} {
			if err := args.CheckType(ctx, i, want); err != nil {
				return err
			}
		}
		for i, name := range []string{"max_output_size", "overlap_threshold", "score_threshold"} {
			if s := ctx.Input(2 + i).Shape(); len(s) != 0 {
				return status.InvalidArgumentf("%s must be 0-D, got shape %v", name, s)
			}
		}
		overlaps := ctx.Input(0)
		if overlaps.Rank() != 2 {
			return status.InvalidArgumentf("overlaps must be 2-D%v", overlaps.Shape())
		}
		n := overlaps.Dim(0)
		if overlaps.Dim(1) != n {
			return status.InvalidArgumentf("overlaps must be square%v", overlaps.Shape())
		}
		if err := checkScores(ctx.Input(1), n); err != nil {
			return err
		}
		most, err := mostBoxes(ctx)
		if err != nil {
			return err
		}
		all := tensor.Of[float32](overlaps)
		s := suppression{
			scores: tensor.Of[float32](ctx.Input(1)),
			limit:  tensor.Of[float32](ctx.Input(3))[0],
			least:  tensor.Of[float32](ctx.Input(4))[0],
			round:  exactly,
			overlap: func(box, selected int32) float32 {
				return all[int(box)*n+int(selected)]
			},
		}
		meter := ctx.Meter()
		defer meter.Done()
		boxes, _, err := s.selectBoxes(ctx, &meter, most)
		if err != nil {
			return err
		}
		return outputPadded(ctx, 0, boxes, len(boxes))
	}), nil
}
