package kernels

import (
	"os"
	"path/filepath"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/checkpoint"
)

// onDisk makes a kernel of a function that waits for files: it runs on a goroutine of its own,
// which ends with the function.
func onDisk(run func(ctx *Context) error) AsyncFunc {
	return func(ctx *Context, done func(error)) {
		go func() { done(run(ctx)) }()
	}
}

// checkpointInputs reads the inputs that saving and restoring share: the prefix of the files, the
// tensors' names, and which slice of a whole each is ("" for all of it).
func checkpointInputs(ctx *Context) (prefix string, names, slices []string, err error) {
	p, n, s := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	switch {
	case p.DType() != tensor.String || p.Len() != 1:
		err = status.InvalidArgumentf("Input prefix should have a single element, got %d instead.", p.Len())
	case n.DType() != tensor.String || n.Rank() != 1:
		err = status.InvalidArgumentf("Input tensor_names should be an 1-D tensor, got %v instead.", n.Shape())
	case s.DType() != tensor.String || s.Rank() != 1:
		err = status.InvalidArgumentf("Input shape_and_slices should be an 1-D tensor, got %v instead.", s.Shape())
	case n.Len() != s.Len():
		err = status.InvalidArgumentf("tensor_names and shape_and_slices have different number of elements: %d vs. %d", n.Len(), s.Len())
	}
	if err != nil {
		return "", nil, nil, err
	}
	return p.Strings()[0], n.Strings(), s.Strings(), nil
}

func saveV2(ctx *Context) error {
	prefix, names, slices, err := checkpointInputs(ctx)
	if err != nil {
		return err
	}
	if len(names) != len(ctx.Inputs)-3 {
		return status.InvalidArgumentf("Got %d tensor names but %d tensors.", len(names), len(ctx.Inputs)-3)
	}
	w, err := checkpoint.Create(prefix)
	if err != nil {
		return err
	}
	defer w.Abort()
	for i, name := range names {
		if err := saveOne(w, name, slices[i], ctx.Input(3+i)); err != nil {
			return err
		}
	}
	return w.Finish()
}

func saveOne(w *checkpoint.Writer, name, spec string, t *tensor.Tensor) error {
	if spec == "" {
		return w.Add(name, t)
	}
	whole, slice, err := checkpoint.ParseSlice(spec)
	if err != nil {
		return err
	}
	if shape, err := slice.Shape(whole); err != nil {
		return err
	} else if !shape.Equal(t.Shape()) {
		return status.InvalidArgumentf("Slice in shape_and_slice specification does not match the shape of the tensor to  save: %s, tensor: %v", spec, t.Shape())
	}
	return w.AddSlice(name, whole, slice, t)
}

func newRestoreV2(c *Construction) (any, error) {
	dtypes, err := c.Attrs().TypeList("dtypes")
	if err != nil {
		return nil, err
	}
	return onDisk(func(ctx *Context) error {
		prefix, names, slices, err := checkpointInputs(ctx)
		if err != nil {
			return err
		}
		if len(names) != len(dtypes) || len(names) != len(ctx.Outputs) {
			return status.InvalidArgumentf("Got %d tensor names, but %d expected dtypes.", len(names), len(dtypes))
		}
		r, err := checkpoint.Open(prefix)
		if err != nil {
			return err
		}
		defer r.Close()
		for i, name := range names {
			t, err := restoreOne(ctx, r, name, slices[i], dtypes[i])
			if err != nil {
				return err
			}
			ctx.SetOutput(i, t)
		}
		return nil
	}), nil
}

func restoreOne(ctx *Context, r *checkpoint.Reader, name, spec string, dtype tensor.DType) (*tensor.Tensor, error) {
	have, whole, err := r.Lookup(name)
	if err != nil {
		return nil, err
	}
	if have != dtype {
		return nil, status.InvalidArgumentf("tensor_name = %s; expected dtype %v does not equal original dtype %v", name, dtype, have)
	}
	if spec == "" {
		return r.Read(ctx.Device.Pool(), name)
	}
	shape, slice, err := checkpoint.ParseSlice(spec)
	if err != nil {
		return nil, err
	}
	if !shape.Equal(whole) {
		return nil, status.InvalidArgumentf("tensor_name = %s; shape in shape_and_slice spec %v does not match the shape stored in checkpoint: %v", name, shape, whole)
	}
	return r.ReadSlice(ctx.Device.Pool(), name, slice)
}

func newMergeCheckpoints(c *Construction) (any, error) {
	remove, err := c.Attrs().Bool("delete_old_dirs")
	if err != nil {
		return nil, err
	}
	// Graphs of older clients do not have the attribute.
	missing, _ := c.Attrs().Bool("allow_missing_files")
	return onDisk(func(ctx *Context) error {
		from, to := ctx.Input(0), ctx.Input(1)
		if from.Rank() != 1 {
			return status.InvalidArgumentf("Input checkpoint_prefixes should be an 1-D tensor, got %v instead.", from.Shape())
		}
		if err := needScalar(to, tensor.String, "Input destination_prefix should be a scalar tensor, got %v instead."); err != nil {
			return err
		}
		prefix := to.Strings()[0]
		if err := checkpoint.Merge(from.Strings(), prefix, missing); err != nil || !remove {
			return err
		}
		for _, p := range from.Strings() {
			if dir := filepath.Dir(p); dir != filepath.Dir(prefix) {
				// Only an empty folder goes; the first of several prefixes has it removed.
				_ = os.Remove(dir)
			}
		}
		return nil
	}), nil
}
