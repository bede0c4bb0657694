package all_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/kernels"
)

// TestFunctionsOfRowsAreThere checks that the functions of elementwise rows are in the PTX.
func TestFunctionsOfRowsAreThere(t *testing.T) {
	files, err := filepath.Glob("../cuda/ptx/*.ptx")
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^\.visible \.entry (\w+)\(`).FindAllSubmatch(text, -1) {
			have[string(m[1])] = true
		}
	}
	attrs := graph.Attrs{
		"alpha": {Value: &attrpb.AttrValue_F{F: 0.2}}, "Truncate": {Value: &attrpb.AttrValue_B{}}, "incompatible_shape_error": {Value: &attrpb.AttrValue_B{B: true}},
		"data_format": {Value: &attrpb.AttrValue_S{S: []byte("NHWC")}}, "seed": {Value: &attrpb.AttrValue_I{I: 1}}, "seed2": {Value: &attrpb.AttrValue_I{I: 2}},
	}
	named := 0
	for _, op := range kernels.Ops() {
		for _, row := range kernels.Rows(op, "GPU") {
			name := functionOf(row, attrs)
			if name == "" {
				continue
			}
			if named++; !have[name] {
				t.Errorf("%s %v runs %s, which is not in the PTX", op, row.Types, name)
			}
		}
	}
	if named < 500 {
		t.Errorf("only %d names of functions were found", named)
	}
	for _, suffix := range []string{"u8", "u16", "u32", "u64", "u128"} {
		if !have["fill_"+suffix] {
			t.Errorf("fill_%s is not in the PTX", suffix)
		}
	}
}

// functionOf returns the device function of an elementwise row, or "" for rows of other kinds.
func functionOf(row *kernels.Def, attrs graph.Attrs) string {
	k, err := row.New(&kernels.Construction{Node: &graph.Node{Op: row.Op, Attrs: attrs}, Device: &twoCores{}})
	if err != nil {
		return "" // a row of another kind, which needs more of a node
	}
	if k, ok := k.(interface{ DeviceFunction() string }); ok {
		return k.DeviceFunction()
	}
	return ""
}
