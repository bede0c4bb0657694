package data

import (
	"io"

	"github.com/troupe-run/troupe/graph/status"
)

// generator returns the results of next until next fails with OUT_OF_RANGE. Its arguments are the results of init.
type generator struct{ init, next, finalize *Function }

func newGenerator(s *Settings) Maker {
	names := []string{"init", "next", "finalize"}
	fs, counts := make([]*FunctionAttr, len(names)), make([]int, len(names))
	for i, n := range names {
		fs[i], counts[i] = s.Function(n+"_func"), len(s.TypeList("T"+n+"_func_args"))
	}
	return func(in *Inputs) Kind {
		k, at := &generator{}, 0
		for i, to := range []**Function{&k.init, &k.next, &k.finalize} {
			*to = in.Function(fs[i], at, at+counts[i])
			at += counts[i]
		}
		return k
	}
}

func (k *generator) Functions() []*Function { return []*Function{k.init, k.next, k.finalize} }

func (k *generator) Cardinality(*Query) int64 { return Unknown }

func (k *generator) Open(e *Env) (Iterator, error) {
	it := &generating{}
	for i, f := range k.Functions() {
		b, err := e.Bind(f)
		if err != nil {
			return nil, err
		}
		*[]**Bound{&it.init, &it.next, &it.finalize}[i] = b
	}
	return it, nil
}

type generating struct {
	init, next, finalize *Bound
	begun, ended         bool
	state                Element
}

func (it *generating) Next(c *Call) (Element, error) {
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

func (it *generating) Save(_ *Call, w *Writer) { w.Fail(errGenerator) }

func (it *generating) Restore(_ *Call, r *Reader) { r.Fail(errGenerator) }
