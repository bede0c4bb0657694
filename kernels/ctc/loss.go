package ctc

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// lossKernel is CTCLoss: the negative log probability of each sequence of labels, and its gradient.
type lossKernel[T element.Floating] struct {
	// collapse merges repeated labels before anything else. merge merges repeated outputs. ignore sets the loss of sequences that are too
	// short for their labels to 0.
	collapse, merge, ignore bool
}

func newLoss[T element.Floating](c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	return &lossKernel[T]{a.Bool("preprocess_collapse_repeated"), a.Bool("ctc_merge_repeated"), a.Bool("ignore_longer_outputs_than_inputs")}, a.Err()
}

func (k *lossKernel[T]) Compute(ctx *kernels.Context) error {
	if err := checkLossInputs[T](ctx); err != nil {
		return err
	}
	in := ctx.Input(0)
	m := ctx.Meter()
	defer m.Done()
	paths, err := k.paths(ctx, &m)
	if err != nil {
		return err
	}
	loss, err := ctx.Allocate(0, in.DType(), ctx.Input(3).Shape())
	if err != nil {
		return err
	}
	gradient, err := ctx.Allocate(1, in.DType(), in.Shape())
	if err != nil {
		return err
	}
	out, grad := tensor.Of[T](loss), tensor.Of[T](gradient)
	if err := kernels.Clear(ctx, out); err != nil {
		return err
	}
	if err := kernels.Clear(ctx, grad); err != nil {
		return err
	}
	batch, classes := in.Dim(1), in.Dim(2)
	work, err := workOf(paths, classes)
	if err != nil {
		return err
	}
	err = element.WithScratch(ctx, batch, max(1, element.CostlyGrain/max(1, work)), work, func(work []T, lo, hi int) {
		for b := lo; b < hi && ctx.Ended() == nil; b++ {
			if p := paths[b]; p.steps > 0 {
				l := newLattice(p, classes, k.merge, work)
				out[b] = l.loss(tensor.Of[T](in)[b*classes:], grad[b*classes:], batch*classes)
			}
		}
	})
	return args.FirstError(err, ctx.Ended())
}

// checkLossInputs checks types and shapes.
func checkLossInputs[T element.Floating](ctx *kernels.Context) error {
	for i, dtype := range []tensor.DType{element.DTypeOf[T](), tensor.Int64, tensor.Int32, tensor.Int32} {
		if err := args.CheckType(ctx, i, dtype); err != nil {
			return err
		}
	}
	in, indices, values, lengths := ctx.Input(0), ctx.Input(1), ctx.Input(2), ctx.Input(3)
	switch {
	case in.Rank() != 3:
		return status.InvalidArgumentf("inputs is not a 3-Tensor")
	case lengths.Rank() != 1:
		return status.InvalidArgumentf("sequence_length is not a vector")
	case indices.Rank() != 2:
		return status.InvalidArgumentf("labels_indices is not a matrix")
	case indices.Dim(1) <= 1:
		return status.InvalidArgumentf("labels_indices second dimension must be >= 1. Received %d", indices.Dim(1))
	case values.Rank() != 1:
		return status.InvalidArgumentf("labels_values is not a vector")
	case in.Dim(0) == 0:
		return status.InvalidArgumentf("Max time or first dimension of input cannot be 0.")
	case in.Dim(2) > maxClasses:
		return status.InvalidArgumentf("num_classes cannot exceed max int")
	case in.Dim(1) != lengths.Len():
		return status.InvalidArgumentf("len(sequence_length) != batch_size.  len(sequence_length):  %d batch_size: %d", lengths.Len(), in.Dim(1))
	case indices.Dim(0) != values.Len():
		return status.InvalidArgumentf("labels_indices and labels_values must contain the same number of rows, but saw shapes: %v vs. %v", indices.Shape(), values.Shape())
	case in.Dim(1) == 0:
		return status.InvalidArgumentf("batch_size must not be 0")
	case indices.Dim(1) != 2:
		return status.InvalidArgumentf("Order length must be SparseTensor rank.")
	case in.Dim(2) == 0:
		return status.InvalidArgumentf("num_classes must not be 0")
	}
	return nil
}

// path is the sequence that the outputs of a sequence must spell: its labels, with a blank before, between and after them. A path of no
// steps has a loss of 0.
type path struct {
	labels []int32
	steps  int
}

// paths returns the paths of all sequences.
func (k *lossKernel[T]) paths(ctx *kernels.Context, m *kernels.Meter) ([]path, error) {
	in, values := ctx.Input(0), tensor.Of[int32](ctx.Input(2))
	batch, classes := in.Dim(1), in.Dim(2)
	ends, err := labelEnds(ctx, m, batch)
	if err != nil {
		return nil, err
	}
	lengths := tensor.Of[int32](ctx.Input(3))
	for b, n := range lengths {
		if int(n) > in.Dim(0) {
			return nil, status.InvalidArgumentf("sequence_length(%d) <= %d", b, in.Dim(0))
		}
	}
	for b, n := range lengths {
		if n < 0 {
			return nil, status.InvalidArgumentf("seq_len(%d) < 0", b)
		}
	}
	paths, err := kernels.Scratch[path](m, batch)
	if err != nil {
		return nil, err
	}
	all, err := kernels.Scratch[int32](m, 2*len(values)+batch)
	if err != nil {
		return nil, err
	}
	all = all[:0]
	begin := 0
	for b, end := range ends {
		from := len(all)
		all, err = k.appendPath(all, values[begin:end], b, classes)
		if err != nil {
			return nil, err
		}
		steps := int(lengths[b])
		if end-begin > steps {
			if !k.ignore {
				return nil, status.InvalidArgumentf("Not enough time for target transition sequence (required: %d, available: %d)%dYou can turn this error into a warning by using the flag ignore_longer_outputs_than_inputs", end-begin, steps, b)
			}
			steps = 0
		}
		paths[b] = path{all[from:], steps}
		begin = end
	}
	return paths, nil
}

// labelEnds returns the index at which the labels of each sequence end. The labels must be in order.
func labelEnds(ctx *kernels.Context, m *kernels.Meter, batch int) ([]int, error) {
	ends, err := kernels.Scratch[int](m, batch)
	if err != nil {
		return nil, err
	}
	indices := tensor.Of[int64](ctx.Input(1))
	longest := int64(0)
	for i := 1; i < len(indices); i += 2 {
		longest = max(longest, indices[i]+1)
	}
	for i := range len(indices) / 2 {
		at := indices[2*i : 2*i+2]
		reason := ""
		if at[0] < 0 || at[0] >= int64(batch) || at[1] < 0 || at[1] >= longest {
			reason = "is out of bounds: need 0 <= index < [" + shapes.JoinInts([]int64{int64(batch), longest}) + "]"
		} else if i > 0 {
			before := indices[2*i-2 : 2*i]
			if at[0] == before[0] && at[1] == before[1] {
				reason = "is repeated"
			} else if at[0] < before[0] || at[0] == before[0] && at[1] < before[1] {
				reason = "is out of order. Many sparse ops require sorted indices.\n    Use `tf.sparse.reorder` to create a correctly ordered copy.\n\n"
			}
		}
		if reason != "" {
			return nil, status.InvalidArgumentf("label SparseTensor is not valid: indices[%d] = [%s] %s", i, shapes.JoinInts(at), reason)
		}
		ends[at[0]] = i + 1
	}
	for b := 1; b < batch; b++ {
		ends[b] = max(ends[b], ends[b-1])
	}
	return ends, nil
}

// appendPath appends the path of a sequence's labels. Null labels, which are those not below the blank, may only come last.
func (k *lossKernel[T]) appendPath(all, labels []int32, b, classes int) ([]int32, error) {
	if len(labels) == 0 {
		return nil, status.InvalidArgumentf("Labels length is zero in batch %d", b)
	}
	blank, from, ended := int32(classes-1), len(all), false
	for i, l := range labels {
		if i > 0 && k.collapse && l == labels[i-1] {
			continue
		}
		if l >= blank {
			ended = true
			continue
		}
		if ended {
			return nil, status.InvalidArgumentf("Saw a non-null label (index >= num_classes - 1) following a null label, batch: %d num_classes: %d labels: %s labels seen so far: %s",
				b, classes, list(labels), list(withoutBlanks(all[from:])))
		}
		all = append(all, blank, l)
	}
	for _, l := range withoutBlanks(all[from:]) {
		if l < 0 {
			return nil, status.InvalidArgumentf("All labels must be nonnegative integers, batch: %d labels: %s", b, list(withoutBlanks(all[from:])))
		}
	}
	return append(all, blank), nil
}

// withoutBlanks returns the labels of a path.
func withoutBlanks(path []int32) []int32 {
	var labels []int32
	for i := 1; i < len(path); i += 2 {
		labels = append(labels, path[i])
	}
	return labels
}

// list formats labels, separated by commas.
func list(labels []int32) string {
	wide := make([]int64, len(labels))
	element.Convert(wide, labels)
	return shapes.JoinInts(wide)
}
