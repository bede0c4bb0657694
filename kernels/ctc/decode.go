package ctc

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// decoding holds the checked inputs of a decoder.
type decoding[T element.Floating] struct {
	logits               []T
	lengths              []int32
	time, batch, classes int
}

// newDecoding checks the inputs and allocates the last output, which holds log probabilities.
func newDecoding[T element.Floating](ctx *kernels.Context, paths int) (*decoding[T], []T, error) {
	if err := args.FirstError(args.CheckType(ctx, 0, element.DTypeOf[T]()), args.CheckType(ctx, 1, tensor.Int32)); err != nil {
		return nil, nil, err
	}
	in, lengths := ctx.Input(0), ctx.Input(1)
	switch {
	case in.Rank() != 3:
		return nil, nil, status.InvalidArgumentf("inputs is not a 3-Tensor")
	case in.Len() == 0:
		return nil, nil, status.InvalidArgumentf("inputs must not be empty")
	case lengths.Rank() != 1:
		return nil, nil, status.InvalidArgumentf("sequence_length is not a vector")
	case in.Dim(1) != lengths.Len():
		return nil, nil, status.Errorf(status.FailedPrecondition, "len(sequence_length) != batch_size.  len(sequence_length):  %d batch_size: %d", lengths.Len(), in.Dim(1))
	case in.Dim(2) > maxClasses:
		return nil, nil, status.InvalidArgumentf("num_classes cannot exceed max int")
	}
	d := &decoding[T]{tensor.Of[T](in), tensor.Of[int32](lengths), in.Dim(0), in.Dim(1), in.Dim(2)}
	for b, n := range d.lengths {
		if int(n) > d.time {
			return nil, nil, status.Errorf(status.FailedPrecondition, "sequence_length(%d) <= %d", b, d.time)
		}
	}
	out, err := ctx.Allocate(3*paths, in.DType(), tensor.Shape{int64(d.batch), int64(paths)})
	if err != nil {
		return nil, nil, err
	}
	return d, tensor.Of[T](out), nil
}

// at returns the logits of sequence b at step t.
func (d *decoding[T]) at(b, t int) []T { return d.logits[(t*d.batch+b)*d.classes:][:d.classes] }

// store sets the outputs of decoded labels, which are sparse tensors of [batch, label]. labels[b][p] are the labels of path p of sequence
// b.
func store(ctx *kernels.Context, labels [][][]int32, paths int) error {
	for p := range paths {
		total, longest := 0, 0
		for _, of := range labels {
			total += len(of[p])
			longest = max(longest, len(of[p]))
		}
		indices, err := ctx.Allocate(p, tensor.Int64, tensor.Shape{int64(total), 2})
		if err != nil {
			return err
		}
		values, err := ctx.Allocate(paths+p, tensor.Int64, tensor.Shape{int64(total)})
		if err != nil {
			return err
		}
		if err := args.OutputInts(ctx, 2*paths+p, tensor.Int64, []int64{int64(len(labels)), int64(longest)}); err != nil {
			return err
		}
		at, to := tensor.Of[int64](indices), tensor.Of[int64](values)
		i := 0
		for b, of := range labels {
			for t, label := range of[p] {
				at[2*i], at[2*i+1], to[i] = int64(b), int64(t), int64(label)
				i++
			}
		}
	}
	return nil
}

// greedyKernel is CTCGreedyDecoder, which picks the most likely class at each step.
type greedyKernel[T element.Floating] struct {
	merge bool
	blank int64
}

func newGreedy[T element.Floating](c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	return &greedyKernel[T]{a.Bool("merge_repeated"), a.Int("blank_index")}, a.Err()
}

func (k *greedyKernel[T]) Compute(ctx *kernels.Context) error {
	d, scores, err := newDecoding[T](ctx, 1)
	if err != nil {
		return err
	}
	n, blank := int64(d.classes), k.blank
	if blank < 0 {
		blank += n
	}
	if blank < 0 || blank >= n {
		return status.InvalidArgumentf("blank_index expected to be between %d and %d but was %d", -n, n-1, k.blank)
	}
	m := ctx.Meter()
	defer m.Done()
	if err := m.TakeMany(d.batch, d.time*4+48); err != nil {
		return err
	}
	labels := make([][][]int32, d.batch)
	ctx.Parallel(d.batch, max(1, element.CheapGrain/(d.time*d.classes)), func(lo, hi int) {
		for b := lo; b < hi; b++ {
			labels[b] = make([][]int32, 1)
			labels[b][0], scores[b] = k.best(d, b, int32(blank))
		}
	})
	if err := ctx.Ended(); err != nil {
		return err // some sequences may lack labels
	}
	return store(ctx, labels, 1)
}

// best returns the labels of the most likely path through a sequence, and the negative sum of its logits.
func (k *greedyKernel[T]) best(d *decoding[T], b int, blank int32) (labels []int32, score T) {
	last := int32(-1)
	for t := range int(max(0, d.lengths[b])) {
		row := d.at(b, t)
		best := int32(0)
		for i, v := range row {
			if v > row[best] {
				best = int32(i)
			}
		}
		score += -row[best]
		if best != blank && !(k.merge && best == last) {
			labels = append(labels, best)
		}
		last = best
	}
	return labels, score
}
