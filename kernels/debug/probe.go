package debug

import (
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/disk"
)

// probe is embedded in all ops that report on a watched tensor.
type probe struct {
	what  Watched
	roots []string // folders to write files to
}

func newProbe(c *kernels.Construction) (*probe, error) {
	p := &probe{what: Watched{Op: c.Node.Op}}
	var err error
	if p.what.Device, err = c.Attrs().Str("device_name"); err != nil {
		return nil, err
	}
	name, err := c.Attrs().Str("tensor_name")
	if err != nil {
		return nil, err
	}
	if name == "" || strings.Count(name, ":") > 1 {
		return nil, status.InvalidArgumentf("Failed to parse tensor name: %q", name)
	}
	node, slot, found := strings.Cut(name, ":")
	if p.what.Node = node; found {
		if p.what.Slot, err = strconv.Atoi(slot); err != nil {
			return nil, status.InvalidArgumentf("Invalid string value for output_slot: %q", slot)
		}
	}
	gated, err := c.Attrs().Bool("gated_grpc")
	if err != nil {
		return nil, err
	}
	if gated {
		return nil, status.Unimplementedf("gated_grpc is not supported: debug_urls must be file:// URLs")
	}
	urls, err := c.Attrs().StrList("debug_urls")
	if err != nil {
		return nil, err
	}
	for _, url := range urls {
		root, err := Root(url)
		if err != nil {
			return nil, err
		}
		p.roots = append(p.roots, root)
	}
	return p, nil
}

// kernel returns the kernel of a probe. look computes the output for a tensor, which is nil for a variable without a value, and reports
// whether to write it. For such a variable, a file without content is written.
func (p *probe) kernel(look func(ctx *kernels.Context, t *tensor.Tensor) (out *tensor.Tensor, write bool, err error)) any {
	run := func(ctx *kernels.Context) error {
		t, variable := watched(ctx), ctx.Inputs[0].Ref
		if t != nil {
			defer t.Release()
		}
		out, write, err := look(ctx, t)
		if err != nil || !write {
			return err
		}
		return p.write(disk.Files(ctx), out, variable)
	}
	if len(p.roots) == 0 {
		return kernels.Func(run)
	}
	return disk.Async(run)
}

// write writes a tensor, or a file without content for a variable that has no value.
func (p *probe) write(fsys files.FS, t *tensor.Tensor, variable *containers.Variable) error {
	for _, root := range p.roots {
		var err error
		if t != nil {
			err = WriteTensor(fsys, root, p.what, t)
		} else {
			err = WriteUninitialized(fsys, root, p.what, variable.DType(), variable.Shape)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// newIdentity returns the kernel of DebugIdentity, which writes the tensor itself.
func newIdentity(c *kernels.Construction) (any, error) {
	p, err := newProbe(c)
	if err != nil {
		return nil, err
	}
	return p.kernel(func(ctx *kernels.Context, t *tensor.Tensor) (*tensor.Tensor, bool, error) {
		if t == nil {
			ctx.Pass(0, 0)
			return nil, true, nil
		}
		ctx.SetOutput(0, t.Retain())
		return t, true, nil
	}), nil
}
