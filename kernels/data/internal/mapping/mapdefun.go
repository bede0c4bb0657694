package mapping

import (
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/data/internal/source"
)

// newMapDefun returns the kernel that calls a function with each row of its arguments, several rows concurrently, and stacks the results.
func newMapDefun(c *kernels.Construction) (any, error) {
	s := dataset.SettingsOf(c)
	attr, n, spec := s.Function("f"), len(s.TypeList("Targuments")), dataset.Spec{Types: s.TypeList("output_types"), Shapes: s.Shapes("output_shapes")}
	calls := s.Int("max_intra_op_parallelism") // per call; each call uses the processors that are free
	if s.Err() == nil && len(spec.Types) != len(spec.Shapes) {
		s.Failf("Length of output_shapes and output_types must match.")
	}
	if s.Err() == nil && calls < 0 {
		s.Failf("Attr 'max_intra_op_parallelism' must not be negative, got %d", calls)
	}
	return dataset.Waiting(func(ctx *kernels.Context) error {
		rows := int64(0)
		for i := range n {
			t := ctx.Input(i)
			switch {
			case t.Rank() == 0:
				return status.InvalidArgumentf("All inputs must have rank at least 1. Input %d has a rank of 0.", i)
			case i == 0:
				rows = int64(t.Dim(0))
			case int64(t.Dim(0)) != rows:
				return status.InvalidArgumentf("All inputs must have the same dimension 0. Input %d has leading dimension %d, while all previous inputs have leading dimension %d", i, t.Dim(0), rows)
			}
		}
		in := &dataset.Inputs{Context: ctx}
		arguments, f := in.Rest(0, n), in.FunctionFrom(attr, n)
		defer in.Release()
		env := dataset.NewEnv(ctx, ctx.Device)
		defer env.Shutdown()
		call, end := env.NewCall(ctx.Step.Depth, ctx.Step.Cancellation)
		defer end()
		fn, err := call.Bind(f)
		if err != nil {
			return err
		}
		m := &defunMap{spec: spec, rows: rows, out: make(dataset.Element, len(spec.Types))}
		if err := m.run(call, fn, arguments); err != nil {
			for _, t := range m.out {
				if t != nil {
					t.Release()
				}
			}
			return err
		}
		for i, t := range m.out {
			ctx.SetOutput(i, t)
		}
		return nil
	}), s.Err()
}

// defunMap holds the outputs of one execution.
type defunMap struct {
	spec dataset.Spec
	rows int64

	mu  sync.Mutex
	out dataset.Element // nil before the first row if the output's shape is unknown
}

// run calls the function with each row, with one concurrent call per processor.
func (m *defunMap) run(c *dataset.Call, fn *dataset.Bound, arguments dataset.Element) error {
	for i, p := range m.spec.Shapes {
		shape, known := p.Dims, p.Known
		for _, d := range p.Dims {
			known = known && d >= 0
		}
		if !known {
			if m.rows > 0 {
				continue
			}
			return status.InvalidArgumentf("Output %d of MapDefun has no shape, since there are no rows and the declared shape is %v", i, p)
		}
		t, err := tensor.New(c.Pool(), m.spec.Types[i], append(tensor.Shape{m.rows}, shape...))
		if err != nil {
			return err
		}
		m.out[i] = t
	}
	crew := dataset.NewCrew(c.Env)
	defer crew.Close()
	own, end := c.NewCall(c.Depth, c.Cancellation, crew.Cancellation)
	defer end()
	workers := min(parallelismOfHost(), m.rows)
	next := int64(0)
	var failed error
	take := func() (int64, bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if failed != nil || next >= m.rows {
			return 0, false
		}
		next++
		return next - 1, true
	}
	for range workers {
		crew.Start(func() {
			for row, ok := take(); ok; row, ok = take() {
				if err := m.call(own, fn, arguments, row); err != nil {
					m.mu.Lock()
					if failed == nil {
						failed = err
					}
					m.mu.Unlock()
				}
			}
		})
	}
	crew.Wait()
	if failed == nil {
		failed = crew.Cancellation.Err() // a panic
	}
	return failed
}

// call computes one row.
func (m *defunMap) call(c *dataset.Call, fn *dataset.Bound, arguments dataset.Element, row int64) error {
	e, err := source.Row(c, arguments, row)
	if err != nil {
		return err
	}
	if e, err = fn.Call(c, e); err != nil {
		return err
	}
	defer e.Release()
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, t := range e {
		switch {
		case i >= len(m.out):
			return status.InvalidArgumentf("Mismatch in number of function outputs.")
		case t.DType() != m.spec.Types[i]:
			return status.InvalidArgumentf("Mismatch in function return type and expected output type for output: %d", i)
		case !m.spec.Shapes[i].Admits(t.Shape()):
			return retvalMismatch(t.Shape(), m.spec.Shapes[i])
		case m.out[i] == nil:
			if m.out[i], err = tensor.New(c.Pool(), t.DType(), append(tensor.Shape{m.rows}, t.Shape()...)); err != nil {
				return err
			}
		case !m.out[i].Shape()[1:].Equal(t.Shape()):
			return retvalMismatch(t.Shape(), m.out[i].Shape()[1:])
		}
		m.out[i].CopyElements(int(row)*t.Len(), t, 0, t.Len())
	}
	return nil
}

func retvalMismatch(got, want any) error {
	return status.InvalidArgumentf("Mismatch in function retval shape, %v, and expected output shape, %v.", got, want)
}
