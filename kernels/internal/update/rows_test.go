package update_test

import (
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/update"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

// A scatter of a step that has ended computes nothing more, unless it updates a variable: that is then finished.
func TestRowsOfEndedStep(t *testing.T) {
	ended := status.New(status.Cancelled, "enough")
	step := &kernels.Step{Cancellation: &kernels.Cancellation{}}
	step.Cancellation.Cancel(ended)
	ctx := &kernels.Context{Device: kernelstest.NewDevice(t), Step: step}
	for _, op := range []update.Op{update.Set, update.Add} {
		for _, finish := range []bool{false, true} {
			rows, err := tensor.FromValues([]float32{1, 1, 1})
			if err != nil {
				t.Fatal(err)
			}
			updates, err := tensor.FromValues([]float32{5, 5})
			if err != nil {
				t.Fatal(err)
			}
			c, want, code := ctx, float32(1), status.Cancelled
			if finish {
				c, want, code = ctx.Finishing(), map[update.Op]float32{update.Set: 5, update.Add: 6}[op], status.OK
			}
			err = update.Rows(c, op, rows, []int64{0, 2}, 1, updates)
			if got := tensor.Of[float32](rows); status.CodeOf(err) != code || got[0] != want || got[1] != 1 || got[2] != want {
				t.Errorf("op %v, finishing %v: %v, %v", op, finish, got, err)
			}
			rows.Release()
			updates.Release()
		}
	}
}
