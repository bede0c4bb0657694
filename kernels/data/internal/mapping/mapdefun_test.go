package mapping_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	dt "github.com/troupe-run/troupe/kernels/data/internal/datatest"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

func TestMapDefun(t *testing.T) {
	d := kt.NewDevice(t)
	attrs := kt.Attrs{"f": kt.Func{Name: "tens"}, "Targuments": dt.Int64s, "Tcaptured": []tensor.DType{}, "output_types": dt.Int64s, "output_shapes": []tensor.Shape{{-1}}}
	out, err := d.Try(kt.Op{Type: "MapDefun", Attrs: attrs, Functions: dt.Functions, Step: kt.NewStep()}, kt.I64(kt.S(3), 4, 5, 6))
	if err != nil {
		t.Fatal(err)
	}
	if got := out[0].Tensor; !got.Shape().Equal(kt.S(3, 2)) || !slices.Equal(tensor.Of[int64](got), []int64{40, 41, 50, 51, 60, 61}) {
		t.Errorf("got %v %v", got.Shape(), tensor.Of[int64](got))
	}
	out[0].Release()
	attrs["f"] = kt.Func{Name: "fail"}
	if _, err := d.Try(kt.Op{Type: "MapDefun", Attrs: attrs, Functions: dt.Functions, Step: kt.NewStep()}, kt.I64(kt.S(6), 0, 1, 2, 3, 4, 5)); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("got %v", err)
	}
	if _, err := d.Try(kt.Op{Type: "MapDefun", Attrs: attrs, Functions: dt.Functions, Step: kt.NewStep()}, dt.Int(0)); err == nil || !strings.Contains(err.Error(), "rank") {
		t.Errorf("got %v", err)
	}
}
