package tensor

import (
	"reflect"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
)

// roundTrip converts a value to a tensor and back.
func roundTrip[V any](t *testing.T, value V, dtype DType, shape Shape) {
	t.Helper()
	v, err := From(value)
	if err != nil {
		t.Errorf("%T: %v", value, err)
		return
	}
	defer v.Release()
	if v.DType() != dtype || !v.Shape().Equal(shape) {
		t.Errorf("%T became a tensor of type %v and shape %v", value, v.DType(), v.Shape())
	}
	back, err := To[V](v)
	if err != nil || !reflect.DeepEqual(back, value) {
		t.Errorf("%T: %v became %v, %v", value, value, back, err)
	}
}

func TestValuesBecomeTensors(t *testing.T) {
	roundTrip(t, float32(1.5), Float32, nil)
	roundTrip(t, []float64{1, 2, 3}, Float64, Shape{3})
	roundTrip(t, [][]int32{{1, 2, 3}, {4, 5, 6}}, Int32, Shape{2, 3})
	roundTrip(t, [][][]int64{{{1}, {2}}, {{3}, {4}}, {{5}, {6}}}, Int64, Shape{3, 2, 1})
	roundTrip(t, [][][][]uint8{{{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}}, Uint8, Shape{1, 2, 2, 2})
	roundTrip(t, "one", String, nil)
	roundTrip(t, [][]string{{"a"}, {"b"}}, String, Shape{2, 1})
	roundTrip(t, []bool{true, false}, Bool, Shape{2})
	roundTrip(t, []int8{-1}, Int8, Shape{1})
	roundTrip(t, []int16{-1}, Int16, Shape{1})
	roundTrip(t, []uint16{1}, Uint16, Shape{1})
	roundTrip(t, []uint32{1}, Uint32, Shape{1})
	roundTrip(t, uint64(1), Uint64, nil)
	roundTrip(t, []complex64{1 + 2i}, Complex64, Shape{1})
	roundTrip(t, complex128(1+2i), Complex128, nil)
	roundTrip(t, []F16{ToF16(0.5)}, Float16, Shape{1})
	roundTrip(t, []BF16{ToBF16(0.5)}, BFloat16, Shape{1})
	roundTrip(t, []float32{}, Float32, Shape{0})
	roundTrip(t, [][]float32{}, Float32, Shape{0, 0})
	roundTrip(t, [][][]float32{{}, {}}, Float32, Shape{2, 0, 0})
}

func TestValuesThatAreNoTensors(t *testing.T) {
	for want, value := range map[string]any{
		"[1] has 1 elements, where [0] has 2":             [][]float32{{1, 2}, {3}},
		"[1][0] has 0 elements, where [0][0] has 1":       [][][]string{{{"a"}, {"b"}}, {{}, {"c"}}},
		"[2] has 1 elements, where [0] has 0":             [][][]bool{{}, {}, {{true}}},
		"[0][1][1] has 3 elements, where [0][0][0] has 2": [][][][]int64{{{{1, 2}, {3, 4}}, {{5, 6}, {7, 8, 9}}}},
		"type int: say int32 or int64":                    1,
		"type []int: say int32 or int64":                  []int{1},
		"type struct {}":                                  struct{}{},
		"type <nil>":                                      nil,
	} {
		if v, err := From(value); v != nil || status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%T: %v, %v; want %q", value, v, err, want)
		}
	}
}

func TestTensorsThatHaveNoSuchValue(t *testing.T) {
	v, err := From([]float32{1})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	_, rank := To[float32](v)
	_, dtype := To[[]float64](v)
	_, text := To[[]string](v)
	_, kind := To[[]int](v)
	_, elems := Values[int32](v)
	for i, err := range []error{rank, dtype, text, kind, elems} {
		if status.CodeOf(err) != status.InvalidArgument {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func TestWrappedValues(t *testing.T) {
	values, released := []float32{1, 2, 3, 4, 5, 6}, 0
	v, err := Wrap(values, func() { released++ }, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	seen, err := Values[float32](v)
	if err != nil || &seen[0] != &values[0] || !v.Shape().Equal(Shape{2, 3}) {
		t.Errorf("%v of shape %v, %v", seen, v.Shape(), err)
	}
	row := v.Rows(1, 2)
	v.Release()
	if released != 0 {
		t.Error("the memory was given back while a tensor was over it")
	}
	row.Release()
	if released != 1 {
		t.Errorf("the memory was given back %d times", released)
	}
	if _, err := Wrap(values, nil, 4); status.CodeOf(err) != status.InvalidArgument {
		t.Error(err)
	}
	text, err := Wrap([]string{"a", "b"}, func() { released++ })
	if err != nil {
		t.Fatal(err)
	}
	text.Release()
	if released != 2 {
		t.Errorf("the strings were given back %d times", released-1)
	}
}

func TestWrappingTakesNoMemoryOfTheValues(t *testing.T) {
	values := make([]float32, 16<<20)
	if n := testing.AllocsPerRun(10, func() {
		v, err := Wrap(values, nil, 4<<10, 4<<10)
		if err != nil {
			t.Fatal(err)
		}
		v.Release()
	}); n > 2 {
		t.Errorf("%v allocations", n)
	}
}

func TestHalvesRoundToEven(t *testing.T) {
	for f, want := range map[float32]F16{1: 0x3c00, 65504: 0x7bff, 65520: 0x7c00, -2: 0xc000, 1.0 / (1 << 24): 1, 1 + 1.0/2048: 0x3c00} {
		if got := ToF16(f); got != want {
			t.Errorf("ToF16(%v) = %#x, want %#x", f, got, want)
		}
	}
	for f, want := range map[float32]BF16{1: 0x3f80, -2: 0xc000, 1 + 1.0/256: 0x3f80, 1 + 3.0/256: 0x3f82} {
		if got := ToBF16(f); got != want || got.Float32() != ToBF16(got.Float32()).Float32() {
			t.Errorf("ToBF16(%v) = %#x, want %#x", f, got, want)
		}
	}
}
