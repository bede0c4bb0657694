package batching

import (
	"io"
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/data/internal/source"
)

// window returns datasets of a fixed number of elements each.
type window struct {
	input               *dataset.Dataset
	size, shift, stride int64
	drops               bool
}

func newWindow(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind {
		k := &window{
			input:  in.Dataset(0),
			size:   in.Positive(in.Int(1, "size"), "Window size"),
			shift:  in.Positive(in.Int(2, "shift"), "Window shift"),
			stride: in.Positive(in.Int(3, "stride"), "Window stride"),
			drops:  in.Bool(4, "drop_remainder"),
		}
		k.checkSpan(in)
		return k
	}
}

func (k *window) checkSpan(in *dataset.Inputs) {
	if in.Err == nil && k.size > (math.MaxInt64-1)/k.stride {
		in.Failf("Window size %d and stride %d span too many elements", k.size, k.stride)
	}
}

// spans returns the number of input elements that a window spans, from its first to its last.
func (k *window) spans() int64 { return (k.size-1)*k.stride + 1 }

func (k *window) Cardinality(q *dataset.Query) int64 {
	n := k.input.Cardinality(q)
	switch {
	case n < 0:
		return n
	case !k.drops:
		return (n + k.shift - 1) / k.shift
	}
	rest := n - k.spans()
	if rest < 0 {
		return 0
	}
	return rest/k.shift + 1
}

func (k *window) Open(e *dataset.Env) (dataset.Iterator, error) {
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator { return &windowing{Over: o, of: k} })
}

type windowing struct {
	dataset.Over
	of     *window
	buffer []dataset.Outcome
	pool   *tensor.Pool // counts the buffer
	ended  bool
}

func (it *windowing) Next(c *dataset.Call) (dataset.Element, error) {
	for !it.ended && int64(len(it.buffer)) < it.of.spans() {
		if err := c.Err(); err != nil {
			return nil, err
		}
		e, err := it.Input.Next(c)
		if dataset.AtEnd(err) {
			it.ended = true
			break
		}
		if status.CodeOf(err) == status.ResourceExhausted {
			return nil, err // an outcome of it would take memory, too
		}
		if err := it.push(c, dataset.Outcome{Element: e, Err: err}); err != nil {
			return nil, err
		}
	}
	if len(it.buffer) == 0 || it.of.drops && int64(len(it.buffer)) < it.of.spans() {
		return nil, io.EOF
	}
	var list []dataset.Element
	var failed error
	for i := int64(0); i < int64(len(it.buffer)); i += it.of.stride {
		if failed = it.buffer[i].Err; failed != nil {
			break
		}
		list = append(list, it.buffer[i].Retain())
	}
	if err := it.move(c); err != nil && failed == nil {
		failed = err
	}
	defer dataset.ReleaseAll(list)
	if failed != nil {
		return nil, failed
	}
	return it.of.windows(list), nil
}

// move advances to the start of the next window.
func (it *windowing) move(c *dataset.Call) error {
	n := min(it.of.shift, int64(len(it.buffer)))
	it.drop(n)
	for i := n; !it.ended && i < it.of.shift; i++ {
		if err := c.Err(); err != nil {
			return err
		}
		e, err := it.Input.Next(c) // skipped elements may fail
		e.Release()
		it.ended = dataset.AtEnd(err)
	}
	return nil
}

// push adds an outcome to the buffer, or releases it.
func (it *windowing) push(c *dataset.Call, o dataset.Outcome) error {
	if err := c.Pool().Reserve(outcomeBytes); err != nil {
		o.Release()
		return err
	}
	it.pool = c.Pool()
	it.buffer = append(it.buffer, o)
	return nil
}

// drop removes the first n elements of the buffer.
func (it *windowing) drop(n int64) {
	for _, o := range it.buffer[:n] {
		o.Release()
		it.pool.Unreserve(outcomeBytes)
	}
	it.buffer = append(it.buffer[:0], it.buffer[n:]...)
}

// outcomeBytes is about what an outcome takes besides its element.
const outcomeBytes = 64

// windows creates a dataset for each component of the elements.
func (k *window) windows(list []dataset.Element) dataset.Element {
	out := make(dataset.Element, 0, len(list[0]))
	for i := range list[0] {
		spec := dataset.Spec{}
		if i < len(k.input.Types) && i < len(k.input.Shapes) {
			spec = dataset.Spec{Types: k.input.Types[i : i+1], Shapes: k.input.Shapes[i : i+1]}
		}
		var all dataset.Element
		for _, e := range list {
			all = append(all, e[i].Retain())
		}
		out = append(out, dataset.ToTensor(source.FromElements(all, 1, spec)))
	}
	return out
}

func (it *windowing) Close() {
	it.drop(int64(len(it.buffer)))
	it.buffer = nil
	it.Over.Close()
}

func (it *windowing) Save(c *dataset.Call, w *dataset.Writer) {
	w.Bool("ended", it.ended)
	dataset.SaveOutcomes(w, "buffer", it.buffer)
	it.Over.Save(c, w)
}

func (it *windowing) Restore(c *dataset.Call, r *dataset.Reader) {
	it.ended = r.Bool("ended")
	it.buffer = dataset.RestoreOutcomes(r, "buffer")
	it.pool = c.Pool()
	if err := it.pool.Reserve(int64(len(it.buffer)) * outcomeBytes); err != nil {
		for _, o := range it.buffer {
			o.Release()
		}
		it.buffer = nil
		r.Fail(err)
	}
	it.Over.Restore(c, r)
}
