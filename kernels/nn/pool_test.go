package nn

import (
	"testing"

	"github.com/troupe-run/troupe/graph/status"
)

// TestWindowsAreCheckedInOrder checks which error an op returns for a window without elements that moves over the batch: the same as
// TensorFlow's op.
func TestWindowsAreCheckedInOrder(t *testing.T) {
	one := []int64{1, 1, 1, 1}
	for op, want := range map[string]status.Code{
		"MaxPool": status.InvalidArgument, "MaxPoolV2": status.InvalidArgument, "MaxPoolWithArgmax": status.InvalidArgument, "MaxPoolGradWithArgmax": status.InvalidArgument,
		"QuantizedMaxPool": status.InvalidArgument, "AvgPool": status.Unimplemented, "AvgPoolGrad": status.Unimplemented, "QuantizedAvgPool": status.Unimplemented,
		"MaxPoolGrad": status.Unimplemented, "MaxPoolGradV2": status.Unimplemented, "MaxPoolGradGrad": status.Unimplemented, "MaxPoolGradGradV2": status.Unimplemented,
	} {
		if got := status.CodeOf(checkWindow(op, []int64{0, 1, 1, 1}, one, 4)); got != want {
			t.Errorf("%s of a window without elements over the batch: %v, not %v", op, got, want)
		}
		if got := status.CodeOf(checkWindow(op, []int64{2, 1, 1, 1}, one, 4)); got != status.Unimplemented {
			t.Errorf("%s over the batch: %v", op, got)
		}
		if err := checkWindow(op, one, one, 4); err != nil {
			t.Errorf("%s: %v", op, err)
		}
		if got := status.CodeOf(checkWindow(op, one[1:], one, 4)); got != status.InvalidArgument {
			t.Errorf("%s with three sizes: %v", op, got)
		}
	}
}
