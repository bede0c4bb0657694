package shape

import (
	"math"

	"github.com/troupe-run/troupe/graph/tensor"
)

// The getters of attributes keep an error like all of call's methods.

func (c *call) attrInt(name string) int64 {
	v, err := c.Attrs.Int(name)
	c.check(err)
	return v
}

// attrInt32 is an attribute that TensorFlow reads as an int32.
func (c *call) attrInt32(name string) int {
	v := c.attrInt(name)
	if v < math.MinInt32 || v > math.MaxInt32 {
		c.fail("Attr %s has value %d out of range for an int32", name, v)
		return 0
	}
	return int(v)
}

func (c *call) attrBool(name string) bool {
	v, err := c.Attrs.Bool(name)
	c.check(err)
	return v
}

func (c *call) attrStr(name string) string {
	v, err := c.Attrs.Str(name)
	c.check(err)
	return v
}

func (c *call) attrType(name string) tensor.DType {
	v, err := c.Attrs.Type(name)
	c.check(err)
	return v
}

func (c *call) attrTypes(name string) []tensor.DType {
	v, err := c.Attrs.TypeList(name)
	c.check(err)
	return v
}

func (c *call) attrInts(name string) []int64 {
	v, err := c.Attrs.IntList(name)
	c.check(err)
	return v
}

func (c *call) attrShape(name string) Shape {
	dims, known, err := c.Attrs.Shape(name)
	c.check(err)
	return c.declared(dims, known)
}

// attrShapes is a list of shapes.
func (c *call) attrShapes(name string) []Shape {
	l, err := c.Attrs.List(name)
	c.check(err)
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

// has tells whether the node has an attribute.
func (c *call) has(name string) bool { _, ok := c.Attrs[name]; return ok }
