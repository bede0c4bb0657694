package lookup

import (
	"sync"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/containers/table"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

func newHashTable(c *kernels.Construction) (any, error) {
	return tableSource(c, table.Options{Kind: table.Static})
}

func newMutableHashTable(c *kernels.Construction) (any, error) {
	return tableSource(c, table.Options{Kind: table.Mutable})
}

func newMutableHashTableOfTensors(c *kernels.Construction) (any, error) {
	shape, err := valueShape(c)
	if err != nil {
		return nil, err
	}
	if len(shape) != 1 {
		// Such a node is legal until it runs.
		return kernels.Func(func(*kernels.Context) error {
			return status.InvalidArgumentf("Default value must be a vector, got shape %v", shape)
		}), nil
	}
	return tableSource(c, table.Options{Kind: table.Mutable, ValueShape: shape})
}

// valueShape returns the attribute value_shape, which must be fully known.
func valueShape(c *kernels.Construction) (tensor.Shape, error) {
	shape, known, err := c.Attrs().Shape("value_shape")
	if err != nil {
		return nil, err
	}
	if p := (shapes.PartialShape{Dims: shape, Known: known}); !p.Full() {
		return nil, status.InvalidArgumentf("The value_shape of a table must be fully defined, but it is %v", p)
	}
	return shape, nil
}

// tableSource returns the kernel for a table's handle. Anonymous ops create a new table at each run.
func tableSource(c *kernels.Construction, o table.Options) (any, error) {
	if err := tableTypes(c, &o); err != nil {
		return nil, err
	}
	if _, named := c.Attrs()["shared_name"]; !named {
		return kernels.Func(func(ctx *kernels.Context) error { return anonymousTable(ctx, o) }), nil
	}
	return namedTable(c, func(name string) (table.Table, error) { return table.New(o) }, o)
}

func tableTypes(c *kernels.Construction, o *table.Options) (err error) {
	if o.Key, err = c.Attrs().Type("key_dtype"); err != nil {
		return err
	}
	if o.Value, err = c.Attrs().Type("value_dtype"); err != nil {
		return err
	}
	o.Pool = c.Device.Pool()
	return nil
}

// namedTable returns the kernel for the handle of a table in a container. A table without shared_name is named after its node if
// use_node_name_sharing is set.
func namedTable(c *kernels.Construction, create func(name string) (table.Table, error), o table.Options) (any, error) {
	byNode, err := c.Attrs().Bool("use_node_name_sharing")
	if err != nil {
		return nil, err
	}
	unnamed := kernels.NamedBySession
	if byNode {
		unnamed = kernels.NamedByNode
	}
	_, name, err := kernels.Named(c)
	if err != nil {
		return nil, err
	}
	return kernels.NewSource(c, table.ResourceKind, unnamed, create, func(t table.Table) error {
		if key, value := t.Key().DType, t.Value().DType; key != o.Key || value != o.Value {
			return status.InvalidArgumentf("Conflicting key/value dtypes %v->%v with %v-%v for table %s", o.Key, o.Value, key, value, name)
		}
		return nil
	})
}

func anonymousTable(ctx *kernels.Context, o table.Options) error {
	t, err := table.New(o)
	if err != nil {
		return err
	}
	collected := table.Collected(t)
	ctx.SetOutput(0, tensor.FromHandle(tensor.Handle{
		Device: ctx.Device.Name(), Container: kernels.AnonymousContainer, Name: containers.NameAnonymous(ctx.Device.Resources(), "LookupTable", collected),
		Type: table.ResourceKind, Local: collected,
	}))
	return nil
}

// denseSource outputs the handle of a dense table, whose special keys are inputs of the op. Only the execution that creates the table uses
// them.
type denseSource struct {
	options table.Options

	mu    sync.Mutex       // one execution at a time
	named kernels.Kernel   // nil for anonymous tables
	keys  *kernels.Context // of the current execution
}

func newMutableDenseHashTable(c *kernels.Construction) (any, error) {
	d := &denseSource{options: table.Options{Kind: table.Dense}}
	if err := tableTypes(c, &d.options); err != nil {
		return nil, err
	}
	var err error
	if d.options.ValueShape, err = valueShape(c); err != nil {
		return nil, err
	}
	if d.options.MaxLoad, err = c.Attrs().Float("max_load_factor"); err != nil {
		return nil, err
	}
	if d.options.Buckets, err = c.Attrs().Int("initial_num_buckets"); err != nil {
		return nil, err
	}
	if _, named := c.Attrs()["shared_name"]; !named {
		return d, nil
	}
	named, err := namedTable(c, func(string) (table.Table, error) {
		o, err := d.with(d.keys)
		if err != nil {
			return nil, err
		}
		return table.New(o)
	}, d.options)
	if err != nil {
		return nil, err
	}
	d.named = named.(kernels.Kernel)
	return d, nil
}

// with returns the options with the special keys from the op's inputs.
func (d *denseSource) with(ctx *kernels.Context) (table.Options, error) {
	o := d.options
	if len(ctx.Inputs) < 2 {
		// The first version of the op has only the empty key, but TensorFlow's kernel also looks for the deleted key.
		return o, status.InvalidArgumentf("Unknown input name: deleted_key")
	}
	o.EmptyKey, o.DeletedKey = ctx.Input(0), ctx.Input(1)
	return o, nil
}

// Compute outputs the handle.
func (d *denseSource) Compute(ctx *kernels.Context) error {
	if d.named == nil {
		o, err := d.with(ctx)
		if err != nil {
			return err
		}
		return anonymousTable(ctx, o)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keys = ctx
	defer func() { d.keys = nil }()
	return d.named.Compute(ctx)
}

// Close deletes a private table.
func (d *denseSource) Close() {
	if c, ok := d.named.(kernels.Closer); ok {
		c.Close()
	}
}
