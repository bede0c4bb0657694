package mapping

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
)

// scan returns a function's results for each element and a state, which the function updates.
type scan struct {
	input *dataset.Dataset
	state dataset.Element
	f     *dataset.Function
	spec  dataset.Spec
	keeps bool
}

func newScan(s *dataset.Settings) dataset.Maker {
	f, n, keeps, spec := s.Function("f"), len(s.TypeList("Tstate")), s.Bool("preserve_cardinality"), s.Spec()
	return func(in *dataset.Inputs) dataset.Kind {
		return &scan{in.Dataset(0), in.Rest(1, 1+n), in.FunctionFrom(f, 1+n), spec, keeps}
	}
}

func (k *scan) Functions() []*dataset.Function { return []*dataset.Function{k.f} }

func (k *scan) Cardinality(q *dataset.Query) int64 {
	if k.keeps {
		return k.input.Cardinality(q)
	}
	return dataset.Unknown
}

func (k *scan) Open(e *dataset.Env) (dataset.Iterator, error) {
	f, err := e.Bind(k.f)
	if err != nil {
		return nil, err
	}
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator { return &scanning{o, k, f, k.state.Retain()} })
}

type scanning struct {
	dataset.Over
	of    *scan
	f     *dataset.Bound
	state dataset.Element
}

func (it *scanning) Next(c *dataset.Call) (dataset.Element, error) {
	e, err := it.Input.Next(c)
	if err != nil {
		return nil, err
	}
	out, err := it.f.Call(c, it.state.Retain(), e)
	if err != nil {
		return nil, endedBy(err, it.of.keeps)
	}
	if err := it.of.check(out); err != nil {
		out.Release()
		return nil, err
	}
	n := len(it.of.state)
	it.state.Release()
	it.state = out[:n:n]
	return out[n:], nil
}

// check compares the function's results with the declaration.
func (k *scan) check(out dataset.Element) error {
	n := len(k.state)
	if len(out) != n+len(k.spec.Types) {
		return status.InvalidArgumentf("Got %d values of scan_func, expected %d", len(out), n+len(k.spec.Types))
	}
	for i, t := range out {
		var want tensor.DType
		if i < n {
			want = k.state[i].DType()
		} else {
			want = k.spec.Types[i-n]
		}
		if t.DType() != want {
			return status.InvalidArgumentf("Got wrong type for scan_func return value %d (expected %v, got %v).", i, want, t.DType())
		}
		if i >= n && !k.spec.Shapes[i-n].Admits(t.Shape()) {
			return status.InvalidArgumentf("Got wrong shape for scan_func return value %d (expected %v, got %v).", i, k.spec.Shapes[i-n], t.Shape())
		}
	}
	return nil
}

func (it *scanning) Close() {
	it.state.Release()
	it.state = nil
	it.Over.Close()
}

func (it *scanning) Save(c *dataset.Call, w *dataset.Writer) {
	w.Element("state", it.state)
	it.Over.Save(c, w)
}

func (it *scanning) Restore(c *dataset.Call, r *dataset.Reader) {
	it.state.Release()
	it.state = r.Element("state")
	if r.Err == nil && len(it.state) != len(it.of.state) {
		r.Fail(status.Errorf(status.DataLoss, "The saved state of a scan has %d components, not %d", len(it.state), len(it.of.state)))
	}
	it.Over.Restore(c, r)
}
