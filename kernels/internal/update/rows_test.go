package update_test

import (
	"slices"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/update"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

// A long scatter of a step that has ended computes nothing more, unless it updates a variable: that is then finished.
func TestRowsOfEndedStep(t *testing.T) {
	step := &kernels.Step{Cancellation: &kernels.Cancellation{}}
	step.Cancellation.Cancel(status.New(status.Cancelled, "enough"))
	ctx := &kernels.Context{Device: kernelstest.NewDevice(t), Step: step}
	at := slices.Repeat([]int64{0, 2}, 1<<16)
	for _, op := range []update.Op{update.Set, update.Max} {
		for _, finish := range []bool{false, true} {
			rows, updates := kernelstest.F32(kernelstest.S(3), 1, 1, 1), kernelstest.F32(nil, 5)
			scatter := func() error { return update.Rows(ctx, op, rows, at, 1, updates) }
			want, code, run := float32(1), status.Cancelled, scatter
			if finish {
				want, code, run = 5, status.OK, func() error { return ctx.Finish(scatter) }
			}
			err := run()
			if got := tensor.Of[float32](rows); status.CodeOf(err) != code || got[0] != want || got[1] != 1 || got[2] != want {
				t.Errorf("op %v, finishing %v: %v, %v", op, finish, got, err)
			}
			rows.Release()
			updates.Release()
		}
	}
}
