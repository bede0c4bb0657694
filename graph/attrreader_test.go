package graph

import (
	"errors"
	"slices"
	"testing"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph/status"
)

func TestAttrReader(t *testing.T) {
	attrs := Attrs{
		"n":    {Value: &attrpb.AttrValue_I{I: -7}},
		"big":  {Value: &attrpb.AttrValue_I{I: 1 << 31}},
		"s":    {Value: &attrpb.AttrValue_S{S: []byte("text")}},
		"list": {Value: &attrpb.AttrValue_List{List: &attrpb.AttrValue_ListValue{S: [][]byte{[]byte("a"), []byte("b")}}}},
	}
	for name, c := range map[string]struct {
		read func(r *AttrReader)
		want string // the error's message; empty for none
	}{
		"no error": {read: func(r *AttrReader) {
			if n, m, s, l := r.Int("n"), r.Int32("n"), r.Str("s"), r.StrList("list"); n != -7 || m != -7 || s != "text" || !slices.Equal(l, []string{"a", "b"}) {
				t.Errorf("read %d, %d, %q and %q", n, m, s, l)
			}
			if !r.Has("big") || r.Has("none") {
				t.Error("Has is wrong")
			}
			r.Fail(nil)
		}},
		"a missing attribute, then another type": {read: func(r *AttrReader) {
			if r.Bool("none") || r.Int("s") != 0 {
				t.Error("attributes that cannot be read are not zero")
			}
		}, want: "No attr named 'none' in NodeDef"},
		"another type, then an error of the caller": {read: func(r *AttrReader) {
			r.Float("n")
			r.Fail(errors.New("later"))
		}, want: "Attr 'n' is not of kind float"},
		"texts of an attribute that is no list": {read: func(r *AttrReader) {
			if r.StrList("n") != nil {
				t.Error("an attribute that is no list has texts")
			}
		}, want: "Attr 'n' is not of kind list"},
		"an error of the caller, then a missing attribute": {read: func(r *AttrReader) {
			r.Failf("%d is too small", r.Int("n"))
			r.Type("none")
		}, want: "-7 is too small"},
		"a large number": {read: func(r *AttrReader) {
			if r.Int32("big") != 0 {
				t.Error("a number out of range is not zero")
			}
		}, want: "Attr big has value 2147483648 out of range for an int32"},
	} {
		r := attrs.Reader()
		c.read(&r)
		switch err := r.Err(); {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (status.CodeOf(err) != status.InvalidArgument || status.From(err).Message != c.want):
			t.Errorf("%s: %v", name, err)
		}
	}
}
