package uniform

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/kernels/internal/protofield"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/internal/args"
)

// axes lists the dimensions of a tensor of a convolution in the order that the computation uses. For images, this is batch, channels and
// places; for filters, output channels, input channels and places; for results, batch, channels and places.
type axes []int64

// inOrder returns the axes of a tensor that already has that order.
func inOrder(rank int) axes {
	a := make(axes, rank)
	for i := range a {
		a[i] = int64(i)
	}
	return a
}

// of returns a shape in the order of the computation.
func (a axes) of(s tensor.Shape) tensor.Shape {
	t := make(tensor.Shape, len(a))
	for i, at := range a {
		t[i] = s[at]
	}
	return t
}

// convAttrs holds the attributes of a convolution of quantized numbers (core/util/quantization/uniform_quant_ops_params.cc).
type convAttrs struct {
	strides, lhsDilation, rhsDilation, explicit []int64
	padding                                     string
	batchGroups, featureGroups                  int64
	numbers                                     *[3]axes // of the operands and the result; nil if they are in order
}

func convAttrsOf(a *graph.AttrReader) (k convAttrs) {
	lists := []*[]int64{&k.strides, &k.lhsDilation, &k.rhsDilation, &k.explicit}
	for i, name := range []string{"window_strides", "lhs_dilation", "rhs_dilation", "explicit_padding"} {
		*lists[i] = a.IntList(name)
		for _, v := range *lists[i] {
			if v < math.MinInt32 || v > math.MaxInt32 {
				a.Failf("Attr %s has value %d out of range for an int32", name, v)
			}
		}
	}
	k.batchGroups, k.featureGroups = int64(a.Int32("batch_group_count")), int64(a.Int32("feature_group_count"))
	k.padding = a.Str("padding")
	numbers := a.Str("dimension_numbers")
	switch {
	case k.padding != "EXPLICIT" && k.padding != "SAME" && k.padding != "VALID":
		a.Failf("padding Attr must be one of [EXPLICIT | SAME | VALID], but given: %s", k.padding)
	case k.padding != "EXPLICIT" && len(k.explicit) > 0:
		a.Failf("If padding Attr is not 'EXPLICIT', explicit_padding Attr must be empty. Given padding %s and explicit_padding of size %d",
			k.padding, len(k.explicit))
	}
	var err error
	k.numbers, err = dimensionNumbers([]byte(numbers))
	a.Fail(err)
	return k
}

// dimensionNumbers parses a UniformQuantizedConvolutionDimensionNumbersAttr. It returns nil if the attribute has no image places.
func dimensionNumbers(b []byte) (*[3]axes, error) {
	// Indexed by field number minus one: batch, feature and places of images; input feature, output feature and places of filters; batch,
	// feature and places of results.
	var single [9]int64
	var places [9][]int64
	for f, err := range protofield.All(b) {
		if err != nil {
			return nil, status.InvalidArgumentf("Error parsing convolution dimension numbers.")
		}
		if f.Number > 9 || f.Type != protowire.VarintType && f.Type != protowire.BytesType {
			continue
		}
		if f.Type == protowire.VarintType {
			single[f.Number-1] = int64(f.Varint)
		}
		for v, err := range f.Varints() {
			if err != nil {
				return nil, status.InvalidArgumentf("Error parsing convolution dimension numbers.")
			}
			places[f.Number-1] = append(places[f.Number-1], int64(v))
		}
	}
	if len(places[2]) == 0 {
		return nil, nil
	}
	return &[3]axes{
		append(axes{single[0], single[1]}, places[2]...),
		append(axes{single[4], single[3]}, places[5]...),
		append(axes{single[6], single[7]}, places[8]...),
	}, nil
}

// dimension describes how the windows move along one dimension of places.
type dimension struct {
	image, filter, out      int
	stride, dilation, holes int // holes is the dilation of the image
	before                  int // the padding
}

// convPlan is a convolution of tensors of specific shapes.
type convPlan struct {
	lhs, rhs, out              axes
	shape                      tensor.Shape // of the result
	dims                       []dimension
	images, channels           int
	batch, inputs, outputs     int // images of the result, and the input and output channels of filters
	batchGroups, featureGroups int
}

// filled returns a list with n numbers, one for each dimension of places: list, whose numbers must be at least 1, or ones if it is empty.
func filled(name string, list []int64, n int) ([]int64, error) {
	switch {
	case len(list) == 0:
		return slices.Repeat([]int64{1}, n), nil
	case len(list) != n:
		return nil, status.InvalidArgumentf("Size of %s Attr must be dims - 2.", name)
	case slices.Min(list) < 1:
		return nil, status.InvalidArgumentf("All elements of %s must be >= 1. Given %s", name, joined(list))
	}
	return list, nil
}

func joined(list []int64) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(list), "[]"), " ", ", ")
}

// plan checks the attributes against the shapes of the operands.
func (a *convAttrs) plan(lhs, rhs tensor.Shape) (p convPlan, err error) {
	rank := len(lhs)
	switch {
	case len(rhs) != rank:
		return p, status.InvalidArgumentf("lhs and rhs must have same dims. Given lhs and rhs of shapes: %v%v", lhs, rhs)
	case rank <= 2:
		return p, status.InvalidArgumentf("lhs and rhs shape dims must be at least 3. Given: %d", rank)
	}
	n := rank - 2
	strides, err1 := filled("window_strides", a.strides, n)
	holes, err2 := filled("lhs_dilation", a.lhsDilation, n)
	dilation, err3 := filled("rhs_dilation", a.rhsDilation, n)
	if err := args.FirstError(err1, err2, err3); err != nil {
		return p, err
	}
	p.lhs, p.rhs, p.out = inOrder(rank), inOrder(rank), inOrder(rank)
	if a.numbers != nil {
		for _, list := range a.numbers {
			if err := list.check(rank); err != nil {
				return p, err
			}
		}
		p.lhs, p.rhs, p.out = a.numbers[0], a.numbers[1], a.numbers[2]
	}
	image, filter := p.lhs.of(lhs), p.rhs.of(rhs)
	if err := a.checkGroups(image, filter); err != nil {
		return p, err
	}
	if a.padding == "EXPLICIT" {
		switch {
		case len(a.explicit) != 2*n:
			return p, status.InvalidArgumentf("Size of explicit_padding Attr must be 2 * (rank - 2). Given rank %d and explicit_padding of size %d", rank, len(a.explicit))
		case slices.Min(a.explicit) < 0:
			return p, status.InvalidArgumentf("All explicit_padding elems must be >= 0, Given %s", joined(a.explicit))
		}
	}
	p.images, p.channels, p.batch = int(image[0]), int(image[1]), int(image[0]/a.batchGroups)
	p.inputs, p.outputs = int(filter[1]), int(filter[0])
	p.batchGroups, p.featureGroups = int(a.batchGroups), int(a.featureGroups)
	result := tensor.Shape{int64(p.batch), int64(p.outputs)}
	for i := range n {
		d := dimension{image: int(image[2+i]), filter: int(filter[2+i]), stride: int(strides[i]), dilation: int(dilation[i]), holes: int(holes[i])}
		if max(d.image, d.filter) > math.MaxInt32 {
			return p, status.InvalidArgumentf("The convolution has a dimension of %d, the limit is %d", max(d.image, d.filter), math.MaxInt32)
		}
		if err := a.place(&d, i); err != nil {
			return p, err
		}
		p.dims = append(p.dims, d)
		result = append(result, int64(d.out))
	}
	p.shape = make(tensor.Shape, rank)
	for i, at := range p.out {
		p.shape[at] = result[i]
	}
	_, err = p.shape.NumElements()
	return p, err
}

// check returns an error unless the axes are those of a tensor of the given rank, each of them once.
func (a axes) check(rank int) error {
	if len(a) != rank {
		return status.InvalidArgumentf("Spatial dimensions size must be rank - 2. Given rank %d and spatial dimensions size %d", rank, len(a)-2)
	}
	for i, at := range a {
		if at < 0 || at >= int64(rank) {
			return status.InvalidArgumentf("Each dimension number must be in region [0, rank). Given rank %d and dimension number value %d", rank, at)
		}
		if slices.Contains(a[:i], at) {
			return status.InvalidArgumentf("dimension_numbers has dimension %d twice", at)
		}
	}
	return nil
}

func (a *convAttrs) checkGroups(image, filter tensor.Shape) error {
	images, channels, inputs, outputs := image[0], image[1], filter[1], filter[0]
	switch {
	case a.featureGroups <= 0:
		return status.InvalidArgumentf("feature_group_count must be a positive integer, given: %d", a.featureGroups)
	case channels%a.featureGroups != 0:
		return status.InvalidArgumentf("feature_group_count must divide lhs feature dimension size, but %d does not divide %d", a.featureGroups, channels)
	case inputs == 0 || channels%inputs != 0:
		return status.InvalidArgumentf("rhs input feature dimension must divide lhs feature dimension size, but %d does not divide %d", inputs, channels)
	case channels/a.featureGroups != inputs:
		return status.InvalidArgumentf("lhs feature dimension size divided by feature_group_count must equal the rhs input feature dimension size, but %d / %d != %d",
			channels, a.featureGroups, inputs)
	case outputs%a.featureGroups != 0:
		return status.InvalidArgumentf("rhs output dimension size must be a multiple of feature_group_count, but %d is not a multiple of %d", outputs, a.featureGroups)
	case a.batchGroups <= 0:
		return status.InvalidArgumentf("batch_group_count Attr must be a positive integer. Given: %d", a.batchGroups)
	case images%a.batchGroups != 0:
		return status.InvalidArgumentf("batch_group_count must divide lhs batch dimension size, but %d does not divide %d", a.batchGroups, images)
	case outputs%a.batchGroups != 0:
		return status.InvalidArgumentf("rhs output dimension size must be a multiple of batch_group_count, but %d is not a multiple of %d", outputs, a.batchGroups)
	}
	return nil
}

// place computes the padding and the size of the result along dimension i of places.
func (a *convAttrs) place(d *dimension, i int) error {
	image, filter := dilated(d.image, d.holes), dilated(d.filter, d.dilation)
	padding := 0
	switch a.padding {
	case "EXPLICIT":
		d.before = int(a.explicit[2*i])
		padding = d.before + int(a.explicit[2*i+1])
	case "SAME":
		padding = max(0, ((image+d.stride-1)/d.stride-1)*d.stride+filter-image)
		d.before = padding / 2
	}
	d.out = (image + padding - filter + d.stride) / d.stride
	if d.out < 0 {
		return status.InvalidArgumentf("Expected shape dimensions to be non-negative, got %d", d.out)
	}
	return nil
}

// dilated returns the extent of n numbers that lie step apart.
func dilated(n, step int) int {
	if n == 0 {
		return 0
	}
	return (n-1)*step + 1
}
