package data

import (
	"io"
	"math"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// window returns datasets of a fixed number of elements each.
type window struct {
	input               *Dataset
	size, shift, stride int64
	drops               bool
}

func newWindow(*settings) maker {
	return func(in *inputs) kind {
		k := &window{
			input:  in.dataset(0),
			size:   in.positive(in.int(1, "size"), "Window size"),
			shift:  in.positive(in.int(2, "shift"), "Window shift"),
			stride: in.positive(in.int(3, "stride"), "Window stride"),
			drops:  in.bool(4, "drop_remainder"),
		}
		k.checkSpan(in)
		return k
	}
}

func (k *window) checkSpan(in *inputs) {
	if in.err == nil && k.size > (math.MaxInt64-1)/k.stride {
		in.failf("Window size %d and stride %d span too many elements", k.size, k.stride)
	}
}

// spans returns the number of input elements that a window spans, from its first to its last.
func (k *window) spans() int64 { return (k.size-1)*k.stride + 1 }

func (k *window) cardinality(q *query) int64 {
	n := k.input.cardinality(q)
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

func (k *window) open(e *Env) (Iterator, error) {
	return openOver(e, k.input, func(o over) Iterator { return &windowing{over: o, of: k} })
}

// outcome is the result of requesting an element.
type outcome struct {
	Element
	err error
}

type windowing struct {
	over
	of     *window
	buffer []outcome
	pool   *tensor.Pool // counts the buffer
	ended  bool
}

func (it *windowing) Next(c *Call) (Element, error) {
	for !it.ended && int64(len(it.buffer)) < it.of.spans() {
		if err := c.Err(); err != nil {
			return nil, err
		}
		e, err := it.input.Next(c)
		if atEnd(err) {
			it.ended = true
			break
		}
		if status.CodeOf(err) == status.ResourceExhausted {
			return nil, err // an outcome of it would take memory, too
		}
		if err := it.push(c, outcome{e, err}); err != nil {
			return nil, err
		}
	}
	if len(it.buffer) == 0 || it.of.drops && int64(len(it.buffer)) < it.of.spans() {
		return nil, io.EOF
	}
	var list []Element
	var failed error
	for i := int64(0); i < int64(len(it.buffer)); i += it.of.stride {
		if failed = it.buffer[i].err; failed != nil {
			break
		}
		list = append(list, it.buffer[i].retain())
	}
	if err := it.move(c); err != nil && failed == nil {
		failed = err
	}
	defer releaseAll(list)
	if failed != nil {
		return nil, failed
	}
	return it.of.windows(list), nil
}

// move advances to the start of the next window.
func (it *windowing) move(c *Call) error {
	n := min(it.of.shift, int64(len(it.buffer)))
	it.drop(n)
	for i := n; !it.ended && i < it.of.shift; i++ {
		if err := c.Err(); err != nil {
			return err
		}
		e, err := it.input.Next(c) // skipped elements may fail
		e.release()
		it.ended = atEnd(err)
	}
	return nil
}

// push adds an outcome to the buffer, or releases it.
func (it *windowing) push(c *Call, o outcome) error {
	if err := c.pool().Reserve(outcomeBytes); err != nil {
		o.release()
		return err
	}
	it.pool = c.pool()
	it.buffer = append(it.buffer, o)
	return nil
}

// drop removes the first n elements of the buffer.
func (it *windowing) drop(n int64) {
	for _, o := range it.buffer[:n] {
		o.release()
		it.pool.Unreserve(outcomeBytes)
	}
	it.buffer = append(it.buffer[:0], it.buffer[n:]...)
}

// outcomeBytes is about what an outcome takes besides its element.
const outcomeBytes = 64

// windows creates a dataset for each component of the elements.
func (k *window) windows(list []Element) Element {
	out := make(Element, 0, len(list[0]))
	for i := range list[0] {
		spec := Spec{}
		if i < len(k.input.Types) && i < len(k.input.Shapes) {
			spec = Spec{k.input.Types[i : i+1], k.input.Shapes[i : i+1]}
		}
		var all Element
		for _, e := range list {
			all = append(all, e[i].Retain())
		}
		out = append(out, variantOf(given(all, 1, spec)))
	}
	return out
}

// given returns a dataset of existing elements with width components each. It takes them over.
func given(all Element, width int, spec Spec) *Dataset {
	d := &Dataset{kind: &tuples{all, width}, Op: "WindowOp", Spec: spec, tensors: all}
	d.origin = origin{windowNode(all, width), all.retain()}
	for _, t := range all {
		d.holds(t)
	}
	d.refs.Store(1)
	return d
}

// windowNode returns a node that creates a dataset of elements with width components.
func windowNode(all Element, width int) *graph.Node {
	var types, of []typespb.DataType
	var open []*shapepb.TensorShapeProto
	for i, t := range all {
		types = append(types, t.DType().Proto())
		if i < width {
			of = append(of, t.DType().Proto())
			open = append(open, &shapepb.TensorShapeProto{UnknownRank: true})
		}
	}
	list := func(l *attrpb.AttrValue_ListValue) *attrpb.AttrValue {
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: l}}
	}
	return &graph.Node{Op: "WindowOp", Attrs: graph.Attrs{
		"Tinputs": list(&attrpb.AttrValue_ListValue{Type: types}), "output_types": list(&attrpb.AttrValue_ListValue{Type: of}),
		"output_shapes": list(&attrpb.AttrValue_ListValue{Shape: open}),
	}}
}

// variantOf returns a scalar with a dataset, which it takes over.
func variantOf(d *Dataset) *tensor.Tensor {
	return tensor.FromVariants(nil, d)
}

func (it *windowing) Close() {
	it.drop(int64(len(it.buffer)))
	it.buffer = nil
	it.over.Close()
}

func (it *windowing) Save(c *Call, w *Writer) {
	w.Bool("ended", it.ended)
	saveOutcomes(w, "buffer", it.buffer)
	it.over.Save(c, w)
}

func (it *windowing) Restore(c *Call, r *Reader) {
	it.ended = r.Bool("ended")
	it.buffer = restoreOutcomes(r, "buffer")
	it.pool = c.pool()
	if err := it.pool.Reserve(int64(len(it.buffer)) * outcomeBytes); err != nil {
		for _, o := range it.buffer {
			o.release()
		}
		it.buffer = nil
		r.Fail(err)
	}
	it.over.Restore(c, r)
}

// saveOutcomes writes a list of outcomes.
func saveOutcomes(w *Writer, name string, list []outcome) {
	w.Int(name, int64(len(list)))
	for i, o := range list {
		w := w.InAt(name, i)
		w.Element("element", o.Element)
		w.Error("error", o.err)
	}
}

func restoreOutcomes(r *Reader, name string) []outcome {
	var list []outcome
	for i := range r.Count(name) {
		r := r.InAt(name, i)
		list = append(list, outcome{r.Element("element"), r.Error("error")})
	}
	return list
}
