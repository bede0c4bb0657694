package image

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// precision is the type in which an op computes scores.
type precision struct {
	dtype  tensor.DType
	lowest float32
	load   func(ctx *kernels.Context, m *kernels.Meter, i int) ([]float32, error)
	round  func(float32) float32
	// output sets output 1 to size scores: the given ones, then zeros.
	output func(ctx *kernels.Context, scores []float32, size int) error
}

var (
	inFloats = precision{tensor.Float32, -math.MaxFloat32, loadFloats, exactly, outputFloats}
	inHalves = precision{tensor.Float16, -65504, loadHalves, throughHalf, outputHalves}
)

// exactly returns v unchanged.
func exactly(v float32) float32 { return v }

// throughHalf rounds to the nearest half.
func throughHalf(v float32) float32 { return element.ToFloat16(v).Float() }

func loadFloats(ctx *kernels.Context, _ *kernels.Meter, i int) ([]float32, error) {
	return tensor.Of[float32](ctx.Input(i)), nil
}

func loadHalves(ctx *kernels.Context, m *kernels.Meter, i int) ([]float32, error) {
	src := element.ViewOf[element.Float16](ctx.Input(i))
	wide, err := kernels.Scratch[float32](m, len(src))
	if err == nil {
		element.Widen(wide, src)
	}
	return wide, err
}

// suppressionOp defines the inputs and outputs of a version of NonMaxSuppression.
type suppressionOp struct {
	limited bool // input 3 is iou_threshold; otherwise it is an attribute
	scored  bool // input 4 is score_threshold; otherwise any box may be selected
	soft    bool // input 5 is soft_nms_sigma; output 1 is the scores
	counted bool // the last output is the number of boxes, and an attribute requests padding
	ranks   bool // errors include ranks
}

// suppress returns the constructor of a version of NonMaxSuppression. It selects boxes in descending order of score, except those that
// overlap a selected box by more than a threshold.
func suppress(op suppressionOp, p precision) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		var limit float32
		var pad bool
		var err1, err2 error
		if !op.limited {
			limit, err1 = c.Attrs().Float("iou_threshold")
		}
		if op.counted {
			pad, err2 = c.Attrs().Bool("pad_to_max_output_size")
		}
		return kernels.Func(func(ctx *kernels.Context) error {
			s := suppression{limit: limit, least: p.lowest, round: p.round}
			if err := op.read(ctx, &s, p); err != nil {
				return err
			}
			meter := ctx.Meter()
			defer meter.Done()
			if err := readBoxes(ctx, &meter, &s, p); err != nil {
				return err
			}
			most, err := mostBoxes(ctx)
			if err != nil {
				return err
			}
			boxes, scores, err := s.selectBoxes(ctx, &meter, most)
			if err != nil {
				return err
			}
			return op.write(ctx, p, boxes, scores, pad, most)
		}), args.FirstError(err1, err2)
	}
}

// read checks the numeric inputs, and reads those of a suppression.
func (op suppressionOp) read(ctx *kernels.Context, s *suppression, p precision) error {
	if err := args.FirstError(args.CheckType(ctx, 0, p.dtype), args.CheckType(ctx, 1, p.dtype), args.CheckType(ctx, 2, tensor.Int32)); err != nil {
		return err
	}
	if err := op.number(ctx, 2, "max_output_size", op.ranks); err != nil {
		return err
	}
	var err error
	if op.limited {
		if s.limit, err = op.threshold(ctx, 3, "iou_threshold", p, op.ranks); err != nil {
			return err
		}
	}
	if !(s.limit >= 0 && s.limit <= 1) {
		return status.InvalidArgumentf("iou_threshold must be in [0, 1]")
	}
	if op.scored {
		if s.least, err = op.threshold(ctx, 4, "score_threshold", p, false); err != nil {
			return err
		}
	}
	if op.soft {
		if s.sigma, err = op.threshold(ctx, 5, "soft_nms_sigma", p, false); err != nil {
			return err
		}
		if !(s.sigma >= 0) {
			return status.InvalidArgumentf("soft_nms_sigma_val must be >= 0")
		}
		s.soft = s.sigma > 0
	}
	return nil
}

func (op suppressionOp) number(ctx *kernels.Context, i int, name string, ranks bool) error {
	s := ctx.Input(i).Shape()
	switch {
	case len(s) == 0:
		return nil
	case ranks:
		return status.InvalidArgumentf("%s must be 0-D, got shape %v (Shape must be rank 0 but is rank %d)", name, s, len(s))
	}
	return status.InvalidArgumentf("%s must be 0-D, got shape %v", name, s)
}

// threshold reads input i, a float or half, in the precision of the scores.
func (op suppressionOp) threshold(ctx *kernels.Context, i int, name string, p precision, ranks bool) (float32, error) {
	if err := op.number(ctx, i, name, ranks); err != nil {
		return 0, err
	}
	for _, of := range []precision{inFloats, inHalves} {
		if ctx.Input(i).DType() == of.dtype {
			meter := ctx.Meter()
			defer meter.Done()
			v, err := of.load(ctx, &meter, i)
			if err != nil {
				return 0, err
			}
			return p.round(v[0]), nil
		}
	}
	return 0, args.CheckType(ctx, i, p.dtype)
}

// readBoxes reads boxes and their scores.
func readBoxes(ctx *kernels.Context, m *kernels.Meter, s *suppression, p precision) error {
	boxes := ctx.Input(0)
	if boxes.Rank() != 2 {
		return status.InvalidArgumentf("boxes must be 2-D%v (Shape must be rank 2 but is rank %d)", boxes.Shape(), boxes.Rank())
	}
	if n := boxes.Dim(1); n != 4 {
		return status.InvalidArgumentf("boxes must have 4 columns (Dimension must be 4 but is %d)", n)
	}
	if err := checkScores(ctx.Input(1), boxes.Dim(0)); err != nil {
		return err
	}
	places, err1 := p.load(ctx, m, 0)
	scores, err2 := p.load(ctx, m, 1)
	s.scores = scores
	s.overlap = func(box, selected int32) float32 {
		return overlap(boxAt(places, int(box)), boxAt(places, int(selected)))
	}
	return args.FirstError(err1, err2)
}

// checkScores rejects scores that do not match n boxes.
func checkScores(scores *tensor.Tensor, n int) error {
	switch {
	case scores.Rank() != 1:
		return status.InvalidArgumentf("scores must be 1-D%v (Shape must be rank 1 but is rank %d)", scores.Shape(), scores.Rank())
	case scores.Dim(0) != n:
		return status.InvalidArgumentf("scores has incompatible shape (Dimensions must be equal, but are %d and %d)", n, scores.Dim(0))
	case n > math.MaxInt32:
		return status.InvalidArgumentf("there are %d boxes, more than an int32 can count", n)
	}
	return nil
}

// mostBoxes reads input 2, the maximum number of boxes to select.
func mostBoxes(ctx *kernels.Context) (int, error) {
	most := tensor.Of[int32](ctx.Input(2))[0]
	if most < 0 {
		return 0, status.InvalidArgumentf("output size must be non-negative")
	}
	return int(most), nil
}

func (op suppressionOp) write(ctx *kernels.Context, p precision, boxes []int32, scores []float32, pad bool, most int) error {
	size := len(boxes)
	if pad {
		size = most
	}
	if err := outputPadded(ctx, 0, boxes, size); err != nil {
		return err
	}
	last := 1
	if op.soft {
		last = 2
		if err := p.output(ctx, scores, size); err != nil {
			return err
		}
	}
	if op.counted {
		ctx.SetOutput(last, tensor.Scalar(tensor.Int32, int32(len(boxes))))
	}
	return nil
}

func outputFloats(ctx *kernels.Context, scores []float32, size int) error {
	return outputPadded(ctx, 1, scores, size)
}

func outputHalves(ctx *kernels.Context, scores []float32, size int) error {
	out, err := ctx.Allocate(1, tensor.Float16, tensor.Shape{int64(size)})
	if err == nil {
		dst := element.ViewOf[element.Float16](out)
		element.Narrow(dst[:len(scores)], scores)
		err = kernels.Clear(ctx, dst[len(scores):])
	}
	return err
}

// outputPadded sets output o to a vector of the given size: a list, padded with zeros.
func outputPadded[T int32 | float32](ctx *kernels.Context, o int, list []T, size int) error {
	out, err := ctx.Allocate(o, element.DTypeOf[T](), tensor.Shape{int64(size)})
	if err == nil {
		dst := element.ViewOf[T](out)
		err = kernels.Clear(ctx, dst[copy(dst, list):])
	}
	return err
}

// box is a rectangle, given by two opposite corners.
type box struct{ y1, x1, y2, x2 float32 }

func boxAt(list []float32, i int) box {
	v := list[4*i:][:4]
	return box{v[0], v[1], v[2], v[3]}
}

// overlap returns the intersection of two boxes as a fraction of their union; zero if one has no area.
func overlap(a, b box) float32 {
	aTop, aBottom := ordered(a.y1, a.y2)
	aLeft, aRight := ordered(a.x1, a.x2)
	bTop, bBottom := ordered(b.y1, b.y2)
	bLeft, bRight := ordered(b.x1, b.x2)
	areaA, areaB := float32((aBottom-aTop)*(aRight-aLeft)), float32((bBottom-bTop)*(bRight-bLeft))
	if areaA <= 0 || areaB <= 0 {
		return 0
	}
	_, top := ordered(aTop, bTop)
	_, left := ordered(aLeft, bLeft)
	bottom, _ := ordered(aBottom, bBottom)
	right, _ := ordered(aRight, bRight)
	_, height := ordered(bottom-top, 0)
	_, width := ordered(right-left, 0)
	both := float32(height * width)
	return both / (areaA + areaB - both)
}

// ordered returns the lower and the higher number; a for both if either is NaN.
func ordered(a, b float32) (low, high float32) {
	low, high = a, a
	if b < a {
		low = b
	}
	if a < b {
		high = b
	}
	return low, high
}
