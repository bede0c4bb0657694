package save

import (
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/checkpoint"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/disk"
)

// saveV1 returns the kernel of Save (fixed == 2) or SaveSlices (fixed == 3). fixed is the number of inputs before the tensors.
func saveV1(fixed int) kernels.AsyncFunc {
	return disk.Async(func(ctx *kernels.Context) error {
		if err := stringInputs(ctx, fixed); err != nil {
			return err
		}
		file, names := ctx.Input(0), ctx.Input(1)
		if file.Len() != 1 {
			return status.InvalidArgumentf("Input 0 (filename) must be a string scalar; got a tensor of %delements", file.Len())
		}
		var specs []string
		if fixed == 3 {
			if specs = ctx.Input(2).Strings(); len(specs) != names.Len() {
				return status.InvalidArgumentf("Expected %d elements for the tensor shapes and slices but got %d", names.Len(), len(specs))
			}
		}
		if want := names.Len() + fixed; len(ctx.Inputs) != want {
			return status.InvalidArgumentf("Expected totally %d inputs as input #1 (which is a string tensor of saved names) contains %d names, but received %d inputs",
				want, names.Len(), len(ctx.Inputs))
		}
		list := make([]checkpoint.Named, names.Len())
		for i, name := range names.Strings() {
			t := ctx.Input(fixed + i)
			list[i] = checkpoint.Named{Name: name, Whole: t.Shape(), Slice: checkpoint.Whole(t.Rank()), Tensor: t}
			if specs != nil && specs[i] != "" {
				var err error
				if list[i].Whole, list[i].Slice, err = sliceToSave(specs[i], t); err != nil {
					return err
				}
			}
		}
		slices.SortStableFunc(list, func(a, b checkpoint.Named) int { return strings.Compare(a.Name, b.Name) })
		path, err := pathOf(ctx, file.Strings()[0])
		if err != nil {
			return err
		}
		return checkpoint.WriteV1(disk.Files(ctx), path, list)
	})
}

// newRestoreV1 returns the kernel of Restore and RestoreSlice.
func newRestoreV1(c *kernels.Construction) (any, error) {
	dtype, err := c.Attrs().Type("dt")
	if err != nil {
		return nil, err
	}
	preferred, err := c.Attrs().Int("preferred_shard")
	if err != nil {
		preferred = -1
	}
	if preferred < -1 {
		return nil, status.InvalidArgumentf("Attribute 'preferred_shard' must be greater or equal to -1")
	}
	slice := c.Node.Op == "RestoreSlice"
	return disk.Async(func(ctx *kernels.Context) error {
		n := 2
		if slice {
			n = 3
		}
		if err := stringInputs(ctx, n); err != nil {
			return err
		}
		pattern, name := ctx.Input(0), ctx.Input(1)
		if pattern.Len() != 1 {
			return status.InvalidArgumentf("Input 0 (file_pattern) must be a string scalar; got a tensor of %d elements", pattern.Len())
		}
		if name.Len() < 1 {
			return status.InvalidArgumentf("Input 1 (file_pattern) must be a have at least 1 elements")
		}
		spec := ""
		if slice {
			if ctx.Input(2).Len() < 1 {
				return status.InvalidArgumentf("Input 2 (shape_and_slice) must have an element")
			}
			spec = ctx.Input(2).Strings()[0]
		}
		path, err := pathOf(ctx, pattern.Strings()[0])
		if err != nil {
			return err
		}
		r, err := checkpoint.OpenV1(disk.Files(ctx), path, int(preferred))
		if err != nil {
			return err
		}
		defer r.Close()
		t, err := restoreOneV1(ctx, r, path, name.Strings()[0], spec, dtype)
		if err == nil {
			ctx.SetOutput(0, t)
		}
		return err
	}), nil
}

// restoreFromV1 implements RestoreV2 for files in the format of Restore.
func restoreFromV1(ctx *kernels.Context, fsys files.FS, pattern string, names, specs []string, dtypes []tensor.DType) error {
	r, err := checkpoint.OpenV1(fsys, pattern, -1)
	if err != nil {
		return err
	}
	defer r.Close()
	for i, name := range names {
		t, err := restoreOneV1(ctx, r, pattern, name, specs[i], dtypes[i])
		if err != nil {
			return err
		}
		ctx.SetOutput(i, t)
	}
	return nil
}

func restoreOneV1(ctx *kernels.Context, r *checkpoint.ReaderV1, pattern, name, spec string, dtype tensor.DType) (*tensor.Tensor, error) {
	have, whole, ok, err := r.Lookup(name)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, status.Errorf(status.NotFound, "Tensor name \"%s\" not found in checkpoint files %s", name, pattern)
	case have != dtype:
		return nil, status.InvalidArgumentf("Expected to restore a tensor of type %v, got a tensor of type %v instead: tensor_name = %s", dtype, have, name)
	}
	slice := checkpoint.Whole(len(whole))
	if spec != "" {
		var shape tensor.Shape
		if shape, slice, err = checkpoint.ParseSlice(spec); err != nil {
			return nil, err
		}
		if !shape.Equal(whole) {
			return nil, status.InvalidArgumentf("Shape in shape_and_slice spec does not match the shape in the save file: %v, save file shape: %v", shape, whole)
		}
	}
	return r.ReadSlice(ctx.Device.Pool(), name, slice)
}

// shardedFilespec returns the pattern that matches the names of a sharded checkpoint's files.
func shardedFilespec(ctx *kernels.Context) error {
	if err := args.NeedScalar(ctx.Input(0), tensor.String, "basename must be a scalar, got shape %v"); err != nil {
		return err
	}
	shards, err := args.ScalarInput32(ctx, 1, "num_shards must be a scalar, got shape %v")
	if err != nil {
		return err
	}
	return args.OutputString(ctx, fmt.Sprintf("%s-?????-of-%05d", ctx.Input(0).Strings()[0], shards))
}
