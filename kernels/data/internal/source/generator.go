package source

import (
	"io"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
)

// generator returns the results of next until next fails with OUT_OF_RANGE. Its arguments are the results of init.
type generator struct{ init, next, finalize *dataset.Function }

func newGenerator(s *dataset.Settings) dataset.Maker {
	names := []string{"init", "next", "finalize"}
	fs, counts := make([]*dataset.FunctionAttr, len(names)), make([]int, len(names))
	for i, n := range names {
		fs[i], counts[i] = s.Function(n+"_func"), len(s.TypeList("T"+n+"_func_args"))
	}
	return func(in *dataset.Inputs) dataset.Kind {
		k, at := &generator{}, 0
		for i, to := range []**dataset.Function{&k.init, &k.next, &k.finalize} {
			*to = in.Function(fs[i], at, at+counts[i])
			at += counts[i]
		}
		return k
	}
}

func (k *generator) Functions() []*dataset.Function {
	return []*dataset.Function{k.init, k.next, k.finalize}
}

func (k *generator) Cardinality(*dataset.Query) int64 { return dataset.Unknown }

func (k *generator) Open(e *dataset.Env) (dataset.Iterator, error) {
	it := &generating{}
	for i, f := range k.Functions() {
		b, err := e.Bind(f)
		if err != nil {
			return nil, err
		}
		*[]**dataset.Bound{&it.init, &it.next, &it.finalize}[i] = b
	}
	return it, nil
}

type generating struct {
	init, next, finalize *dataset.Bound
	begun, ended         bool
	state                dataset.Element
}

func (it *generating) Next(c *dataset.Call) (dataset.Element, error) {
	if it.ended {
		return nil, io.EOF
	}
	if !it.begun {
		state, err := it.init.Call(c)
		if err != nil {
			return nil, err
		}
		it.state, it.begun = state, true
	}
	e, err := it.next.Call(c, it.state.Retain())
	if status.CodeOf(err) != status.OutOfRange {
		return e, err
	}
	it.ended = true
	out, err := it.finalize.Call(c, it.state.Retain())
	if err != nil {
		return nil, err
	}
	out.Release() // the results are unused
	return nil, io.EOF
}

func (it *generating) Close() {
	it.state.Release()
	it.state = nil
}

var errGenerator = status.Unimplementedf("GeneratorDataset does not support checkpointing.")

func (it *generating) Save(_ *dataset.Call, w *dataset.Writer) { w.Fail(errGenerator) }

func (it *generating) Restore(_ *dataset.Call, r *dataset.Reader) { r.Fail(errGenerator) }
