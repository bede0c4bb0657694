package iterator

import (
	"strings"

	"github.com/troupe-run/troupe/containers/table"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/internal/protofield"
	"google.golang.org/protobuf/encoding/protowire"
)

// Ops that use a dataset within their step.

// newReduce returns the kernel that folds a dataset.
func newReduce(c *kernels.Construction) (any, error) {
	s := dataset.SettingsOf(c)
	attr, n, spec := s.Function("f"), len(s.TypeList("Tstate")), s.Spec()
	return dataset.Waiting(func(ctx *kernels.Context) error {
		in := &dataset.Inputs{Context: ctx}
		state, f := in.Rest(1, 1+n).Retain(), in.FunctionFrom(attr, 1+n)
		defer in.Release()
		return dataset.Iterate(ctx, dataset.PlaceOf(ctx, c), func(c *dataset.Call, _ *dataset.Dataset, it dataset.Iterator) error {
			defer func() { state.Release() }()
			b, err := c.Bind(f)
			if err != nil {
				return err
			}
			for {
				e, err := it.Next(c)
				if dataset.AtEnd(err) {
					out := state
					state = nil
					return spec.Output(ctx, out)
				}
				if err != nil {
					return err
				}
				next, err := b.Call(c, state, e)
				state = next
				if err != nil {
					return err
				}
				if len(state) != n {
					return status.InvalidArgumentf("The number of components of the initial state and the reduce function output does not match. (initial_state=%d, output=%d).", n, len(state))
				}
			}
		})
	}), s.Err()
}

// newSingleElement returns the kernel whose outputs are a dataset's only element.
func newSingleElement(c *kernels.Construction) (any, error) {
	s := dataset.SettingsOf(c)
	spec := s.Spec()
	return dataset.Waiting(func(ctx *kernels.Context) error {
		return dataset.Iterate(ctx, dataset.PlaceOf(ctx, c), func(c *dataset.Call, _ *dataset.Dataset, it dataset.Iterator) error {
			e, err := it.Next(c)
			if dataset.AtEnd(err) {
				return status.InvalidArgumentf("Dataset was empty.")
			}
			if err != nil {
				return err
			}
			more, err := it.Next(c)
			if err == nil {
				more.Release()
				err = status.InvalidArgumentf("Dataset had more than one element.")
			}
			if !dataset.AtEnd(err) {
				e.Release()
				return err
			}
			return spec.Output(ctx, e)
		})
	}), s.Err()
}

// newElementAt returns the kernel whose outputs are the element at an index.
func newElementAt(c *kernels.Construction) (any, error) {
	s := dataset.SettingsOf(c)
	spec := s.Spec()
	return dataset.Waiting(func(ctx *kernels.Context) error {
		in := &dataset.Inputs{Context: ctx}
		i := in.Int(1, "index")
		if in.Err != nil {
			return in.Err
		}
		return dataset.WithDataset(ctx, dataset.PlaceOf(ctx, c), func(c *dataset.Call, d *dataset.Dataset) error {
			c.Lookup = true
			e, err := d.At(c, i)
			if err != nil {
				return err
			}
			return spec.Output(ctx, e)
		})
	}), s.Err()
}

// dummyResource outputs the handle of a resource that does not exist.
func dummyResource(ctx *kernels.Context) error {
	ctx.SetOutput(0, tensor.FromHandle(tensor.Handle{Device: ctx.Device.Name(), Container: ctx.Device.Resources().DefaultContainer(), Name: ctx.Node.Name, Type: ctx.Node.Op}))
	return nil
}

// initializeTable fills a table with a dataset's pairs.
func initializeTable(ctx *kernels.Context, p dataset.Place) error {
	t, err := kernels.ResourceAt[table.Table](ctx, 0, table.ResourceKind)
	if err != nil {
		return err
	}
	if a, ok := t.(*table.Anonymous); ok {
		t = a.Table
	}
	to, ok := t.(table.Initializable)
	if !ok {
		return status.InvalidArgumentf("The table that is input 0 of %s is not initializable", ctx.Node.Name)
	}
	return dataset.WithDatasetAt(ctx, p, 1, func(c *dataset.Call, d *dataset.Dataset) error {
		if len(d.Types) != 2 || len(d.Shapes) != 2 {
			return status.InvalidArgumentf("Dataset should have two output types only")
		}
		for i, want := range []tensor.DType{to.Key().DType, to.Value().DType} {
			name := []string{"Key", "Value"}[i]
			if d.Types[i] != want {
				return status.InvalidArgumentf("%s dtype expected: %v but obtained: %v from the dataset", name, want, d.Types[i])
			}
			if s := d.Shapes[i]; s.Known && len(s.Dims) > 0 {
				return status.InvalidArgumentf("Expected scalar for %s. Obtained: %v", strings.ToLower(name), s)
			}
		}
		err := to.Initialize(ctx.Changes(), pairs{c, d}, ctx.Step.Origin)
		if _, filled := to.Initialized(); filled && status.CodeOf(err) == status.FailedPrecondition {
			return nil // as in TensorFlow: the first initializer wins
		}
		return err
	})
}

// pairs adapts a dataset to a table initializer.
type pairs struct {
	call *dataset.Call
	of   *dataset.Dataset
}

func (p pairs) Size() (int64, error) { return max(p.of.Cardinality(nil), 0), nil }

func (p pairs) Each(add func(keys, values *tensor.Tensor) error) error {
	it, err := p.of.Open(p.call.Env)
	if err != nil {
		return err
	}
	defer it.Close()
	for {
		e, err := it.Next(p.call)
		if dataset.AtEnd(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(e) != 2 || e[0].Len() != 1 || e[1].Len() != 1 {
			err = status.InvalidArgumentf("A table needs a key and a value in each element of its dataset")
		} else {
			err = add(e[0], e[1])
		}
		e.Release()
		if err != nil {
			return err
		}
	}
}

// cardinalityLevel is the field of a serialized CardinalityOptions that has the level. Functions are called from level moderate on.
const (
	cardinalityLevel protowire.Number = 1
	moderate         uint64           = 2
)

// newCardinality returns the kernel that computes a dataset's cardinality, as far as it is known.
func newCardinality(c *kernels.Construction) (any, error) {
	s := dataset.SettingsOf(c)
	var level uint64
	if c.Node.Attrs["cardinality_options"] != nil {
		for f, err := range protofield.All([]byte(s.Str("cardinality_options"))) {
			switch {
			case err != nil:
				s.Failf("Could not parse cardinality_options: %v", err)
			case f.Number == cardinalityLevel:
				level = f.Varint
			}
		}
	}
	if s.Err() != nil {
		return nil, s.Err()
	}
	if level < moderate {
		return dataset.WithPlace(func(ctx *kernels.Context, p dataset.Place) error {
			d, err := dataset.FromTensor(p, ctx.Input(0))
			if err == nil {
				ctx.SetOutput(0, tensor.Scalar(tensor.Int64, d.Cardinality(nil)))
				d.Release()
			}
			return err
		})(c)
	}
	return dataset.Waiting(func(ctx *kernels.Context) error {
		return dataset.WithDataset(ctx, dataset.PlaceOf(ctx, c), func(c *dataset.Call, d *dataset.Dataset) error {
			n := d.Cardinality(&dataset.Query{Call: c})
			// The result of a cancelled query says nothing about the dataset.
			if err := c.Err(); err != nil {
				return err
			}
			ctx.SetOutput(0, tensor.Scalar(tensor.Int64, n))
			return nil
		})
	}), nil
}
