// Package datatest builds the datasets and iterators of tests, op by op, with the kernels that the test registers. Most of their elements are
// numbers.
package datatest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// Functions are the functions that the datasets of these tests call.
var Functions kt.Library

func init() {
	Functions = kt.Library{
		// plus adds the variable that it captured to its argument. found looks up its argument in a table.
		"plus" + kt.Captures: with(kt.Op{Type: "ReadVariableOp", Attrs: kt.Attrs{"dtype": tensor.Int64}}, true, func(_ int64, captured []kernels.Value) []any {
			return []any{captured[0]}
		}),
		"found" + kt.Captures: with(kt.Op{Type: "LookupTableFindV2", Attrs: kt.Attrs{"Tin": tensor.Int64, "Tout": tensor.Int64}}, false, func(v int64, captured []kernels.Value) []any {
			return []any{captured[0], Int(v), Int(-1)}
		}),
		"double": on(func(v int64) (any, error) { return 2 * v, nil }),
		"even":   on(func(v int64) (any, error) { return v%2 == 0, nil }),
		"small":  on(func(v int64) (any, error) { return v < 5, nil }),
		"parity": on(func(v int64) (any, error) { return v % 2, nil }),
		"two":    on(func(int64) (any, error) { return int64(2), nil }),
		// depth is how deep calls are nested in its step.
		"depth": func(step *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
			_, err := argument(args)
			done([]kernels.Value{{Tensor: Int(int64(step.Depth))}}, err)
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
			p := NewPipe(FunctionDevice)
			p.Now = args[0]
			p.Op("FlatMapDataset", Calls("f", "same"))
			done([]kernels.Value{p.Now}, p.Err)
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
			case Hangs <- struct{}{}:
			default: // one notification is enough
			}
			kernels.Wait(&kernels.Context{Step: step}, kernels.Awaited{Text: "the end of the step"}, func(err error) { done(nil, err) }, func(end func(error)) func(error) {
				return func(cause error) { end(kernels.Cancelled(cause)) }
			})
		},
		// count is the dataset of the numbers below its argument. twice is the dataset of its argument, twice.
		"count": datasetOf(func(d *kt.Device, v int64) kernels.Value { return NewPipe(d).Numbers(v % 4).Value() }),
		"twice": datasetOf(func(d *kt.Device, v int64) kernels.Value { return NewPipe(d).List(v, v).Value() }),
		// threes is a dataset whose element 2 fails, if its argument is at least 1.
		"threes": datasetOf(func(d *kt.Device, v int64) kernels.Value { return NewPipe(d).Numbers(3 * v).Mapped("fail").Value() }),
		// first is the dataset of the second argument, as group_by_window calls it.
		"first": func(_ *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
			args[0].Release()
			done(args[1:2], nil)
		},
		// failing is first with elements that fail.
		"failing": func(_ *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
			args[0].Release()
			p := NewPipe(FunctionDevice)
			p.Now = args[1]
			p.Mapped("fail")
			done([]kernels.Value{p.Now}, p.Err)
		},
		// itself returns a dataset that calls the function for its only element. ahead returns one that does so on its own goroutine.
		"itself": recursive("FlatMapDataset"),
		"ahead": func(step *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
			recursive("FlatMapDataset", "ahead")(step, args, func(r []kernels.Value, err error) {
				if err == nil {
					p := NewPipe(FunctionDevice)
					p.Now = r[0]
					p.Op("PrefetchDataset", nil, Int(2))
					r, err = []kernels.Value{p.Now}, p.Err
				}
				done(r, err)
			})
		},
		// wide opens a thousand datasets that do so too.
		"wide": recursive("InterleaveDataset", "wide", Int(1000), Int(1)),
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
		p := NewPipe(FunctionDevice).Op("RangeDataset", nil, Int(v), Int(v+1), Int(1)).Op(op, Calls("f", name), inputs...)
		done([]kernels.Value{p.Now}, p.Err)
	}
}

// Hangs receives an element when hang is called.
var Hangs = make(chan struct{}, 1)

// FunctionDevice is where the functions create datasets. A test sets it before it runs any function.
var FunctionDevice *kt.Device

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
		done([]kernels.Value{f(FunctionDevice, v)}, nil)
	}
}

// Pipe is a dataset that a test builds, one op after the other. Its elements are int64.
type Pipe struct {
	Device *kt.Device
	Now    kernels.Value
	Shape  tensor.Shape
	Err    error
	// Stuck makes Numbers and List datasets that wait for their first element until they are cancelled.
	Stuck bool
}

// NewPipe returns a pipe without a dataset on a device.
func NewPipe(d *kt.Device) *Pipe { return &Pipe{Device: d} }

// Int64s are the types of elements that are numbers.
var Int64s = []tensor.DType{tensor.Int64}

// Attrs returns the attributes that declare the elements, and more.
func (p *Pipe) Attrs(more kt.Attrs) kt.Attrs {
	attrs := kt.Attrs{"output_types": Int64s, "output_shapes": []tensor.Shape{p.Shape}, "Toutput_types": Int64s}
	for name, v := range more {
		attrs[name] = v
	}
	return attrs
}

// Op applies an op to the dataset, if there is one yet.
func (p *Pipe) Op(op string, attrs kt.Attrs, inputs ...any) *Pipe {
	if p.Now.Tensor != nil {
		inputs = append([]any{p.Now}, inputs...)
	}
	if p.Err == nil {
		var out []kernels.Value
		if out, p.Err = p.Device.Try(kt.Op{Type: op, Attrs: p.Attrs(attrs), Functions: Functions}, inputs...); p.Err == nil {
			p.Now = out[0]
		}
	}
	return p
}

// Int returns a scalar int64.
func Int(v int64) *tensor.Tensor { return kt.I64(nil, v) }

// Bool returns a scalar boolean.
func Bool(v bool) *tensor.Tensor { return kt.Of(tensor.Bool, nil, v) }

// Numbers creates the dataset of the numbers below n.
func (p *Pipe) Numbers(n int64) *Pipe {
	return p.source("RangeDataset", Int(0), Int(n), Int(1))
}

// List creates the dataset of the given numbers.
func (p *Pipe) List(v ...int64) *Pipe {
	return p.source("TensorSliceDataset", kt.I64(kt.S(int64(len(v))), v...))
}

func (p *Pipe) source(op string, inputs ...any) *Pipe {
	if p.Op(op, nil, inputs...); p.Stuck {
		p.Mapped("hang")
	}
	return p
}

// Calls returns the attributes of an op with a function.
func Calls(attr, name string) kt.Attrs {
	return kt.Attrs{attr: kt.Func{Name: name}, "Targuments": []tensor.DType{}}
}

// Mapped applies a function to each element.
func (p *Pipe) Mapped(name string) *Pipe { return p.Op("MapDataset", Calls("f", name)) }

// Ahead is Mapped with n concurrent calls.
func (p *Pipe) Ahead(name string, n int64) *Pipe {
	return p.Op("ParallelMapDatasetV2", Calls("f", name), Int(n))
}

// Batch stacks n elements each.
func (p *Pipe) Batch(n int64, drops bool) *Pipe {
	p.Shape = append(tensor.Shape{-1}, p.Shape...)
	return p.Op("BatchDatasetV2", nil, Int(n), Bool(drops))
}

// Value returns the dataset, with a reference for the caller.
func (p *Pipe) Value() kernels.Value {
	if p.Err != nil {
		panic(p.Err)
	}
	return p.Now
}

// Iterator is an iterator of a test.
type Iterator struct {
	T      testing.TB
	Device *kt.Device
	Pipe   *Pipe
	Handle kernels.Value
}

var iterators int

// Iterate creates an iterator over a dataset, of which it takes a reference.
func (p *Pipe) Iterate(t testing.TB) *Iterator {
	t.Helper()
	return p.IterateOf(t, nil)
}

// IterateOf is Iterate for elements that are not numbers.
func (p *Pipe) IterateOf(t testing.TB, declared kt.Attrs) *Iterator {
	t.Helper()
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	iterators++
	attrs := p.Attrs(kt.Attrs{"shared_name": fmt.Sprint("i", iterators), "container": ""})
	for name, v := range declared {
		attrs[name] = v
	}
	it := &Iterator{T: t, Device: p.Device, Pipe: p}
	it.Handle = p.Device.Run(t, kt.Op{Type: "IteratorV2", Attrs: attrs})[0]
	p.Now.Tensor.Retain()
	p.Device.Run(t, kt.Op{Type: "MakeIterator"}, p.Now, Retained(it.Handle))
	return it
}

// Retained returns the value with another reference.
func Retained(v kernels.Value) kernels.Value {
	v.Tensor.Retain()
	return v
}

// Next describes the next element, or the class of its error; end after the last one.
func (it *Iterator) Next() string {
	out, err := it.Device.Try(kt.Op{Type: "IteratorGetNext", Attrs: it.Pipe.Attrs(nil), Step: kt.NewStep()}, Retained(it.Handle))
	return Outcome(out, err)
}

// Outcome describes an element, or the class of the error; end after the last element.
func Outcome(out []kernels.Value, err error) string {
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

// Rest returns the elements up to the end, or at most most outcomes.
func (it *Iterator) Rest(most int) string {
	var all []string
	for range most {
		v := it.Next()
		all = append(all, v)
		if v == "end" {
			break
		}
	}
	return strings.Join(all, " ")
}

// Save returns the iterator's state, as restored from a checkpoint.
func (it *Iterator) Save() kernels.Value {
	it.T.Helper()
	out := it.Device.Run(it.T, kt.Op{Type: "SerializeIterator", Attrs: kt.Attrs{"external_state_policy": int64(0)}, Step: kt.NewStep()}, Retained(it.Handle))[0]
	m, err := out.Tensor.Proto()
	out.Release()
	if err != nil {
		it.T.Fatal(err)
	}
	back, err := tensor.FromTensorProto(m, it.Device.Pool())
	if err != nil {
		it.T.Fatal(err)
	}
	return kernels.Value{Tensor: back}
}

// Restore moves the iterator to a saved position.
func (it *Iterator) Restore(state kernels.Value) error {
	_, err := it.Device.Try(kt.Op{Type: "DeserializeIterator", Step: kt.NewStep()}, Retained(it.Handle), Retained(state))
	return err
}

// Close deletes the iterator, and waits until all its work has ended.
func (it *Iterator) Close() {
	it.T.Helper()
	done := it.Handle.Tensor.Handles()[0].Local.(interface{ Done() <-chan struct{} }).Done()
	defer func() { <-done }()
	it.Device.Run(it.T, kt.Op{Type: "DeleteIterator"}, it.Handle, kt.Of(tensor.Int32, nil, int32(0)))
}

// with returns a function of a number and its captures, which runs an op. If adds is set, the function adds the number to the op's result.
func with(op kt.Op, adds bool, inputs func(int64, []kernels.Value) []any) func(*kernels.Step, []kernels.Value, func([]kernels.Value, error)) {
	return func(step *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
		v := tensor.Of[int64](args[0].Tensor)[0]
		args[0].Release()
		op := op
		op.Step, op.Outputs = step, 1
		out, err := FunctionDevice.Try(op, inputs(v, args[1:])...)
		if err == nil && adds {
			sum := kernels.Value{Tensor: Int(v + tensor.Of[int64](out[0].Tensor)[0])}
			out[0].Release()
			out[0] = sum
		}
		done(out, err)
	}
}

// Seedless returns the handle of a generator that does not exist.
func Seedless(p *Pipe) kernels.Value {
	out, err := p.Device.Try(kt.Op{Type: "DummySeedGenerator"})
	if err != nil {
		panic(err)
	}
	return out[0]
}

// Asserted declares how many elements the dataset has.
func (p *Pipe) Asserted(n int64) *Pipe { return p.Op("AssertCardinalityDataset", nil, Int(n)) }

// Reducing returns the attributes of ReduceDataset with a function whose state is a number.
func Reducing(name string) kt.Attrs {
	return kt.Attrs{"f": kt.Func{Name: name}, "Tstate": Int64s, "Targuments": []tensor.DType{}}
}
