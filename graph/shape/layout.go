package shape

import "github.com/troupe-run/troupe/graph/tensor"

// layout is the order of the dimensions of images; the batch is always first.
type layout struct {
	rank    int  // rank of the tensor
	spatial int  // the first of the spatial dimensions, which are adjacent
	channel int  // the dimension of the channels
	packed  bool // whether groups of four channels form an additional last dimension
}

// layoutOf reads the attribute data_format, such as NHWC, for a number of spatial dimensions.
func (c *call) layoutOf(spatial int) layout {
	format := "NHWC"
	if c.Has("data_format") {
		format = c.Str("data_format")
	}
	switch format {
	case "NHWC", "NDHWC", "NWC":
		return layout{spatial + 2, 1, spatial + 1, false}
	case "NCHW", "NCDHW", "NCW":
		return layout{spatial + 2, 2, 1, false}
	case "NCHW_VECT_C":
		return layout{spatial + 3, 2, 1, true}
	}
	c.fail("Invalid data format string: %s", format)
	return layout{spatial + 2, 1, spatial + 1, false}
}

// shape returns the shape of images.
func (l layout) shape(batch, channels int64, spatial ...int64) Shape {
	dims := make(tensor.Shape, l.rank)
	dims[0], dims[l.channel] = batch, channels
	copy(dims[l.spatial:], spatial)
	if l.packed {
		dims[l.rank-1] = 4
	}
	return Shape{dims, true}
}

// packedChannels checks that the number of packed channels is supported.
func (c *call) packedChannels(l layout, s Shape) {
	if d := s.at(-1); l.packed && d != 4 && d != 32 {
		c.fail("VECT_C dimension must be 4 or 32, but is %d", d)
	}
}
