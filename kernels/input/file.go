package input

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/disk"
)

// readFile outputs the content of a file.
func readFile(ctx *kernels.Context) error {
	if err := args.NeedScalar(ctx.Input(0), tensor.String, "Input filename tensor must be scalar, but had shape: %v"); err != nil {
		return err
	}
	content, err := files.Read(disk.Files(ctx), ctx.Input(0).Strings()[0])
	if err != nil {
		return err
	}
	return args.OutputString(ctx, content)
}

// writeFile creates or replaces a file.
func writeFile(ctx *kernels.Context) error {
	if err := args.NeedScalar(ctx.Input(0), tensor.String, "Input filename tensor must be scalar, but had shape: %v"); err != nil {
		return err
	}
	if err := args.NeedScalar(ctx.Input(1), tensor.String, "Contents tensor must be scalar, but had shape: %v"); err != nil {
		return err
	}
	return files.Write(disk.Files(ctx), ctx.Input(0).Strings()[0], ctx.Input(1).Strings()[0])
}

// matchingFiles outputs the files that match patterns, sorted.
func matchingFiles(ctx *kernels.Context) error {
	patterns := ctx.Input(0)
	if patterns.Rank() > 1 {
		return status.InvalidArgumentf("Input patterns tensor must be scalar or vector, but had shape: %v", patterns.Shape())
	}
	fsys := disk.Files(ctx)
	var all []string
	for _, p := range patterns.Strings() {
		found, err := files.Match(fsys, p)
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	slices.Sort(all)
	out, err := ctx.Allocate(0, tensor.String, tensor.Shape{int64(len(all))})
	if err == nil {
		copy(out.Strings(), all)
	}
	return err
}

// newImmutableConst returns the kernel whose tensor is the first bytes of a file, in this machine's byte order.
func newImmutableConst(c *kernels.Construction) (any, error) {
	name, err1 := c.Attrs().Str("memory_region_name")
	dtype, err2 := c.Attrs().Type("dtype")
	shape, known, err3 := c.Attrs().Shape("shape")
	if err := args.FirstError(err1, err2, err3); err != nil {
		return nil, err
	}
	switch {
	case dtype == tensor.Resource || dtype == tensor.Variant:
		return nil, status.InvalidArgumentf("Resource and variant dtypes are invalid for this op.")
	case !known:
		return nil, status.InvalidArgumentf("The shape of an ImmutableConst must be known")
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		content, err := files.Read(disk.Files(ctx), name)
		if err != nil {
			return err
		}
		if dtype == tensor.String {
			return status.Errorf(status.Unimplemented, "Sorry, DT_STRING is not currently supported for ImmutableConstOp.")
		}
		out, err := ctx.Allocate(0, dtype, shape)
		if err != nil {
			return err
		}
		if data := out.Data(); copy(data, content) < len(data) {
			return status.Internalf("Readonly memory region has wrong length (%d) when allocating %d", len(content), len(data))
		}
		return nil
	}), nil
}
