package kernels

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
)

// TestFunctionsOfRowsAreThere: what elementwise rows name is in the PTX.
func TestFunctionsOfRowsAreThere(t *testing.T) {
	files, err := filepath.Glob("cuda/ptx/*.ptx")
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
	for _, op := range Ops() {
		for _, row := range registry[op]["GPU"] {
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

// functionOf is the device function of an elementwise row, empty for rows of other kinds.
func functionOf(row *Def, attrs graph.Attrs) string {
	k, err := row.New(&Construction{Node: &graph.Node{Op: row.Op, Attrs: attrs}})
	if err != nil {
		return "" // of another kind, which asks for more of a node
	}
	if k, ok := k.(interface{ Function() string }); ok {
		return k.Function()
	}
	return ""
}

// TestBroadcastParts: parts cover all elements once, find the operands, and keep the limits.
func TestBroadcastParts(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for range 200 {
		dims := make([]int, 1+r.IntN(5))
		strides := [][]int{make([]int, len(dims)), make([]int, len(dims))}
		n := 1
		for d := range dims {
			dims[d] = 1 + r.IntN(6)
			n *= dims[d]
			for o := range strides {
				strides[o][d] = r.IntN(20)
			}
		}
		axes, most := 1+r.IntN(3), 1+r.IntN(40)
		want, got := elementsOf([]int{0, 0}, dims, strides), make([][2]int, n)
		seen := 0
		broadcastParts(dims, strides, axes, most, func(from int, at []int, dims []int, strides [][]int) {
			part := elementsOf(at, dims, strides)
			if len(dims) > axes || len(part) > most {
				t.Fatalf("a part of dimensions %v is beyond %d axes or %d elements", dims, axes, most)
			}
			seen += copy(got[from:], part)
		})
		if seen != n || !slices.Equal(got, want) {
			t.Fatalf("dimensions %v in parts of %d axes and %d elements: %v, want %v", dims, axes, most, got, want)
		}
	}
}

// elementsOf lists where the operands of each element lie.
func elementsOf(at []int, dims []int, strides [][]int) (all [][2]int) {
	w := &walk{dims: dims, strides: strides}
	w.each(0, w.rows(), func(_ int, row []int) {
		for i := range w.inner() {
			all = append(all, [2]int{at[0] + row[0] + i*w.innerStride(0), at[1] + row[1] + i*w.innerStride(1)})
		}
	})
	return all
}

// TestAxesDivide: the numbers that the device divides by give the quotients, up to the greatest index.
func TestAxesDivide(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for k := range 5000 {
		size := 1 + r.IntN(1<<(1+k%30))
		word := appendAxes(make([]uint64, 0, 3*mostAxes), []int{size}, [][]int{{1}})
		magic, shift := word[0]>>32, word[1]&0xffffffff
		for _, i := range []uint64{0, 1, uint64(size) - 1, uint64(size), uint64(size) + 1, mostIndex - 1, mostIndex, 1<<31 - 1, uint64(r.IntN(1 << 31))} {
			i = min(i, 1<<31-1)
			if q := uint64(uint32(i*magic>>32)+uint32(i)) >> shift; q != i/uint64(size) {
				t.Fatalf("%d / %d gives %d", i, size, q)
			}
		}
	}
}

// TestGPUTypesHaveSuffixes: all types of rows have names in the sources.
func TestGPUTypesHaveSuffixes(t *testing.T) {
	for _, d := range castNumbers {
		if suffixes[d] == "" || sizeSuffix(d) == "" {
			t.Errorf("%v has no suffix", d)
		}
	}
	if len(castNumbers) != len(suffixes) || slices.Contains(castNumbers, tensor.String) {
		t.Errorf("%d types are cast, %d have suffixes", len(castNumbers), len(suffixes))
	}
}
