package strings

import (
	"unicode"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// malformed defines how to treat invalid characters.
type malformed struct {
	replacement  rune
	ignore, fail bool
	controls     bool // control characters count as invalid
}

func newMalformed(c *kernels.Construction) (m malformed, err error) {
	a := c.Attrs().Reader()
	policy, replacement := a.Str("errors"), a.Int("replacement_char")
	if err := a.Err(); err != nil {
		return m, err
	}
	switch policy {
	case "replace":
	case "ignore":
		m.ignore = true
	case "strict":
		m.fail = true
	default:
		return m, status.InvalidArgumentf("errors policy must be one of 'strict', 'replace', or 'ignore'")
	}
	if replacement < 0 || replacement > unicode.MaxRune {
		return m, status.InvalidArgumentf("replacement_char out of unicode codepoint range")
	}
	m.replacement = rune(replacement)
	if _, ok := c.Attrs()["replace_control_characters"]; ok {
		m.controls, err = c.Attrs().Bool("replace_control_characters")
	}
	return m, err
}

// refuses reports whether a character is treated as invalid.
func (m *malformed) refuses(r rune, ok bool) bool { return !ok || m.controls && r <= 0x1f }

// inputEncoding returns the constructor of readers for the op's input encoding.
func inputEncoding(c *kernels.Construction) (func() encodingReader, error) {
	name, err := c.Attrs().Str("input_encoding")
	if err != nil {
		return nil, err
	}
	reader := newReader(name)
	if reader == nil {
		return nil, status.InvalidArgumentf("Could not create converter for input encoding: %s", name)
	}
	return reader, nil
}

// outputEncoding returns the writer for the op's output encoding.
func outputEncoding(c *kernels.Construction) (func(text []byte, r rune) []byte, error) {
	name, err := c.Attrs().Str("output_encoding")
	if err != nil {
		return nil, err
	}
	writer := encodingWriters[name]
	if writer == nil {
		return nil, status.InvalidArgumentf("Invalid encoding \"%s\": Should be one of: UTF-8, UTF-16-BE, UTF-32-BE", name)
	}
	return writer, nil
}

var errMalformed = status.InvalidArgumentf("Invalid formatting on input string")

// newUnicodeTranscode returns the kernel that converts strings to another encoding.
func newUnicodeTranscode(c *kernels.Construction) (any, error) {
	reader, err1 := inputEncoding(c)
	writer, err2 := outputEncoding(c)
	m, err3 := newMalformed(c)
	if err := args.FirstError(err3, err2, err1); err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		in := ctx.Input(0)
		out, err := ctx.Allocate(0, tensor.String, in.Shape())
		if err != nil {
			return err
		}
		meter := ctx.Meter()
		defer meter.Done()
		wrong, read := false, reader()
		for i, s := range in.Strings() {
			const most = 4 // bytes of output per byte of input
			if err := meter.TakeMany(2*most, len(s)); err != nil {
				return err
			}
			var text []byte
			for len(s) > 0 {
				r, size, ok := read(s)
				s = s[size:]
				if m.refuses(r, ok) {
					wrong = true
					if m.ignore {
						continue
					}
					r = m.replacement
				}
				text = writer(text, r)
			}
			out.Strings()[i] = string(text)
		}
		if wrong && m.fail {
			return errMalformed
		}
		return nil
	}), nil
}

// newUnicodeDecode returns the kernel for the code points of strings, as rows of a ragged tensor.
func newUnicodeDecode(c *kernels.Construction) (any, error) {
	reader, err1 := inputEncoding(c)
	m, err2 := newMalformed(c)
	splits, err3 := c.Attrs().Type("Tsplits")
	if err := args.FirstError(err2, err1, err3); err != nil {
		return nil, err
	}
	return &unicodeDecode{reader, m, splits}, nil
}

type unicodeDecode struct {
	reader func() encodingReader
	malformed
	splits tensor.DType
}

func (k *unicodeDecode) Compute(ctx *kernels.Context) error {
	in := ctx.Input(0)
	meter := ctx.Meter()
	defer meter.Done()
	splits := make([]int64, 1, in.Len()+1)
	var characters []int32
	var starts []int64
	read := k.reader()
	for _, s := range in.Strings() {
		const each = 2*(4+8) + 8 // for growing lists
		if err := meter.TakeMany(len(s)+1, each); err != nil {
			return err
		}
		for at := 0; at < len(s); {
			r, size, ok := read(s[at:])
			start := at
			at += size
			if !ok && k.fail {
				return errMalformed
			}
			if k.refuses(r, ok) {
				if k.ignore {
					continue
				}
				r = k.replacement
			}
			characters, starts = append(characters, r), append(starts, int64(start))
		}
		splits = append(splits, int64(len(characters)))
	}
	out, err := ctx.Allocate(1, tensor.Int32, tensor.Shape{int64(len(characters))})
	if err != nil {
		return err
	}
	copy(tensor.Of[int32](out), characters)
	if err := args.OutputInts(ctx, 0, k.splits, splits); err != nil || len(ctx.Outputs) < 3 {
		return err
	}
	return args.OutputInts(ctx, 2, tensor.Int64, starts)
}

// newUnicodeEncode returns the kernel that encodes rows of code points as strings.
func newUnicodeEncode(c *kernels.Construction) (any, error) {
	writer, err1 := outputEncoding(c)
	m, err2 := newMalformed(c)
	return kernels.Func(func(ctx *kernels.Context) error { return unicodeEncode(ctx, writer, &m) }), args.FirstError(err1, err2)
}

func unicodeEncode(ctx *kernels.Context, writer func(text []byte, r rune) []byte, m *malformed) error {
	in, splits := ctx.Input(0), ctx.Input(1)
	if in.Rank() != 1 || splits.Rank() != 1 {
		return status.InvalidArgumentf("Both the input_tensor and input_splits should be of rank 1. ")
	}
	ends, err := args.ReadIndices(splits)
	if err != nil {
		return err
	}
	defer ends.Free()
	n := len(ends.V)
	switch {
	case n == 0:
		return status.InvalidArgumentf("Input_splits should contain elements, but given input_values has 0 elements")
	case ends.V[0] != 0:
		return status.InvalidArgumentf("First value in input_splits must be zero.")
	case ends.V[n-1] != int64(in.Len()):
		return status.InvalidArgumentf("Last value in input_splits must be equal to length of input_tensor.")
	}
	out, err := ctx.Allocate(0, tensor.String, tensor.Shape{int64(n - 1)})
	if err != nil {
		return err
	}
	meter := ctx.Meter()
	defer meter.Done()
	if err := meter.TakeMany(in.Len(), 8); err != nil {
		return err
	}
	characters := element.ViewOf[int32](in)
	for i, end := range ends.V[1:] {
		start := ends.V[i]
		if start > end {
			return status.InvalidArgumentf("Values in input_splits must be equal or in ascending order.")
		}
		if end > int64(len(characters)) {
			return status.InvalidArgumentf("Values in input_splits must be less than or equal to input_tensor length.")
		}
		var text []byte
		for _, r := range characters[start:end] {
			if r < 0 || r > unicode.MaxRune || r >= 0xd800 && r <= 0xdfff {
				if m.fail {
					return status.InvalidArgumentf("Code point is out of range for Unicode, or is a surrogate.")
				}
				if m.ignore {
					continue
				}
				r = m.replacement
			}
			text = writer(text, r)
		}
		out.Strings()[i] = string(text)
	}
	return nil
}
