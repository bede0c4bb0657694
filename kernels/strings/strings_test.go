package strings_test

import (
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
	_ "github.com/troupe-run/troupe/kernels/all"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

func TestStringOpsLikeTensorFlow(t *testing.T) {
	kt.LikeTensorFlow(t, "testdata/stringops.jsonl.gz", func(c *kt.Case) bool {
		// Errors in patterns have Go's texts.
		c.Err, _, _ = strings.Cut(c.Err, ", error:")
		return true
	})
}

func TestAsStringPadsLikeC(t *testing.T) {
	const text = "é\xff\x00" // four bytes
	of := func(name, want string, in *tensor.Tensor, attrs kt.Attrs) kt.Case {
		return kt.Case{Name: name, Op: "AsString", Attrs: attrs, Inputs: []any{in}, Want: []*tensor.Tensor{kt.Str(nil, want)}}
	}
	kt.Check(t,
		of("a string is padded by its bytes", "  é\xff\x00", kt.Str(nil, text), kt.Attrs{"width": 6}),
		of("padding at the end", "é\xff\x00  ", kt.Str(nil, text), kt.Attrs{"width": 6, "fill": "-"}),
		of("zeros do not pad strings", "  é\xff\x00", kt.Str(nil, text), kt.Attrs{"width": 6, "fill": "0"}),
		of("a precision cuts bytes", " é", kt.Str(nil, text), kt.Attrs{"width": 3, "precision": 2}),
		of("a width without padding", "é\xff\x00", kt.Str(nil, text), kt.Attrs{"width": 1}),
		of("no width", text, kt.Str(nil, text), kt.Attrs{}),
		of("no sign before an unsigned number", "  7", kt.Of[uint8](tensor.Uint8, nil, 7), kt.Attrs{"width": 3, "fill": "+"}),
		of("nor a space", "7", kt.Of[uint64](tensor.Uint64, nil, 7), kt.Attrs{"fill": " "}),
		of("a sign before a signed one", " +7", kt.Of[int8](tensor.Int8, nil, 7), kt.Attrs{"width": 3, "fill": "+"}),
	)
}

func TestStringLengthCountsFirstBytes(t *testing.T) {
	kt.Check(t, kt.Case{
		Name: "bytes that are no text", Op: "StringLength", Attrs: kt.Attrs{"unit": "UTF8_CHAR"},
		Inputs: []any{kt.Str(kt.S(4), "é", "\x80\x80a", "\xe3\x81", "\xff\xfe")}, Want: []*tensor.Tensor{kt.I32(kt.S(4), 1, 1, 1, 2)},
	})
}

func TestOnlySpacesOfASCIIAreStripped(t *testing.T) {
	kt.Check(t, kt.Case{
		Op: "StringStrip", Inputs: []any{kt.Str(kt.S(3), " \v\fa \n", "\u00a0a\u2003", "\u0085")}, Want: []*tensor.Tensor{kt.Str(kt.S(3), "a", "\u00a0a\u2003", "\u0085")},
	})
}
