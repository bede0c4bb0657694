package accumulator

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
)

// TestRestoreOfASourceThatFails restores an accumulator from a source that fails after its entry, as when the task that sends it is lost: the memory
// of the sum is free again, which the fixture checks.
func TestRestoreOfASourceThatFails(t *testing.T) {
	f := newFixture(t)
	a := NewDense(f.options(false, 64))
	defer a.Close()
	if err := a.Apply(nil, 0, f.tensor(tensor.Shape{64}, make([]float64, 64)...)); err != nil {
		t.Fatal(err)
	}
	description, err := a.About()
	if err != nil {
		t.Fatal(err)
	}
	image, err := durable.Take(a.State)
	if err != nil {
		t.Fatal(err)
	}
	var sent bytes.Buffer
	if err := image.Send(1<<20, func(piece []byte) error {
		sent.Write(piece)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	lost := status.New(status.Unavailable, "the task is lost")
	if _, err := Restore(durable.Received(io.MultiReader(&sent, iotest.ErrReader(lost))), description, f.pool, func(tensor.DType) Arithmetic { return arithmetic }); err == nil {
		t.Error("an accumulator was restored from a part of its state")
	}
}
