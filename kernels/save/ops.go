package save

import (
	"path/filepath"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/checkpoint"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/disk"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// stringInputs returns an error unless the first n inputs are strings.
func stringInputs(ctx *kernels.Context, n int) error {
	if len(ctx.Inputs) < n {
		return status.InvalidArgumentf("%s needs %d inputs or more", ctx.Node.Op, n)
	}
	for i := range n {
		if t := ctx.Input(i); t.DType() != tensor.String {
			return status.InvalidArgumentf("Input %d of %s must be of type string, got %v", i, ctx.Node.Op, t.DType())
		}
	}
	return nil
}

// checkpointInputs reads the inputs that SaveV2 and RestoreV2 share: the prefix of the files, the tensors' names, and the slice of a whole
// that each tensor is ("" for all of it).
func checkpointInputs(ctx *kernels.Context) (prefix string, names, slices []string, err error) {
	if err := stringInputs(ctx, 3); err != nil {
		return "", nil, nil, err
	}
	p, n, s := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	switch {
	case p.Len() != 1:
		err = status.InvalidArgumentf("Input prefix should have a single element, got %d instead.", p.Len())
	case n.Rank() != 1 || s.Rank() != 1:
		err = status.InvalidArgumentf("Input tensor_names and shape_and_slices should be an 1-D tensors, got %v and %v instead.", n.Shape(), s.Shape())
	case n.Len() != s.Len():
		err = status.InvalidArgumentf("tensor_names and shape_and_slices have different number of elements: %d vs. %d", n.Len(), s.Len())
	}
	if err != nil {
		return "", nil, nil, err
	}
	prefix, err = pathOf(ctx, p.Strings()[0])
	return prefix, n.Strings(), s.Strings(), err
}

// pathOf returns the path that name refers to. It returns an error if the session may not use the path.
func pathOf(ctx *kernels.Context, name string) (string, error) {
	path, err := files.Local(name)
	if err == nil {
		err = files.Admit(ctx.Files(), path)
	}
	return path, err
}

func saveV2(ctx *kernels.Context) error {
	prefix, names, slices, err := checkpointInputs(ctx)
	if err != nil {
		return err
	}
	if len(names) != len(ctx.Inputs)-3 {
		return status.InvalidArgumentf("Got %d tensor names but %d tensors.", len(names), len(ctx.Inputs)-3)
	}
	w, err := checkpoint.Create(disk.Files(ctx), prefix, variant.Codec{Pool: ctx.Device.Pool()})
	if err != nil {
		return err
	}
	defer w.Abort()
	for i, name := range names {
		t := ctx.Input(3 + i)
		if slices[i] == "" {
			err = w.Add(name, t)
		} else {
			var whole tensor.Shape
			var slice checkpoint.Slice
			if whole, slice, err = sliceToSave(slices[i], t); err == nil {
				err = w.AddSlice(name, whole, slice, t)
			}
		}
		if err != nil {
			return err
		}
	}
	return w.Finish()
}

// sliceToSave parses the slice of a whole that a tensor is.
func sliceToSave(spec string, t *tensor.Tensor) (whole tensor.Shape, slice checkpoint.Slice, err error) {
	if whole, slice, err = checkpoint.ParseSlice(spec); err != nil {
		return nil, nil, err
	}
	shape, err := slice.Shape(whole)
	if err == nil && !shape.Equal(t.Shape()) {
		err = status.InvalidArgumentf("Slice in shape_and_slice specification does not match the shape of the tensor to  save: %s, tensor: %v", spec, t.Shape())
	}
	return whole, slice, err
}

func newRestoreV2(c *kernels.Construction) (any, error) {
	dtypes, err := c.Attrs().TypeList("dtypes")
	if err != nil {
		return nil, err
	}
	return disk.Async(func(ctx *kernels.Context) error { return restoreV2(ctx, dtypes) }), nil
}

func restoreV2(ctx *kernels.Context, dtypes []tensor.DType) error {
	if n := ctx.Input(1).Len(); n != len(dtypes) || n != len(ctx.Outputs) {
		return status.InvalidArgumentf("Got %d tensor names, but %d expected dtypes.", n, len(dtypes))
	}
	prefix, names, slices, err := checkpointInputs(ctx)
	if err != nil {
		return err
	}
	fsys := disk.Files(ctx)
	checkpoint.Sweep(fsys, prefix)
	if !checkpoint.Exists(fsys, prefix) {
		return restoreFromV1(ctx, fsys, prefix, names, slices, dtypes)
	}
	r, err := checkpoint.Open(fsys, prefix, variant.Codec{Pool: ctx.Device.Pool()})
	if err != nil {
		return err
	}
	defer r.Close()
	order, err := r.InFileOrder(names)
	if err != nil {
		return err
	}
	var wrong []string
	for _, i := range order {
		have, _, err := r.Lookup(names[i])
		if err != nil {
			return err
		}
		if have != dtypes[i] {
			wrong = append(wrong, "tensor_name = "+names[i]+"; expected dtype "+dtypes[i].String()+" does not equal original dtype "+have.String())
		}
	}
	if len(wrong) > 0 {
		return status.InvalidArgumentf("%s", strings.Join(wrong, "\n"))
	}
	for _, i := range order {
		t, err := restoreOne(ctx, r, names[i], slices[i])
		if err != nil {
			return err
		}
		ctx.SetOutput(i, t)
	}
	return nil
}

func restoreOne(ctx *kernels.Context, r *checkpoint.Reader, name, spec string) (*tensor.Tensor, error) {
	if spec == "" {
		return r.Read(ctx.Device.Pool(), name)
	}
	_, whole, err := r.Lookup(name)
	if err != nil {
		return nil, err
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

func newMergeCheckpoints(c *kernels.Construction) (any, error) {
	remove, err := c.Attrs().Bool("delete_old_dirs")
	if err != nil {
		return nil, err
	}
	// Graphs of older clients lack the attribute.
	missing, _ := c.Attrs().Bool("allow_missing_files")
	return disk.Async(func(ctx *kernels.Context) error {
		if err := stringInputs(ctx, 2); err != nil {
			return err
		}
		from, to := ctx.Input(0), ctx.Input(1)
		if from.Rank() != 1 {
			return status.InvalidArgumentf("Input checkpoint_prefixes should be an 1-D tensor, got %v instead.", from.Shape())
		}
		if err := args.NeedScalar(to, tensor.String, "Input destination_prefix should be a scalar tensor, got %v instead."); err != nil {
			return err
		}
		prefix, err := pathOf(ctx, to.Strings()[0])
		if err != nil {
			return err
		}
		parts := make([]string, from.Len())
		for i, p := range from.Strings() {
			if parts[i], err = pathOf(ctx, p); err != nil {
				return err
			}
		}
		fsys := disk.Files(ctx)
		if err := checkpoint.Merge(fsys, parts, prefix, missing); err != nil || !remove {
			return err
		}
		for _, p := range parts {
			if dir := filepath.Dir(p); dir != filepath.Dir(prefix) {
				// This fails unless the folder is empty or if an earlier prefix already removed it.
				_ = fsys.Remove(dir)
			}
		}
		return nil
	}), nil
}
