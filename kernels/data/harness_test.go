package data_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	_ "github.com/troupe-run/troupe/kernels/all"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// functions are the functions that the datasets of these tests call.
var functions kt.Library

func init() {
	functions = kt.Library{
		// plus adds the variable that it captured to its argument. found looks up its argument in a table.
		"plus" + kt.Captures: with(kt.Op{Type: "ReadVariableOp", Attrs: kt.Attrs{"dtype": tensor.Int64}}, true, func(_ int64, captured []kernels.Value) []any {
			return []any{captured[0]}
		}),
		"found" + kt.Captures: with(kt.Op{Type: "LookupTableFindV2", Attrs: kt.Attrs{"Tin": tensor.Int64, "Tout": tensor.Int64}}, false, func(v int64, captured []kernels.Value) []any {
			return []any{captured[0], i(v), i(-1)}
		}),
		"double": on(func(v int64) (any, error) { return 2 * v, nil }),
		"even":   on(func(v int64) (any, error) { return v%2 == 0, nil }),
		"small":  on(func(v int64) (any, error) { return v < 5, nil }),
		"parity": on(func(v int64) (any, error) { return v % 2, nil }),
		"two":    on(func(int64) (any, error) { return int64(2), nil }),
		// depth is how deep calls are nested in its step.
		"depth": func(step *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
			_, err := argument(args)
			done([]kernels.Value{{Tensor: i(int64(step.Depth))}}, err)
		},
		"zero": on(func(int64) (any, error) { return int64(0), nil }),
		"stop": on(func(v int64) (any, error) {
			if v >= 4 {
				return nil, status.Errorf(status.OutOfRange, "enough")
			}
			return v, nil
		}),
		"tens": on(func(v int64) (any, error) { return []int64{10 * v, 10*v + 1}, nil }),
		"halves": func(_ *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
			v, err := argument(args)
			done([]kernels.Value{{Tensor: kt.I64(nil, v/2)}, {Tensor: kt.I64(nil, v%2)}}, err)
		},
		// flat is the dataset of the elements of the datasets of its argument.
		"flat": func(_ *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
			p := newPipe(functionDevice)
			p.now = args[0]
			p.op("FlatMapDataset", calls("f", "same"))
			done([]kernels.Value{p.now}, p.err)
		},
		"fail": on(func(v int64) (any, error) {
			if v%3 == 2 {
				return nil, status.InvalidArgumentf("bad %d", v)
			}
			return v, nil
		}),
		// hang waits until it is cancelled.
		"hang": func(step *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
			args[0].Release()
			select {
			case hangs <- struct{}{}:
			default: // one notification is enough
			}
			kernels.Wait(&kernels.Context{Step: step}, kernels.Awaited{Text: "the end of the step"}, func(err error) { done(nil, err) }, func(end func(error)) func(error) {
				return func(cause error) { end(kernels.Cancelled(cause)) }
			})
		},
		// count is the dataset of the numbers below its argument. twice is the dataset of its argument, twice.
		"count": datasetOf(func(d *kt.Device, v int64) kernels.Value { return newPipe(d).numbers(v % 4).value() }),
		"twice": datasetOf(func(d *kt.Device, v int64) kernels.Value { return newPipe(d).list(v, v).value() }),
		// threes is a dataset whose element 2 fails, if its argument is at least 1.
		"threes": datasetOf(func(d *kt.Device, v int64) kernels.Value { return newPipe(d).numbers(3 * v).mapped("fail").value() }),
		// first is the dataset of the second argument, as group_by_window calls it.
		"first": func(_ *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
			args[0].Release()
			done(args[1:2], nil)
		},
		// failing is first with elements that fail.
		"failing": func(_ *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
			args[0].Release()
			p := newPipe(functionDevice)
			p.now = args[1]
			p.mapped("fail")
			done([]kernels.Value{p.now}, p.err)
		},
		// itself returns a dataset that calls the function for its only element. ahead returns one that does so on its own goroutine.
		"itself": recursive("FlatMapDataset"),
		"ahead": func(step *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
			recursive("FlatMapDataset", "ahead")(step, args, func(r []kernels.Value, err error) {
				if err == nil {
					p := newPipe(functionDevice)
					p.now = r[0]
					p.op("PrefetchDataset", nil, i(2))
					r, err = []kernels.Value{p.now}, p.err
				}
				done(r, err)
			})
		},
		// wide opens a thousand datasets that do so too.
		"wide": recursive("InterleaveDataset", "wide", i(1000), i(1)),
		"same": func(_ *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) { done(args, nil) },
		// add returns the sum of its state and the element, twice.
		"add": func(_ *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
			sum := int64(0)
			for _, a := range args {
				sum += tensor.Of[int64](a.Tensor)[0]
				a.Release()
			}
			done([]kernels.Value{{Tensor: kt.I64(nil, sum)}, {Tensor: kt.I64(nil, sum)}}, nil)
		},
		"sum": func(_ *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
			sum := int64(0)
			for _, a := range args {
				sum += tensor.Of[int64](a.Tensor)[0]
				a.Release()
			}
			done([]kernels.Value{{Tensor: kt.I64(nil, sum)}}, nil)
		},
	}
}

// recursive returns a function that creates a dataset from its argument with an op that calls it, or calls the named function.
func recursive(op string, more ...any) func(*kernels.Step, []kernels.Value, func([]kernels.Value, error)) {
	name := "itself"
	if len(more) > 0 {
		name, more = more[0].(string), more[1:]
	}
	return func(_ *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
		v, err := argument(args)
		if err != nil {
			done(nil, err)
			return
		}
		inputs := make([]any, len(more))
		for j, m := range more {
			inputs[j] = m.(*tensor.Tensor).Retain()
		}
		p := newPipe(functionDevice).op("RangeDataset", nil, i(v), i(v+1), i(1)).op(op, calls("f", name), inputs...)
		done([]kernels.Value{p.now}, p.err)
	}
}

// hangs receives an element when hang is called.
var hangs = make(chan struct{}, 1)

// functionDevice is where the functions create datasets. A test sets it before it runs any function.
var functionDevice *kt.Device

// on returns a library function with one number as its argument.
func on(f func(int64) (any, error)) func(*kernels.Step, []kernels.Value, func([]kernels.Value, error)) {
	return func(_ *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
		v, err := argument(args)
		var result any
		if err == nil {
			result, err = f(v)
		}
		if err != nil {
			done(nil, err)
			return
		}
		t, err := tensor.From(result)
		done([]kernels.Value{{Tensor: t}}, err)
	}
}

// argument returns the only argument, which it takes over and which must be a number.
func argument(args []kernels.Value) (int64, error) {
	for _, a := range args {
		defer a.Release()
	}
	if len(args) != 1 || args[0].Tensor.DType() != tensor.Int64 || args[0].Tensor.Len() != 1 {
		return 0, status.InvalidArgumentf("a function takes one number")
	}
	return tensor.Of[int64](args[0].Tensor)[0], nil
}

func datasetOf(f func(*kt.Device, int64) kernels.Value) func(*kernels.Step, []kernels.Value, func([]kernels.Value, error)) {
	return func(_ *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
		v, err := argument(args)
		if err != nil {
			done(nil, err)
			return
		}
		done([]kernels.Value{f(functionDevice, v)}, nil)
	}
}

// pipe is a dataset that a test builds, one op after the other. Its elements are int64.
type pipe struct {
	d     *kt.Device
	now   kernels.Value
	shape tensor.Shape
	err   error
}

func newPipe(d *kt.Device) *pipe { return &pipe{d: d} }

var int64s = []tensor.DType{tensor.Int64}

func (p *pipe) attrs(more kt.Attrs) kt.Attrs {
	attrs := kt.Attrs{"output_types": int64s, "output_shapes": []tensor.Shape{p.shape}, "Toutput_types": int64s}
	for name, v := range more {
		attrs[name] = v
	}
	return attrs
}

// op applies an op to the dataset, if there is one yet.
func (p *pipe) op(op string, attrs kt.Attrs, inputs ...any) *pipe {
	if p.now.Tensor != nil {
		inputs = append([]any{p.now}, inputs...)
	}
	if p.err == nil {
		var out []kernels.Value
		if out, p.err = p.d.Try(kt.Op{Type: op, Attrs: p.attrs(attrs), Functions: functions}, inputs...); p.err == nil {
			p.now = out[0]
		}
	}
	return p
}

func i(v int64) *tensor.Tensor { return kt.I64(nil, v) }

func yes(v bool) *tensor.Tensor { return kt.Of(tensor.Bool, nil, v) }

func (p *pipe) numbers(n int64) *pipe { return p.op("RangeDataset", nil, i(0), i(n), i(1)) }

func (p *pipe) list(v ...int64) *pipe {
	return p.op("TensorSliceDataset", nil, kt.I64(kt.S(int64(len(v))), v...))
}

// calls returns the attributes of an op with a function.
func calls(attr, name string) kt.Attrs {
	return kt.Attrs{attr: kt.Func{Name: name}, "Targuments": []tensor.DType{}}
}

func (p *pipe) mapped(name string) *pipe { return p.op("MapDataset", calls("f", name)) }

func (p *pipe) ahead(name string, n int64) *pipe {
	return p.op("ParallelMapDatasetV2", calls("f", name), i(n))
}

func (p *pipe) batch(n int64, drops bool) *pipe {
	p.shape = append(tensor.Shape{-1}, p.shape...)
	return p.op("BatchDatasetV2", nil, i(n), yes(drops))
}

// value returns the dataset, with a reference for the caller.
func (p *pipe) value() kernels.Value {
	if p.err != nil {
		panic(p.err)
	}
	return p.now
}

// iterator is an iterator of a test.
type iterator struct {
	t      testing.TB
	d      *kt.Device
	p      *pipe
	handle kernels.Value
}

var iterators int

// iterate creates an iterator over a dataset, of which it takes a reference.
func (p *pipe) iterate(t testing.TB) *iterator {
	t.Helper()
	return p.iterateOf(t, nil)
}

// iterateOf is iterate for elements that are not numbers.
func (p *pipe) iterateOf(t testing.TB, declared kt.Attrs) *iterator {
	t.Helper()
	if p.err != nil {
		t.Fatal(p.err)
	}
	iterators++
	attrs := p.attrs(kt.Attrs{"shared_name": fmt.Sprint("i", iterators), "container": ""})
	for name, v := range declared {
		attrs[name] = v
	}
	it := &iterator{t: t, d: p.d, p: p}
	it.handle = p.d.Run(t, kt.Op{Type: "IteratorV2", Attrs: attrs})[0]
	p.now.Tensor.Retain()
	p.d.Run(t, kt.Op{Type: "MakeIterator"}, p.now, retained(it.handle))
	return it
}

func retained(v kernels.Value) kernels.Value {
	v.Tensor.Retain()
	return v
}

// next describes the next element, or the class of its error; end after the last one.
func (it *iterator) next() string {
	out, err := it.d.Try(kt.Op{Type: "IteratorGetNext", Attrs: it.p.attrs(nil), Step: kt.NewStep()}, retained(it.handle))
	return told(out, err)
}

func told(out []kernels.Value, err error) string {
	if err != nil {
		if status.CodeOf(err) == status.OutOfRange && strings.HasPrefix(err.Error(), "End of sequence") {
			return "end"
		}
		return fmt.Sprint(status.CodeOf(err))
	}
	defer func() {
		for _, v := range out {
			v.Release()
		}
	}()
	list := tensor.Of[int64](out[0].Tensor)
	if out[0].Tensor.Rank() == 0 {
		return fmt.Sprint(list[0])
	}
	return strings.ReplaceAll(fmt.Sprint(list), " ", ",")
}

// rest returns the elements up to the end, or at most most outcomes.
func (it *iterator) rest(most int) string {
	var all []string
	for range most {
		v := it.next()
		all = append(all, v)
		if v == "end" {
			break
		}
	}
	return strings.Join(all, " ")
}

// save returns the iterator's state, as restored from a checkpoint.
func (it *iterator) save() kernels.Value {
	it.t.Helper()
	out := it.d.Run(it.t, kt.Op{Type: "SerializeIterator", Attrs: kt.Attrs{"external_state_policy": int64(0)}, Step: kt.NewStep()}, retained(it.handle))[0]
	m, err := out.Tensor.Proto()
	out.Release()
	if err != nil {
		it.t.Fatal(err)
	}
	back, err := tensor.FromTensorProto(m, it.d.Pool())
	if err != nil {
		it.t.Fatal(err)
	}
	return kernels.Value{Tensor: back}
}

func (it *iterator) restore(state kernels.Value) error {
	_, err := it.d.Try(kt.Op{Type: "DeserializeIterator", Step: kt.NewStep()}, retained(it.handle), retained(state))
	return err
}

// close deletes the iterator, and waits until all its work has ended.
func (it *iterator) close() {
	it.t.Helper()
	done := it.handle.Tensor.Handles()[0].Local.(interface{ Done() <-chan struct{} }).Done()
	defer func() { <-done }()
	it.d.Run(it.t, kt.Op{Type: "DeleteIterator"}, it.handle, kt.Of(tensor.Int32, nil, int32(0)))
}
