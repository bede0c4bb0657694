package data

import (
	"strings"

	"github.com/troupe-run/troupe/containers/table"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/tfrecord"
)

// Ops that use a dataset within their step.

// within calls f with an iterator of the dataset at input 0, open while the kernel runs.
func within(ctx *kernels.Context, p place, f func(c *Call, d *Dataset, it Iterator) error) error {
	return withDataset(ctx, p, func(c *Call, d *Dataset) error {
		it, err := d.open(c.Env)
		if err != nil {
			return err
		}
		defer it.Close()
		return f(c, d, it)
	})
}

// withDataset calls f with the dataset at input 0.
func withDataset(ctx *kernels.Context, p place, f func(c *Call, d *Dataset) error) error {
	return withDatasetAt(ctx, p, 0, f)
}

// withDatasetAt calls f with the dataset at an input, in a kernel that may wait.
func withDatasetAt(ctx *kernels.Context, p place, input int, f func(c *Call, d *Dataset) error) error {
	d, err := datasetIn(p.waiting(), ctx.Input(input))
	if err != nil {
		return err
	}
	defer d.Release()
	env := newEnv(ctx, ctx.Device)
	defer env.close()
	c, end := env.newCall(ctx.Step.Depth, ctx.Step.Cancellation)
	defer end()
	return f(c, d)
}

// newReduce returns the kernel that folds a dataset.
func newReduce(c *kernels.Construction) (any, error) {
	s := settingsOf(c)
	attr, n, spec := s.function("f"), len(s.TypeList("Tstate")), s.spec()
	return waiting(func(ctx *kernels.Context) error {
		in := &inputs{ctx: ctx}
		state, f := in.rest(1, 1+n).retain(), in.functionFrom(attr, 1+n)
		defer kernels.ReleaseTensors(in.tensors)
		return within(ctx, placeOf(ctx, c), func(c *Call, _ *Dataset, it Iterator) error {
			defer func() { state.release() }()
			b, err := c.bind(f)
			if err != nil {
				return err
			}
			for {
				e, err := it.Next(c)
				if atEnd(err) {
					out := state
					state = nil
					return spec.output(ctx, out)
				}
				if err != nil {
					return err
				}
				next, err := b.call(c, state, e)
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
	s := settingsOf(c)
	spec := s.spec()
	return waiting(func(ctx *kernels.Context) error {
		return within(ctx, placeOf(ctx, c), func(c *Call, _ *Dataset, it Iterator) error {
			e, err := it.Next(c)
			if atEnd(err) {
				return status.InvalidArgumentf("Dataset was empty.")
			}
			if err != nil {
				return err
			}
			more, err := it.Next(c)
			if err == nil {
				more.release()
				err = status.InvalidArgumentf("Dataset had more than one element.")
			}
			if !atEnd(err) {
				e.release()
				return err
			}
			return spec.output(ctx, e)
		})
	}), s.Err()
}

// newElementAt returns the kernel whose outputs are the element at an index.
func newElementAt(c *kernels.Construction) (any, error) {
	s := settingsOf(c)
	spec := s.spec()
	return waiting(func(ctx *kernels.Context) error {
		in := &inputs{ctx: ctx}
		i := in.int(1, "index")
		if in.err != nil {
			return in.err
		}
		return withDataset(ctx, placeOf(ctx, c), func(c *Call, d *Dataset) error {
			c.lookup = true
			e, err := d.at(c, i)
			if err != nil {
				return err
			}
			return spec.output(ctx, e)
		})
	}), s.Err()
}

// toTFRecord writes the elements, which are strings, to a file.
func toTFRecord(ctx *kernels.Context, p place) error {
	in := &inputs{ctx: ctx}
	name, compression := in.str(1, "filename"), in.compression(2)
	if in.err != nil {
		return in.err
	}
	return within(ctx, p, func(c *Call, d *Dataset, it Iterator) (err error) {
		if len(d.Types) != 1 || d.Types[0] != tensor.String {
			return status.InvalidArgumentf("DatasetToTFRecord needs a dataset of one string component, got %s", typeNames(d.Types))
		}
		f, err := ctx.Files().Overwrite(name)
		if err != nil {
			return fileError(name, err)
		}
		w := tfrecord.NewWriter(f, compression)
		defer func() {
			for _, end := range []func() error{w.Close, f.Close} {
				if e := end(); err == nil {
					err = fileError(name, e)
				}
			}
		}()
		for {
			e, err := it.Next(c)
			if atEnd(err) {
				return nil
			}
			if err != nil {
				return err
			}
			if len(e) != 1 || e[0].DType() != tensor.String || e[0].Rank() != 0 {
				e.release()
				return status.InvalidArgumentf("DatasetToTFRecord needs elements that are scalar strings")
			}
			err = w.Write([]byte(e[0].Strings()[0]))
			e.release()
			if err != nil {
				return fileError(name, err)
			}
		}
	})
}

// newSeedGenerator and newMemoryCache return the kernels of resources that datasets share.
func newSeedGenerator(*kernels.Construction) (any, error) {
	return kernels.Func(func(ctx *kernels.Context) error {
		in := &inputs{ctx: ctx}
		seed, seed2, again := in.int(0, "seed"), in.int(1, "seed2"), true
		if ctx.NumInputs() > 2 {
			again = in.bool(2, "reshuffle")
		}
		if in.err != nil {
			return in.err
		}
		return outputAnonymous(ctx, kindSeeds, &holder{value: newSeeds(seed, seed2, again)})
	}), nil
}

func newMemoryCache(*kernels.Construction) (any, error) {
	return kernels.Func(func(ctx *kernels.Context) error {
		return outputAnonymous(ctx, kindMemory, &holder{value: newMemory()})
	}), nil
}

// dummyResource outputs the handle of a resource that does not exist.
func dummyResource(ctx *kernels.Context) error {
	ctx.SetOutput(0, tensor.FromHandle(tensor.Handle{Device: ctx.Device.Name(), Container: ctx.Device.Resources().DefaultContainer(), Name: ctx.Node.Name, Type: ctx.Node.Op}))
	return nil
}

// initializeTable fills a table with a dataset's pairs.
func initializeTable(ctx *kernels.Context, p place) error {
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
	return withDatasetAt(ctx, p, 1, func(c *Call, d *Dataset) error {
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
	call *Call
	of   *Dataset
}

func (p pairs) Size() (int64, error) { return max(p.of.cardinality(nil), 0), nil }

func (p pairs) Each(add func(keys, values *tensor.Tensor) error) error {
	it, err := p.of.open(p.call.Env)
	if err != nil {
		return err
	}
	defer it.Close()
	for {
		e, err := it.Next(p.call)
		if atEnd(err) {
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
		e.release()
		if err != nil {
			return err
		}
	}
}
