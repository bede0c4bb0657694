package example

import (
	"strings"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// cursor reads a message field by field; s is the unread rest. Its methods return false if the message is malformed.
type cursor struct{ s string }

// varint reads a varint. Bits beyond 64 are dropped.
func (c *cursor) varint() (v uint64, ok bool) {
	s := c.s
	for i := 0; i < len(s) && i < 10; i++ {
		b := s[i]
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			c.s = s[i+1:]
			return v, true
		}
	}
	return 0, false
}

// bytes reads a length and that number of bytes, without copying them.
func (c *cursor) bytes() (b string, ok bool) {
	n, ok := c.varint()
	if !ok || n > uint64(len(c.s)) {
		return "", false
	}
	b, c.s = c.s[:n], c.s[n:]
	return b, true
}

// tag reads a field's number and wire type, in encoded form.
func (c *cursor) tag() (tag uint64, ok bool) {
	if len(c.s) > 0 && c.s[0] < 0x80 {
		tag, c.s = uint64(c.s[0]), c.s[1:]
		return tag, tag>>3 != 0
	}
	tag, ok = c.varint()
	return tag, ok && tag>>3 != 0 && tag>>3 <= uint64(protowire.MaxValidNumber)
}

// skip skips a field.
func (c *cursor) skip(tag uint64) bool {
	n := protowire.ConsumeFieldValue(protowire.Number(tag>>3), protowire.Type(tag&7), unsafe.Slice(unsafe.StringData(c.s), len(c.s)))
	if n < 0 {
		return false
	}
	c.s = c.s[n:]
	return true
}

// skipLoosely is skip for top-level fields: a field that exceeds the message ends it, as in TensorFlow.
func (c *cursor) skipLoosely(tag uint64) bool {
	if protowire.Type(tag&7) != protowire.BytesType {
		return c.skip(tag)
	}
	n, ok := c.varint()
	c.s = c.s[min(n, uint64(len(c.s))):]
	return ok
}

// delimited returns the tag of a length-delimited field.
func delimited(number uint64) uint64 { return number<<3 | uint64(protowire.BytesType) }

// next skips to the length-delimited field with tag want and returns its content. done is true if there are no more such fields.
func (c *cursor) next(want uint64) (content string, done, ok bool) {
	for len(c.s) > 0 {
		tag, ok := c.tag()
		if !ok {
			return "", false, false
		}
		if tag == want {
			content, ok = c.bytes()
			return content, false, ok
		}
		if !c.skip(tag) {
			return "", false, false
		}
	}
	return "", true, true
}

// entries calls visit with the key and value of each entry of a message that contains only a map, such as Features and FeatureLists. It
// returns false for a malformed message.
func entries(message string, visit func(key, value string)) bool {
	c := cursor{message}
	for {
		content, done, ok := c.next(delimited(1))
		if !ok || done {
			return ok
		}
		key, value, ok := entry(content)
		if !ok {
			return false
		}
		visit(key, value)
	}
}

func entry(content string) (key, value string, ok bool) {
	for c := (cursor{content}); len(c.s) > 0; {
		tag, ok := c.tag()
		switch {
		case !ok:
			return "", "", false
		case tag == delimited(1):
			key, ok = c.bytes()
		case tag == delimited(2):
			value, ok = c.bytes()
		default:
			ok = c.skip(tag)
		}
		if !ok {
			return "", "", false
		}
	}
	return key, value, true
}

// own returns part of a message as a string. A small part is copied, so it does not keep the message in memory.
func own(part string, message int) string {
	if 2*len(part) >= message {
		return part
	}
	return strings.Clone(part)
}
