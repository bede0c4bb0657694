package data

import (
	"io"

	"github.com/troupe-run/troupe/graph/status"
)

// generator returns the results of next until next fails with OUT_OF_RANGE. Its arguments are the results of init.
type generator struct{ init, next, finalize *Function }

func newGenerator(s *settings) maker {
	names := []string{"init", "next", "finalize"}
	fs, counts := make([]*functionAttr, len(names)), make([]int, len(names))
	for i, n := range names {
		fs[i], counts[i] = s.function(n+"_func"), len(s.TypeList("T"+n+"_func_args"))
	}
	return func(in *inputs) kind {
		k, at := &generator{}, 0
		for i, to := range []**Function{&k.init, &k.next, &k.finalize} {
			*to = in.function(fs[i], at, at+counts[i])
			at += counts[i]
		}
		return k
	}
}

func (k *generator) functions() []*Function { return []*Function{k.init, k.next, k.finalize} }

func (k *generator) cardinality(*query) int64 { return unknown }

func (k *generator) open(e *Env) (Iterator, error) {
	it := &generating{}
	for i, f := range k.functions() {
		b, err := e.bind(f)
		if err != nil {
			return nil, err
		}
		*[]**bound{&it.init, &it.next, &it.finalize}[i] = b
	}
	return it, nil
}

type generating struct {
	init, next, finalize *bound
	begun, ended         bool
	state                Element
}

func (it *generating) Next(c *Call) (Element, error) {
	if it.ended {
		return nil, io.EOF
	}
	if !it.begun {
		state, err := it.init.call(c)
		if err != nil {
			return nil, err
		}
		it.state, it.begun = state, true
	}
	e, err := it.next.call(c, it.state.retain())
	if status.CodeOf(err) != status.OutOfRange {
		return e, err
	}
	it.ended = true
	out, err := it.finalize.call(c, it.state.retain())
	if err != nil {
		return nil, err
	}
	out.release() // the results are unused
	return nil, io.EOF
}

func (it *generating) Close() {
	it.state.release()
	it.state = nil
}

var errGenerator = status.Unimplementedf("GeneratorDataset does not support checkpointing.")

func (it *generating) Save(_ *Call, w *Writer) { w.Fail(errGenerator) }

func (it *generating) Restore(_ *Call, r *Reader) { r.Fail(errGenerator) }
