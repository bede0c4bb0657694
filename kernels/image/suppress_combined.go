package image

import (
	"math"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// combined is one run of CombinedNonMaxSuppression. It selects boxes of each class in each image, and then the best of all classes.
type combined struct {
	batch, boxes, classes int
	sets                  int // a box has a position for each class, or one for all classes
	perClass              int // maximum number of boxes to select
	total                 int // boxes per image in the outputs
	limit, least          float32
	clip                  bool
	places, scores        []float32
}

// detection is a selected box. An unused entry has the box −1.
type detection struct {
	box, class int32
	score      float32
}

// newCombined returns the kernel of CombinedNonMaxSuppression.
func newCombined(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	pad, clip := a.Bool("pad_per_class"), a.Bool("clip_boxes")
	return kernels.Func(func(ctx *kernels.Context) error {
		run, err := readCombined(ctx, pad)
		if err != nil {
			return err
		}
		run.clip = clip
		return run.compute(ctx)
	}), a.Err()
}

// readCombined checks and reads the inputs.
func readCombined(ctx *kernels.Context, pad bool) (combined, error) {
	var c combined
	for i, want := range []tensor.DType{tensor.Float32, tensor.Float32, tensor.Int32, tensor.Int32, tensor.Float32, tensor.Float32} {
		if err := args.CheckType(ctx, i, want); err != nil {
			return c, err
		}
	}
	boxes, scores := ctx.Input(0), ctx.Input(1)
	if boxes.Rank() > 0 && scores.Rank() > 0 && boxes.Dim(0) != scores.Dim(0) {
		return c, status.InvalidArgumentf("boxes and scores must have same batch size")
	}
	perClass, err1 := positive(ctx, 2, "max_size_per_class must be 0-D, got shape %v", "max_size_per_class must be positive")
	total, err2 := positive(ctx, 3, "max_total_size must be 0-D, got shape %v", "max_total_size must be > 0")
	if err := args.FirstError(err1, err2); err != nil {
		return c, err
	}
	for i, name := range []string{"iou_threshold", "score_threshold"} {
		if s := ctx.Input(4 + i).Shape(); len(s) != 0 {
			return c, status.InvalidArgumentf("%s must be 0-D, got shape %v", name, s)
		}
	}
	c.limit, c.least = tensor.Of[float32](ctx.Input(4))[0], tensor.Of[float32](ctx.Input(5))[0]
	if !(c.limit >= 0 && c.limit <= 1) {
		return c, status.InvalidArgumentf("iou_threshold must be in [0, 1]")
	}
	if err := checkCombined(boxes, scores); err != nil {
		return c, err
	}
	c.batch, c.boxes, c.sets, c.classes = boxes.Dim(0), boxes.Dim(1), boxes.Dim(2), scores.Dim(2)
	c.places, c.scores = tensor.Of[float32](boxes), tensor.Of[float32](scores)
	c.perClass, c.total = min(perClass, c.boxes), total
	if pad {
		c.total = min(total, int(min(math.MaxInt32, int64(perClass)*int64(c.classes))))
	}
	return c, nil
}

// positive returns the number at input i.
func positive(ctx *kernels.Context, i int, rank, refused string) (int, error) {
	n, err := args.ScalarInput32(ctx, i, rank)
	if err == nil && n <= 0 {
		err = status.New(status.InvalidArgument, refused)
	}
	return n, err
}

func checkCombined(boxes, scores *tensor.Tensor) error {
	switch {
	case boxes.Rank() != 4:
		return status.InvalidArgumentf("boxes must be 4-D%v", boxes.Shape())
	case scores.Rank() != 3:
		return status.InvalidArgumentf("scores must be 3-D%v", scores.Shape())
	case boxes.Dim(2) != 1 && boxes.Dim(2) != scores.Dim(2):
		return status.InvalidArgumentf("third dimension of boxes must be either 1 or num classes")
	case boxes.Dim(3) != 4:
		return status.InvalidArgumentf("boxes must have 4 columns")
	case scores.Dim(1) != boxes.Dim(1):
		return status.InvalidArgumentf("scores has incompatible shape")
	case boxes.Dim(1) > math.MaxInt32 || scores.Dim(2) > math.MaxInt32:
		return status.InvalidArgumentf("there are %d boxes of %d classes, more than an int32 can count", boxes.Dim(1), scores.Dim(2))
	}
	return nil
}

func (c *combined) compute(ctx *kernels.Context) error {
	n, total := int64(c.batch), int64(c.total)
	boxes, err1 := ctx.Allocate(0, tensor.Float32, tensor.Shape{n, total, 4})
	scores, err2 := ctx.Allocate(1, tensor.Float32, tensor.Shape{n, total})
	classes, err3 := ctx.Allocate(2, tensor.Float32, tensor.Shape{n, total})
	valid, err4 := ctx.Allocate(3, tensor.Int32, tensor.Shape{n})
	if err := args.FirstError(err1, err2, err3, err4); err != nil {
		return err
	}
	for _, t := range []*tensor.Tensor{boxes, scores, classes} {
		if err := kernels.Clear(ctx, element.ViewOf[float32](t)); err != nil {
			return err
		}
	}
	if c.perClass == 0 {
		return kernels.Clear(ctx, element.ViewOf[int32](valid))
	}
	meter := ctx.Meter()
	defer meter.Done()
	found, err1 := kernels.Scratch[detection](&meter, c.batch*c.classes*c.perClass)
	queue, err2 := kernels.Scratch[ranked](&meter, c.batch*c.classes*c.boxes)
	if err := args.FirstError(err1, err2); err != nil {
		return err
	}
	ctx.Parallel(c.batch*c.classes, max(1, element.CostlyGrain/max(1, c.boxes)), func(lo, hi int) {
		for i := lo; i < hi && ctx.Ended() == nil; i++ {
			c.selectClass(ctx, found[i*c.perClass:][:c.perClass], queue[i*c.boxes:][:0:c.boxes], i/c.classes, i%c.classes)
		}
	})
	each := c.classes * c.perClass
	ctx.Parallel(c.batch, max(1, element.CostlyGrain/max(1, each)), func(lo, hi int) {
		for i := lo; i < hi && ctx.Ended() == nil; i++ {
			c.selectBest(outputsOf(i, c.total, boxes, scores, classes, valid), found[i*each:][:each], i)
		}
	})
	return ctx.Ended()
}

// selectClass selects the boxes of one class in an image. Each box is compared with the selected ones in reverse order, since boxes with
// similar scores are likely to overlap.
func (c *combined) selectClass(ctx *kernels.Context, found []detection, queue rankedHeap, image, class int) {
	for i := range c.boxes {
		if v := c.scores[(image*c.boxes+i)*c.classes+class]; v > c.least {
			queue.push(ranked{v, int32(i)})
		}
	}
	n := 0
	for len(queue) > 0 && n < len(found) && ctx.Ended() == nil {
		next := queue.pop()
		place := c.place(image, next.box, class)
		if !slices.ContainsFunc(found[:n], func(d detection) bool { return overlap(place, c.place(image, d.box, class)) > c.limit }) {
			found[n] = detection{next.box, int32(class), next.score}
			n++
		}
	}
	for i := n; i < len(found); i++ {
		found[i] = detection{-1, -1, -1}
	}
}

// place returns the position of a box of an image, for a class.
func (c *combined) place(image int, of int32, class int) box {
	if c.sets == 1 {
		class = 0
	}
	return boxAt(c.places, (image*c.boxes+int(of))*c.sets+class)
}

// results are the outputs for one image.
type results struct {
	boxes, scores, classes []float32
	valid                  *int32
}

func outputsOf(image, total int, boxes, scores, classes, valid *tensor.Tensor) results {
	return results{
		element.ViewOf[float32](boxes)[image*total*4:][:total*4],
		element.ViewOf[float32](scores)[image*total:][:total],
		element.ViewOf[float32](classes)[image*total:][:total],
		&element.ViewOf[int32](valid)[image],
	}
}

// selectBest outputs the best boxes found in an image. As in TensorFlow, unused entries of the list compete with a score of −1.
func (c *combined) selectBest(out results, found []detection, image int) {
	n := 0
	for _, d := range found {
		n += element.OneIf(d.box >= 0)
	}
	n = min(n, c.total)
	introsort(found, func(a, b detection) bool { return a.score > b.score })
	*out.valid = int32(n)
	for i, d := range found[:n] {
		out.scores[i], out.classes[i] = d.score, float32(d.class)
		var place box
		if d.box >= 0 {
			place = c.place(image, d.box, int(d.class))
		}
		for j, v := range [4]float32{place.y1, place.x1, place.y2, place.x2} {
			if c.clip {
				v, _ = ordered(v, 1)
				_, v = ordered(v, 0)
			}
			out.boxes[4*i+j] = v
		}
	}
}

// ranked is a box waiting to be selected.
type ranked struct {
	score float32
	box   int32
}

// rankedHeap has the highest score on top. Boxes with the same score are popped in the same order as from a std::priority_queue of GNU's
// C++ library, which affects TensorFlow's results.
type rankedHeap []ranked

func (h *rankedHeap) push(r ranked) {
	*h = append(*h, r)
	h.rise(len(*h)-1, r)
}

// rise moves a box up from a position to where it belongs.
func (h rankedHeap) rise(at int, r ranked) {
	for at > 0 && h[(at-1)/2].score < r.score {
		h[at] = h[(at-1)/2]
		at = (at - 1) / 2
	}
	h[at] = r
}

// pop moves the gap at the top down to the bottom, and moves the last box up from there.
func (h *rankedHeap) pop() ranked {
	list := *h
	top, last := list[0], list[len(list)-1]
	list = list[:len(list)-1]
	*h = list
	if len(list) == 0 {
		return top
	}
	at := 0
	for 2*at+1 < len(list) {
		child := 2*at + 2
		if child == len(list) || list[child].score < list[child-1].score {
			child--
		}
		list[at] = list[child]
		at = child
	}
	list.rise(at, last)
	return top
}
