package printing

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// Summary formats a tensor's elements like TensorFlow's Assert and Print: the first limit elements (all if limit is negative), with inner
// dimensions in brackets.
func Summary(t *tensor.Tensor, limit int) string { return summary(t, limit, newRoom()) }

func summary(t *tensor.Tensor, limit int, r *room) string {
	n := t.Len()
	if limit < 0 || limit > n {
		limit = n
	}
	p := printer{element: elementPrinter(t, false, r), limit: limit, regular: printable(t.DType())}
	if t.Rank() == 0 || !p.regular {
		p.flat()
	} else {
		p.dim(t.Shape(), 0)
	}
	if n > limit {
		p.WriteString("...")
	}
	return p.String()
}

// SummaryV2 formats a tensor like tf.print: nested brackets, the first and last ends elements of each dimension (all if ends is negative),
// and strings in quotes.
func SummaryV2(t *tensor.Tensor, ends int) string {
	if ends < 0 || ends > t.Len() {
		ends = t.Len()
	}
	p := printer{element: elementPrinter(t, true, newRoom()), limit: ends, regular: printable(t.DType())}
	switch {
	case t.Rank() == 0 && p.regular:
		p.limit = min(1, ends)
		p.flat()
		if ends < 1 {
			p.WriteString("...")
		}
	case p.regular:
		p.nested(t.Shape(), 0, 0)
	default:
		if t.Rank() > 0 {
			p.WriteByte('[')
		}
		p.flat()
		if ends < t.Len() {
			p.WriteString("...")
		}
		if t.Rank() > 0 {
			p.WriteByte(']')
		}
	}
	return p.String()
}

type printer struct {
	strings.Builder
	element func(i int) string
	limit   int
	next    int
	regular bool
}

func (p *printer) flat() {
	for i := range p.limit {
		if i > 0 {
			p.WriteByte(' ')
		}
		p.WriteString(p.element(i))
	}
}

func (p *printer) dim(shape tensor.Shape, d int) {
	if p.next >= p.limit {
		return
	}
	if d == len(shape)-1 {
		for i := range shape[d] {
			if p.next >= p.limit {
				if d != 0 {
					p.WriteString("...")
				}
				return
			}
			if i > 0 {
				p.WriteByte(' ')
			}
			p.WriteString(p.element(p.next))
			p.next++
		}
		return
	}
	for range shape[d] {
		if p.next >= p.limit {
			return
		}
		p.WriteByte('[')
		p.dim(shape, d+1)
		p.WriteByte(']')
	}
}

func (p *printer) nested(shape tensor.Shape, d, at int) {
	if d == len(shape) {
		p.WriteString(p.element(at))
		return
	}
	per, n := shape[d+1:].Elements(), int(shape[d])
	p.WriteByte('[')
	for i := range min(p.limit, n) {
		if i > 0 {
			p.space(d, len(shape))
		}
		p.nested(shape, d+1, at+i*per)
	}
	if n > 2*p.limit {
		p.space(d, len(shape))
		p.WriteString("...")
	}
	for i := max(p.limit, n-p.limit); i < n; i++ {
		p.space(d, len(shape))
		p.nested(shape, d+1, at+i*per)
	}
	p.WriteByte(']')
}

func (p *printer) space(d, rank int) {
	if d == rank-1 {
		p.WriteByte(' ')
		return
	}
	p.WriteString(strings.Repeat("\n", rank-d-1))
	p.WriteString(strings.Repeat(" ", d+1))
}

// printable reports whether TensorFlow prints elements of the type; others are printed as "?".
func printable(d tensor.DType) bool {
	return !d.IsComplex() && d != tensor.QInt32 && d != tensor.Resource && d != tensor.Variant
}

func elementPrinter(t *tensor.Tensor, quote bool, r *room) func(int) string {
	switch d := t.DType(); d {
	case tensor.Float32:
		v := tensor.Of[float32](t)
		return func(i int) string { return printFloat32(v[i]) }
	case tensor.Float64:
		v := tensor.Of[float64](t)
		return func(i int) string { return printFloat64(v[i]) }
	case tensor.Float16:
		v := tensor.Of[element.Float16](t)
		return func(i int) string { return printFloat32(v[i].Float()) }
	case tensor.BFloat16:
		v := tensor.Of[element.BFloat16](t)
		return func(i int) string { return printFloat32(v[i].Float()) }
	case tensor.Float8E5M2:
		v := tensor.Of[uint8](t)
		return func(i int) string { return printFloat32(element.Float16(uint16(v[i]) << 8).Float()) }
	case tensor.Float8E4M3FN:
		v := tensor.Of[uint8](t)
		return func(i int) string { return printFloat32(float8E4M3ToFloat32(v[i])) }
	case tensor.String:
		v := t.Strings()
		return func(i int) string {
			if quote {
				return `"` + escape(v[i]) + `"`
			}
			return escape(v[i])
		}
	case tensor.Resource:
		v := t.Handles()
		return func(i int) string {
			return fmt.Sprintf("<ResourceHandle(name=%q, device=%q, container=%q, type=%q)>", v[i].Name, v[i].Device, v[i].Container, v[i].Type)
		}
	case tensor.Variant:
		v := t.Variants()
		return func(i int) string { return "<" + variantValue(v[i], r) + ">" }
	case tensor.Bool, tensor.Uint8, tensor.QUint8, tensor.Uint4:
		return unsignedPrinter(tensor.Of[uint8](t))
	case tensor.Uint16, tensor.QUint16:
		return unsignedPrinter(tensor.Of[uint16](t))
	case tensor.Uint32:
		return unsignedPrinter(tensor.Of[uint32](t))
	case tensor.Uint64:
		return unsignedPrinter(tensor.Of[uint64](t))
	case tensor.Int8, tensor.QInt8, tensor.Int4:
		return signedPrinter(tensor.Of[int8](t))
	case tensor.Int16, tensor.QInt16:
		return signedPrinter(tensor.Of[int16](t))
	case tensor.Int32:
		return signedPrinter(tensor.Of[int32](t))
	case tensor.Int64:
		return signedPrinter(tensor.Of[int64](t))
	}
	return func(int) string { return "?" }
}

func signedPrinter[T int8 | int16 | int32 | int64](v []T) func(int) string {
	return func(i int) string { return strconv.FormatInt(int64(v[i]), 10) }
}

func unsignedPrinter[T uint8 | uint16 | uint32 | uint64](v []T) func(int) string {
	return func(i int) string { return strconv.FormatUint(uint64(v[i]), 10) }
}

// printFloat32 uses six digits, or nine if six do not round-trip.
func printFloat32(v float32) string {
	if s, ok := printSpecial(float64(v)); ok {
		return s
	}
	s := strconv.FormatFloat(float64(v), 'g', 6, 64)
	if back, err := strconv.ParseFloat(s, 32); err == nil && float32(back) == v {
		return s
	}
	return strconv.FormatFloat(float64(v), 'g', 9, 64)
}

// printFloat64 uses fifteen digits, or seventeen if fifteen do not round-trip.
func printFloat64(v float64) string {
	if s, ok := printSpecial(v); ok {
		return s
	}
	s := strconv.FormatFloat(v, 'g', 15, 64)
	if back, err := strconv.ParseFloat(s, 64); err == nil && back == v {
		return s
	}
	return strconv.FormatFloat(v, 'g', 17, 64)
}

func printSpecial(v float64) (string, bool) {
	switch {
	case math.IsNaN(v):
		return "nan", true
	case math.IsInf(v, 1):
		return "inf", true
	case math.IsInf(v, -1):
		return "-inf", true
	}
	return "", false
}

func float8E4M3ToFloat32(b uint8) float32 {
	exp, frac, sign := int(b>>3&15), int(b&7), float64(1)
	if b>>7 == 1 {
		sign = -1
	}
	switch {
	case exp == 15 && frac == 7:
		return float32(math.NaN())
	case exp == 0:
		return float32(sign * math.Ldexp(float64(frac), -9))
	}
	return float32(sign * math.Ldexp(float64(8+frac), exp-10))
}

// escape escapes control characters and quotes as in C, and leaves UTF-8 unchanged.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '"' || c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20 || c == 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
