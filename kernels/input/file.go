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

// readFile gives the content of a file.
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

// writeFile makes a file with a content.
func writeFile(ctx *kernels.Context) error {
	if err := args.NeedScalar(ctx.Input(0), tensor.String, "Input filename tensor must be scalar, but had shape: %v"); err != nil {
		return err
	}
	if err := args.NeedScalar(ctx.Input(1), tensor.String, "Contents tensor must be scalar, but had shape: %v"); err != nil {
		return err
	}
	return files.Write(disk.Files(ctx), ctx.Input(0).Strings()[0], ctx.Input(1).Strings()[0])
}

// matchingFiles gives the files that match patterns, sorted.
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
