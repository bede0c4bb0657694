package shape

import "github.com/troupe-run/troupe/graph/tensor"

// stride describes a StridedSlice in one dimension of the input.
type stride struct {
	begin, end, by       int64
	toBegin, toEnd, drop bool // the masks: from the start, to the end, a single element without a dimension
}

// newAxis marks a dimension of a StridedSlice's output that does not come from the input.
const newAxis = -1

// stridedSlice is the rule of x[a:b:c, ...]. The documentation of tf.strided_slice explains its masks.
func stridedSlice(c *call) {
	in := c.in(0)
	n := c.merge(c.merge(c.vector(1), c.vector(2)), c.vector(3)).at(0)
	by, ok := c.ints(3)
	if !in.known || n < 0 || !ok {
		return
	}
	begin, hasBegin := c.ints(1)
	end, hasEnd := c.ints(2)
	if hasBegin && len(begin) != len(by) || hasEnd && len(end) != len(by) || len(by) >= 32 {
		c.fail("Expected begin, end, and strides to be 1D equal size tensors of less than 32 elements, but got %d, %d, and %d", len(begin), len(end), len(by))
		return
	}
	if !hasBegin {
		begin = make([]int64, len(by))
	}
	if !hasEnd {
		end = make([]int64, len(by))
	}
	dims, from := c.strides(begin, end, by)
	if c.Err() != nil {
		return
	}
	sizes := make(tensor.Shape, len(dims))
	for i, d := range dims {
		sizes[i] = c.strided(i, in.dims[i], d, hasBegin && hasEnd)
	}
	out := tensor.Shape{}
	for _, i := range from {
		if i == newAxis {
			out = append(out, 1)
		} else {
			out = append(out, sizes[i])
		}
	}
	c.set(0, Shape{out, true})
	c.setHandles(0, c.handles(0))
	if v := c.sizes(0); v.known && len(dims) == 1 && len(from) <= 1 && hasBegin && hasEnd && c.Err() == nil {
		c.setValue(0, dims[0].pick(v))
	}
}

// strides maps the specification to the dimensions of the input, and returns for each dimension of the output the input dimension that it
// comes from.
func (c *call) strides(begin, end, by []int64) (dims []stride, from []int) {
	toBegin, toEnd, drop := c.mask("begin_mask"), c.mask("end_mask"), c.mask("shrink_axis_mask")
	ellipsis, added := c.mask("ellipsis_mask"), c.mask("new_axis_mask")
	if ellipsis&(ellipsis-1) != 0 {
		c.fail("Multiple ellipses in slice spec not allowed")
		return nil, nil
	}
	n, newAfter, seen := len(by), 0, false
	for i := range n {
		if seen && added>>i&1 != 0 {
			newAfter++
		}
		seen = seen || ellipsis>>i&1 != 0
	}
	if !seen {
		ellipsis |= 1 << n // dimensions that are not specified are taken whole
		n++
	}
	rank := len(c.in(0).dims)
	dims = make([]stride, rank)
	at := 0
	for i := range n {
		switch {
		case ellipsis>>i&1 != 0:
			for ; at < min(rank-(n-i)+1+newAfter, rank); at++ {
				dims[at] = stride{by: 1, toBegin: true, toEnd: true}
				from = append(from, at)
			}
		case added>>i&1 != 0:
			from = append(from, newAxis)
		case at == rank && rank == 0:
			c.fail("Attempting to slice scalar input.")
			return nil, nil
		case at == rank:
			c.fail("Index out of range using input dim %d; input has only %d dims", at, rank)
			return nil, nil
		default:
			dims[at] = stride{begin[i], end[i], by[i], toBegin>>i&1 != 0, toEnd>>i&1 != 0, drop>>i&1 != 0}
			if !dims[at].drop {
				from = append(from, at)
			}
			at++
		}
	}
	return dims, from
}

func (c *call) mask(attr string) uint64 { return uint64(uint32(c.Int(attr))) }

// strided returns the size of a slice of a dimension of size d, or -1 if it is unknown.
func (c *call) strided(i int, d int64, s stride, bounds bool) int64 {
	switch {
	case s.by == 0:
		c.fail("strides[%d] must be non-zero", i)
		return -1
	case d < 0 && s.drop:
		return 1
	case d < 0:
		return -1
	case s.drop && s.by < 0:
		c.fail("only stride 1 allowed on non-range indexing.")
		return -1
	}
	var length int64
	switch {
	case bounds && s.drop:
		x := s.begin
		if x < 0 {
			x += d
		}
		if x < 0 || x >= d {
			c.fail("slice index %d of dimension %d out of bounds.", x, i)
		}
		return 1
	case bounds:
		b, e := s.bounds(d)
		length = e - b
	case s.drop:
		return 1
	case s.toBegin && s.toEnd && s.by < 0:
		length = -d
	case s.toBegin && s.toEnd:
		length = d
	default:
		return -1
	}
	if length == 0 || (length < 0) != (s.by < 0) {
		return 0
	}
	size := length / s.by
	if length%s.by != 0 {
		size++
	}
	return size
}

// bounds returns the index of the first element taken from a dimension of size d, and the end, which is not taken.
func (s stride) bounds(d int64) (begin, end int64) {
	low, high := int64(0), d
	if s.by < 0 {
		low, high = -1, d-1
	}
	clamp := func(x int64) int64 {
		if x < 0 {
			x += d
		}
		return max(low, min(x, high))
	}
	begin, end = clamp(s.begin), clamp(s.end)
	first, last := low, high
	if s.by < 0 {
		first, last = high, low
	}
	if s.toBegin {
		begin = first
	}
	if s.toEnd {
		end = last
	}
	return begin, end
}

// pick slices a vector of sizes.
func (s stride) pick(v Shape) Shape {
	d := int64(len(v.dims))
	if s.by == 0 {
		return Shape{}
	}
	if s.drop {
		if s.begin < 0 {
			s.begin += d
		}
		return Of(v.at(int(s.begin)))
	}
	dims := tensor.Shape{}
	b, e := s.bounds(d)
	for ; s.by > 0 && b < e || s.by < 0 && b > e; b += s.by {
		if dims = append(dims, v.dims[b]); s.by > d || s.by < -d {
			break
		}
	}
	return Shape{dims, true}
}
