package example

import (
	"fmt"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// One parses one serialized Example into tensors without a dimension for examples: a sparse feature is a sparse vector, and a ragged one
// has no splits (an empty tensor). defaults are as for Batch, which words the same errors differently.
func (p *Parser) One(run Run, serialized string, defaults []*tensor.Tensor) (*Result, error) {
	f := p.newFound()
	if !p.scan(serialized, f) {
		return nil, status.InvalidArgumentf("Could not parse example input, value: '%s'", serialized)
	}
	o := &single{p, run, serialized, newResult(&p.Features)}
	if err := o.parse(f, defaults); err != nil {
		o.result.Release()
		return nil, err
	}
	return o.result, nil
}

type single struct {
	*Parser
	run        Run
	serialized string
	result     *Result
}

func (o *single) parse(f *found, defaults []*tensor.Tensor) (err error) {
	r := o.result
	for i := range o.Dense {
		if f.present[i] {
			if r.Dense[i], err = o.dense(i, f.features[i]); err != nil {
				return err
			}
		}
	}
	for i, s := range o.Sparse {
		if err := o.sparse(i, s, f.features[len(o.Dense)+i], f.present[len(o.Dense)+i]); err != nil {
			return err
		}
	}
	for i, g := range o.Ragged {
		j := len(o.Dense) + len(o.Sparse) + i
		if r.RaggedValues[i], err = o.varying(g.Key, g.DType, f.features[j], f.present[j]); err != nil {
			return err
		}
		if r.Splits[i], err = tensor.New(o.run.Pool, g.Splits, tensor.Shape{0}); err != nil {
			return err
		}
	}
	for i, d := range o.Dense {
		switch {
		case r.Dense[i] != nil:
			continue
		case d.varies():
			if r.Dense[i], err = tensor.New(o.run.Pool, d.DType, append(tensor.Shape{0}, d.Shape[1:]...)); err != nil {
				return err
			}
		case defaults[i].Len() == 0:
			return status.InvalidArgumentf("Feature: %s (data type: %v) is required but could not be found.", d.Key, d.DType)
		default:
			r.Dense[i] = defaults[i].Retain()
		}
	}
	return nil
}

// broken returns the error for a feature whose values cannot be read; format describes what is wrong with its list.
func broken(key string, dtype tensor.DType, format string) error {
	return status.InvalidArgumentf("Key: %s.  Can't parse serialized Example: %s", key, fmt.Sprintf(format, word(dtype)+"_list"))
}

func (o *single) dense(i int, feature string) (*tensor.Tensor, error) {
	d := &o.Dense[i]
	v, ok := valuesOf(feature)
	switch {
	case !ok || v.dtype == tensor.Invalid:
		return nil, errDatatype
	case v.dtype != d.DType:
		return nil, status.InvalidArgumentf("Key: %s.  Data types don't match. Data type: %v but expected type: %v", d.Key, v.dtype, d.DType)
	}
	n, ok := v.count()
	shape := d.Shape
	switch {
	case !ok || !d.varies() && d.DType == tensor.String && n > o.stride[i]:
		return nil, broken(d.Key, d.DType, "Parsing %s failed.")
	case d.varies() && n%o.stride[i] != 0:
		return nil, status.InvalidArgumentf("Error while parsing feature with key %s: number of elements should be divisible by %d, found %d instead", d.Key, o.stride[i], n)
	case d.varies():
		shape = append(tensor.Shape{int64(n / o.stride[i])}, d.Shape[1:]...)
	case n != o.stride[i]:
		return nil, broken(d.Key, d.DType, "Some %s slice was not parsed.")
	}
	return o.fill(v, shape)
}

func (o *single) fill(v values, shape tensor.Shape) (*tensor.Tensor, error) {
	t, err := tensor.New(o.run.Pool, v.dtype, shape)
	if err != nil {
		return nil, err
	}
	v.put(columnOf(t), 0, len(o.serialized))
	return t, nil
}

// varying returns the vector of a sparse or ragged feature's values.
func (o *single) varying(key string, dtype tensor.DType, feature string, present bool) (*tensor.Tensor, error) {
	if !present || feature == "" {
		return tensor.New(o.run.Pool, dtype, tensor.Shape{0})
	}
	v, ok := valuesOf(feature)
	switch {
	case !ok || v.dtype == tensor.Invalid:
		return nil, errDatatype
	case v.dtype != dtype:
		return nil, status.InvalidArgumentf("Key: %s.  Data types don't match. Expected type: %v, Actual type: %v", key, dtype, v.dtype)
	}
	n, ok := v.count()
	if !ok {
		return nil, broken(key, dtype, "Parsing %s failed.")
	}
	return o.fill(v, tensor.Shape{int64(n)})
}

func (o *single) sparse(i int, s Sparse, feature string, present bool) error {
	t, err := o.varying(s.Key, s.DType, feature, present)
	if err != nil {
		return err
	}
	r, n := o.result, int64(t.Len())
	r.Values[i] = t
	if r.Indices[i], err = tensor.New(o.run.Pool, tensor.Int64, tensor.Shape{n, 1}); err != nil {
		return err
	}
	for j := range tensor.Of[int64](r.Indices[i]) {
		tensor.Of[int64](r.Indices[i])[j] = int64(j)
	}
	r.Shapes[i], err = tensor.FromSlice(tensor.Int64, tensor.Shape{1}, []int64{n})
	return err
}
