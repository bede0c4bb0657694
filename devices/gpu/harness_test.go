package gpu

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open makes a device on a card. The device is closed when the test ends, and must have released everything by then.
func open(t testing.TB, card *fakeCard, change func(*Options)) *testDevice {
	t.Helper()
	log := make(journal, 100)
	o := Options{Card: card, Name: "/job:test/replica:0/task:0/device:GPU:0", Job: "test", Host: tensor.NewPool("test", 0),
		AllowGrowth: true, Log: slog.New(log), rest: 1}
	if change != nil {
		change(&o)
	}
	d, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
		if s := d.Stats(); s.InUse != 0 || s.PinnedUsed != 0 {
			t.Errorf("%d bytes of the card and %d of pinned memory were not released", s.InUse, s.PinnedUsed)
		}
		if n := o.Host.Stats().InUse; n != 0 {
			t.Errorf("%d bytes of the host's pool were not released", n)
		}
		card.m.mu.Lock()
		defer card.m.mu.Unlock()
		if card.opened == 0 && (len(card.areas) > 0 || len(card.streams) > 0 || card.events != 0 || len(card.pinned) > 0) {
			t.Errorf("left on the card: %d regions, %d streams, %d events, %d chunks", len(card.areas), len(card.streams), card.events, len(card.pinned))
		}
	})
	return &testDevice{d, log}
}

// testDevice is a device with its log.
type testDevice struct {
	*Device
	log journal
}

// Messages of the log.
const (
	startedAnew = "a GPU was started anew: its variables are gone"
	notStarted  = "a GPU could not be started anew"
)

// told waits until the log has a message.
func (d *testDevice) told(t testing.TB, message string) {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		select {
		case m := <-d.log:
			if m == message {
				return
			}
		case <-late:
			t.Fatalf("the log does not tell %q", message)
		}
	}
}

// revive uses a lost device until it is restarted.
func (d *testDevice) revive(t testing.TB) {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		d.Revive()
		select {
		case m := <-d.log:
			if m == startedAnew {
				return
			}
		case <-late:
			t.Fatal("the device is not started anew")
		}
	}
}

// journal is a log of messages.
type journal chan string

func (j journal) Enabled(context.Context, slog.Level) bool { return true }
func (j journal) WithAttrs([]slog.Attr) slog.Handler       { return j }
func (j journal) WithGroup(string) slog.Handler            { return j }

func (j journal) Handle(_ context.Context, r slog.Record) error {
	j <- r.Message
	return nil
}

// inStep returns an execution of a node in a step.
func inStep(step *kernels.Step, node string) *kernels.Context {
	return &kernels.Context{Node: &graph.Node{Name: node, Op: "Test"}, Step: step}
}

func newStep() *kernels.Step { return &kernels.Step{ID: 1, Cancellation: &kernels.Cancellation{}} }

// settle waits for a step's work.
func settle(t testing.TB, d *testDevice, step *kernels.Step) error {
	t.Helper()
	done := make(chan error, 1)
	d.Settle(step, func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("the step does not settle")
		return nil
	}
}

// fetch downloads a tensor to the host.
func fetch(t testing.TB, d *testDevice, ctx *kernels.Context, x *tensor.Tensor) ([]byte, error) {
	t.Helper()
	type result struct {
		t   *tensor.Tensor
		err error
	}
	done := make(chan result, 1)
	d.Download(ctx, x, func(t *tensor.Tensor, err error) { done <- result{t, err} })
	select {
	case r := <-done:
		if r.err != nil {
			return nil, r.err
		}
		defer r.t.Release()
		return append([]byte(nil), r.t.Data()...), nil
	case <-time.After(30 * time.Second):
		t.Fatal("the download does not end")
		return nil, nil
	}
}

// bytesOf makes a tensor of n bytes.
func bytesOf(t testing.TB, n int, value byte) *tensor.Tensor {
	t.Helper()
	x, err := tensor.New(tensor.Host, tensor.Uint8, tensor.Shape{int64(n)})
	if err != nil {
		t.Fatal(err)
	}
	copy(x.Data(), bytes.Repeat([]byte{value}, n))
	return x
}

// add computes dst = src + value.
func add(dst, src *tensor.Tensor, value byte) kernels.Launch {
	return kernels.Launch{Function: "add", Args: []uint64{dst.Address(), src.Address(), uint64(src.Len()), uint64(value)}}
}

// device makes a tensor on the device.
func device(t testing.TB, d *testDevice, n int) *tensor.Tensor {
	t.Helper()
	x, err := d.Memory().New(tensor.Uint8, tensor.Shape{int64(n)})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// upload uploads n bytes of a value to the device.
func upload(t testing.TB, d *testDevice, ctx *kernels.Context, n int, value byte) *tensor.Tensor {
	t.Helper()
	host := bytesOf(t, n, value)
	defer host.Release()
	x, err := d.Upload(ctx, host)
	if err != nil {
		t.Fatal(err)
	}
	return x
}
