package shape

import "strings"

var stringOps = []row{
	{`AsString StaticRegexFullMatch StaticRegexReplace StringLength StringLower StringStrip StringToHashBucket
		StringToHashBucketFast StringToHashBucketStrong StringUpper DecodeBase64 EncodeBase64 StringToNumber DecodeCompressed
		DecodeJSONExample`, unchanged},
	{"Fingerprint", func(c *call) {
		c.scalar(1)
		c.set(0, Of(c.atLeast(c.in(0), 1).at(0), orUnknown(8, c.method())))
	}},
	{"RegexFullMatch", func(c *call) {
		c.scalar(1)
		c.set(0, c.in(0))
	}},
	{"RegexReplace", func(c *call) {
		c.scalar(1)
		c.scalar(2)
		c.set(0, c.in(0))
	}},
	{"StringFormat", func(c *call) {
		placeholder := c.Str("placeholder")
		n := strings.Count(c.Str("template"), placeholder)
		if placeholder == "" {
			n = len(c.Str("template"))
		}
		if n != len(c.In) {
			c.fail("num placeholders in template and num inputs must match: %d vs. %d", n, len(c.In))
		}
		c.set(0, Scalar())
	}},
	{"StringJoin", func(c *call) { c.set(0, c.mergeTensors(len(c.In))) }},
	{"StringNGrams", func(c *call) {
		c.vector(0)
		c.set(0, Of(-1))
		c.set(1, c.vector(1))
	}},
	{"StringSplit StringSplitV2", gives(ranks(1, 0), Of(-1, 2), Of(-1), Of(2))},
	{"Substr", func(c *call) {
		pos, length := c.in(1), c.in(2)
		c.merge(pos, length)
		c.set(0, c.broadcast(c.in(0), pos))
	}},
	{"UnicodeTranscode UnicodeScript", unchanged},
	{"UnicodeDecode UnicodeDecodeWithOffsets", func(c *call) {
		c.set(0, Of(c.add(c.count(c.in(0)), 1)))
		for i := 1; i < len(c.Out); i++ {
			c.set(i, Of(-1))
		}
	}},
	{"UnicodeEncode", func(c *call) {
		c.vector(0)
		c.set(0, Of(c.minus(c.vector(1).at(0), 1)))
	}},
	{"ReduceJoin", reduction},
	{"UnsortedSegmentJoin", unsortedSegment},
}

// method reports whether the method of a fingerprint is known, and checks it. There is only one.
func (c *call) method() bool {
	texts, ok := c.texts(1)
	if ok && len(texts) == 1 && texts[0] != "farmhash64" {
		c.fail("Unsupported method: %s", texts[0])
	}
	return ok
}
