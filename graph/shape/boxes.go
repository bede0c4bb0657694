package shape

// boxOps are the ops on rectangles in images.
var boxOps = []row{
	{"NonMaxSuppression", selectedBoxes(3)},
	{"NonMaxSuppressionV2", selectedBoxes(4)},
	{"NonMaxSuppressionV3", selectedBoxes(5)},
	{"NonMaxSuppressionV4", func(c *call) {
		selectedBoxes(5)(c)
		c.padBoxes(0)
		c.set(1, Scalar())
	}},
	{"NonMaxSuppressionV5", func(c *call) {
		selectedBoxes(6)(c)
		c.set(1, Of(-1))
		c.padBoxes(0)
		c.padBoxes(1)
		c.set(2, Scalar())
	}},
	{"NonMaxSuppressionWithOverlaps", func(c *call) {
		overlaps, scores := c.matrix(0), c.vector(1)
		c.scalar(2)
		c.scalar(3)
		c.scalar(4)
		c.equal(overlaps.at(0), scores.at(0))
		c.equal(overlaps.at(0), overlaps.at(1))
		c.set(0, Of(-1))
	}},
	{"CombinedNonMaxSuppression", combinedBoxes},
	{"DrawBoundingBoxes", func(c *call) {
		images, boxes := c.is(c.in(0), 4), c.is(c.in(1), 3)
		if depth := images.at(3); depth >= 0 && depth != 1 && depth != 3 && depth != 4 {
			c.fail("Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA)")
		}
		c.size(boxes.at(2), 4)
		c.set(0, c.in(0))
	}},
	{"DrawBoundingBoxesV2", unchangedFrom(3)},
	{"SampleDistortedBoundingBox", sampledBox(2)},
	{"SampleDistortedBoundingBoxV2", sampledBox(3)},
	{"StatelessSampleDistortedBoundingBox", func(c *call) {
		sampledBox(3)(c)
		c.size(c.vector(3).at(0), 2)
	}},
	{"CropAndResize", func(c *call) {
		in, boxes, at := c.is(c.in(0), 4), c.matrix(1), c.vector(2)
		n := c.equal(boxes.at(0), at.at(0))
		c.size(boxes.at(1), 4)
		c.sized(n, 3, in.at(3))
	}},
	{"CropAndResizeGradImage", func(c *call) { c.set(0, c.is(c.sizes(3), 4)) }},
	{"CropAndResizeGradBoxes", func(c *call) { c.set(0, c.in(2)) }},
}

// selectedBoxes is the rule of ops that select boxes, with the given number of inputs.
func selectedBoxes(inputs int) func(*call) {
	return func(c *call) {
		boxes, scores := c.matrix(0), c.vector(1)
		for i := 2; i < inputs; i++ {
			c.scalar(i)
		}
		c.equal(boxes.at(0), scores.at(0))
		c.size(boxes.at(1), 4)
		c.set(0, Of(-1))
	}
}

// padBoxes sets the length of output i to the value of input 2, if its boxes are padded.
func (c *call) padBoxes(i int) {
	if c.Bool("pad_to_max_output_size") {
		c.set(i, Of(c.dimOf(2)))
	}
}

// sampledBox is the rule of SampleDistortedBoundingBox. With three or more inputs, the third is the fraction of a box that must be
// covered.
func sampledBox(inputs int) func(*call) {
	return func(c *call) {
		image, boxes := c.vector(0), c.is(c.in(1), 3)
		if inputs > 2 {
			c.scalar(2)
		}
		c.size(image.at(0), 3)
		c.size(boxes.at(2), 4)
		c.set(0, Of(3))
		c.set(1, Of(3))
		c.set(2, Of(1, 1, 4))
	}
}

func combinedBoxes(c *call) {
	boxes, scores := c.is(c.in(0), 4), c.is(c.in(1), 3)
	for i := 2; i < 6; i++ {
		c.scalar(i)
	}
	c.equal(boxes.at(0), scores.at(0))
	c.equal(boxes.at(1), scores.at(1))
	c.size(boxes.at(3), 4)
	sets, classes := boxes.at(2), scores.at(2)
	if sets >= 0 && classes >= 0 && sets != 1 && sets != classes {
		c.fail("third dimension of boxes must be either 1 or equal to the third dimension of scores")
		return
	}
	total, perClass := c.dimOf(3), c.dimOf(2)
	if total == 0 {
		c.fail("max_total_size should be > 0 ")
		return
	}
	if c.Bool("pad_per_class") {
		if perClass == 0 {
			c.fail("max_output_size_per_class must be > 0 if pad_per_class is set to true ")
			return
		}
		switch {
		case perClass < 0 || classes < 0:
			total = -1
		case classes == 0 || perClass <= total/classes:
			total = min(total, perClass*classes)
		}
	}
	c.set(0, Of(boxes.at(0), total, 4))
	c.set(1, Of(boxes.at(0), total))
	c.set(2, Of(boxes.at(0), total))
	c.set(3, Of(boxes.at(0)))
}
