package shape

import "github.com/troupe-run/troupe/graph/tensor"

// attrShape returns a shape attribute.
func (c *call) attrShape(name string) Shape {
	dims, known, err := c.Attrs.Shape(name)
	c.Fail(err)
	return c.declared(dims, known)
}

// attrShapes returns a list of shapes.
func (c *call) attrShapes(name string) []Shape {
	l := c.List(name)
	out := make([]Shape, 0, len(l.GetShape()))
	for _, p := range l.GetShape() {
		dims, known := tensor.ShapeFromProto(p)
		out = append(out, c.declared(dims, known))
	}
	return out
}

func (c *call) declared(dims tensor.Shape, known bool) Shape {
	if len(dims) > tensor.MaxRank {
		return c.unknownOf(int64(len(dims)))
	}
	for i, d := range dims {
		if d < -1 {
			c.fail("Shape %v has dimensions with values below -1 (where -1 means unknown)", dims)
			dims[i] = -1
		}
	}
	return Shape{dims, known}
}
