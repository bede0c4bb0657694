package mapping

import (
	"io"
	"maps"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/data/internal/source"
)

// groupByWindow groups the elements by key, and returns the elements of the dataset that a function makes of each full group.
type groupByWindow struct {
	input             *dataset.Dataset
	key, reduce, size *dataset.Function
}

func newGroupByWindow(s *dataset.Settings) dataset.Maker {
	key, reduce, size := s.Function("key_func"), s.Function("reduce_func"), s.Function("window_size_func")
	nKey, nReduce := len(s.TypeList("Tkey_func_other_arguments")), len(s.TypeList("Treduce_func_other_arguments"))
	return func(in *dataset.Inputs) dataset.Kind {
		return &groupByWindow{
			input: in.Dataset(0), key: in.Function(key, 1, 1+nKey),
			reduce: in.Function(reduce, 1+nKey, 1+nKey+nReduce), size: in.FunctionFrom(size, 1+nKey+nReduce),
		}
	}
}

func (k *groupByWindow) Functions() []*dataset.Function {
	return []*dataset.Function{k.key, k.reduce, k.size}
}

func (k *groupByWindow) Cardinality(q *dataset.Query) int64 {
	if k.input.Cardinality(q) == dataset.Infinite {
		return dataset.Infinite
	}
	return dataset.Unknown
}

func (k *groupByWindow) Open(e *dataset.Env) (dataset.Iterator, error) {
	it := &grouping{of: k, env: e, groups: map[int64][]dataset.Element{}, sizes: map[int64]int64{}}
	var err error
	for _, b := range []struct {
		to *(*dataset.Bound)
		f  *dataset.Function
	}{{&it.key, k.key}, {&it.reduce, k.reduce}, {&it.size, k.size}} {
		if *b.to, err = e.Bind(b.f); err != nil {
			return nil, err
		}
	}
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator { it.Over = o; return it })
}

type grouping struct {
	dataset.Over
	of                *groupByWindow
	env               *dataset.Env
	key, reduce, size *dataset.Bound
	groups            map[int64][]dataset.Element
	sizes             map[int64]int64
	ended             bool
	now               *dataset.Opened // the reduce function's result for a group
	nowElements       dataset.Element // the group's, one after the other, as long as it is returned
	nowWidth          int             // components of an element
	nowKey            int64
	begun             int64 // groups that came before now
}

func (it *grouping) Next(c *dataset.Call) (dataset.Element, error) {
	for {
		if it.now != nil {
			e, err := it.now.Next(c)
			if !dataset.AtEnd(err) {
				return e, err
			}
			it.now.Close()
			it.now = nil
			it.begun++
			it.dropGroup(it.nowKey)
		}
		for !it.ended && it.now == nil {
			if err := it.sort(c); err != nil {
				return nil, err
			}
		}
		if it.now != nil {
			continue
		}
		if len(it.groups) == 0 {
			return nil, io.EOF
		}
		if err := it.flush(c, slices.Min(slices.Collect(maps.Keys(it.groups)))); err != nil {
			return nil, err
		}
	}
}

// sort adds the next element to its group, and starts returning the group if it is full.
func (it *grouping) sort(c *dataset.Call) error {
	e, err := it.Input.Next(c)
	if dataset.AtEnd(err) {
		it.ended = true
		return nil
	}
	if err != nil {
		return err
	}
	key, err := it.key.Number(c, "key_func", e.Retain())
	if err == nil && it.sizes[key] == 0 {
		var size int64
		if size, err = it.size.Number(c, "window_size_func", dataset.Element{tensor.Scalar(tensor.Int64, key)}); err == nil && size <= 0 {
			err = status.InvalidArgumentf("Window size must be greater than zero, but got %d.", size)
		}
		if err == nil {
			it.sizes[key] = size
		}
	}
	if err != nil {
		e.Release()
		return err
	}
	it.groups[key] = append(it.groups[key], e)
	if int64(len(it.groups[key])) == it.sizes[key] {
		return it.flush(c, key)
	}
	return nil
}

// flush removes a group and starts returning the reduce function's result for it.
func (it *grouping) flush(c *dataset.Call, key int64) error {
	group := it.groups[key]
	delete(it.groups, key)
	it.nowKey = key
	return it.begin(c, key, group)
}

// begin opens the reduce function's result for a group.
func (it *grouping) begin(c *dataset.Call, key int64, group []dataset.Element) error {
	t, err := it.openGroup(c, key, group)
	if err != nil {
		return err
	}
	it.now = t
	return nil
}

func (it *grouping) openGroup(c *dataset.Call, key int64, group []dataset.Element) (*dataset.Opened, error) {
	var all dataset.Element
	for _, e := range group {
		all = append(all, e...)
	}
	it.nowElements, it.nowWidth = all, len(group[0])
	elements := source.FromElements(all, len(group[0]), it.of.input.Spec)
	t, err := it.reduce.Open(c, it.env.Input(it.begun), dataset.Element{tensor.Scalar(tensor.Int64, key), dataset.ToTensor(elements)})
	if err != nil && c.Err() == nil {
		err = status.Internalf("Got error code %v and message: {\n%v\n} \nfrom running user-defined function %s: ", status.CodeOf(err), err, it.reduce.Name)
	}
	return t, err
}

func (it *grouping) dropGroup(key int64) {
	dataset.ReleaseAll(it.groups[key])
	delete(it.groups, key)
}

func (it *grouping) Close() {
	if it.now != nil {
		it.now.Close()
		it.now = nil
	}
	for key := range it.groups {
		it.dropGroup(key)
	}
	it.Over.Close()
}

func (it *grouping) Save(c *dataset.Call, w *dataset.Writer) {
	w.Bool("ended", it.ended)
	w.Int("begun", it.begun)
	w.Int("groups", int64(len(it.groups)))
	for i, key := range slices.Sorted(maps.Keys(it.groups)) {
		w := w.InAt("group", i)
		w.Int("key", key)
		w.Elements("elements", it.groups[key])
	}
	w.Int("sizes", int64(len(it.sizes)))
	for i, key := range slices.Sorted(maps.Keys(it.sizes)) {
		w := w.InAt("size", i)
		w.Int("key", key)
		w.Int("size", it.sizes[key])
	}
	w.Bool("open", it.now != nil)
	if it.now != nil {
		w := w.In("now")
		w.Int("key", it.nowKey)
		w.Element("elements", it.nowElements)
		w.Int("width", int64(it.nowWidth))
		it.now.Save(c, w.In("iterator"))
	}
	it.Over.Save(c, w)
}

func (it *grouping) Restore(c *dataset.Call, r *dataset.Reader) {
	it.ended, it.begun = r.Bool("ended"), r.Place("begun")
	for i := range r.Count("groups") {
		r := r.InAt("group", i)
		it.groups[r.Int("key")] = r.Elements("elements")
	}
	for i := range r.Count("sizes") {
		r := r.InAt("size", i)
		it.sizes[r.Int("key")] = r.Int("size")
	}
	if r.Bool("open") {
		it.restoreNow(c, r.In("now"))
	}
	it.Over.Restore(c, r)
}

func (it *grouping) restoreNow(c *dataset.Call, r *dataset.Reader) {
	it.nowKey = r.Int("key")
	all, width := r.Element("elements"), int(r.Int("width"))
	if r.Err == nil && (width <= 0 || len(all)%width != 0 || len(all) == 0) {
		r.Fail(status.Errorf(status.DataLoss, "A saved group of %d tensors has elements of %d components", len(all), width))
	}
	if r.Err != nil {
		all.Release()
		return
	}
	var group []dataset.Element
	for i := 0; i < len(all); i += width {
		group = append(group, all[i:i+width])
	}
	if err := it.begin(c, it.nowKey, group); err != nil {
		r.Fail(err)
		return
	}
	it.now.Restore(c, r.In("iterator"))
}

// groupByReducer folds the elements of each key, and returns the results in the order in which the keys first appeared.
type groupByReducer struct {
	input                       *dataset.Dataset
	key, init, reduce, finalize *dataset.Function
}

func newGroupByReducer(s *dataset.Settings) dataset.Maker {
	names := []string{"key", "init", "reduce", "finalize"}
	fs, counts := make([]*dataset.FunctionAttr, len(names)), make([]int, len(names))
	for i, n := range names {
		fs[i], counts[i] = s.Function(n+"_func"), len(s.TypeList("T"+n+"_func_other_arguments"))
	}
	return func(in *dataset.Inputs) dataset.Kind {
		k := &groupByReducer{input: in.Dataset(0)}
		at := 1
		for i, to := range []**dataset.Function{&k.key, &k.init, &k.reduce, &k.finalize} {
			*to = in.Function(fs[i], at, at+counts[i])
			at += counts[i]
		}
		return k
	}
}

func (k *groupByReducer) Functions() []*dataset.Function {
	return []*dataset.Function{k.key, k.init, k.reduce, k.finalize}
}

func (k *groupByReducer) Cardinality(*dataset.Query) int64 { return dataset.Unknown }

func (k *groupByReducer) Open(e *dataset.Env) (dataset.Iterator, error) {
	it := &folding{states: map[int64]dataset.Element{}}
	for i, f := range k.Functions() {
		b, err := e.Bind(f)
		if err != nil {
			return nil, err
		}
		*[]**dataset.Bound{&it.key, &it.init, &it.reduce, &it.finalize}[i] = b
	}
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator { it.Over = o; return it })
}

type folding struct {
	dataset.Over
	key, init, reduce, finalize *dataset.Bound
	states                      map[int64]dataset.Element
	order                       []int64 // keys by first appearance; the results of the first `next` keys were returned
	next                        int
	ended                       bool
}

func (it *folding) Next(c *dataset.Call) (dataset.Element, error) {
	for !it.ended {
		if err := it.fold(c); err != nil {
			return nil, err
		}
	}
	if it.next >= len(it.order) {
		return nil, io.EOF
	}
	key := it.order[it.next]
	it.next++
	state := it.states[key]
	delete(it.states, key)
	return it.finalize.Call(c, state)
}

func (it *folding) fold(c *dataset.Call) error {
	e, err := it.Input.Next(c)
	if dataset.AtEnd(err) {
		it.ended = true
		return nil
	}
	if err != nil {
		return err
	}
	key, err := it.key.Number(c, "key_func", e.Retain())
	if err != nil {
		e.Release()
		return err
	}
	state, ok := it.states[key]
	if !ok {
		if state, err = it.init.Call(c, dataset.Element{tensor.Scalar(tensor.Int64, key)}); err != nil {
			e.Release()
			return err
		}
		it.order = append(it.order, key)
	}
	it.states[key] = state
	folded, err := it.reduce.Call(c, state.Retain(), e)
	if err != nil {
		return err
	}
	state.Release()
	it.states[key] = folded
	return nil
}

func (it *folding) Close() {
	for _, s := range it.states {
		s.Release()
	}
	clear(it.states)
	it.Over.Close()
}

func (it *folding) Save(c *dataset.Call, w *dataset.Writer) {
	w.Bool("ended", it.ended)
	w.Int("next", int64(it.next))
	w.Int("keys", int64(len(it.order)))
	for i, key := range it.order {
		w := w.InAt("key", i)
		w.Int("key", key)
		w.Element("state", it.states[key])
	}
	it.Over.Save(c, w)
}

func (it *folding) Restore(c *dataset.Call, r *dataset.Reader) {
	it.ended = r.Bool("ended")
	it.next = r.Count("next")
	for i := range r.Count("keys") {
		r := r.InAt("key", i)
		key := r.Int("key")
		it.order = append(it.order, key)
		if state := r.Element("state"); i >= it.next {
			it.states[key] = state
		}
	}
	it.Over.Restore(c, r)
}
