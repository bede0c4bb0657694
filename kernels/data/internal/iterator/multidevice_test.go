package iterator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	dt "github.com/troupe-run/troupe/kernels/data/internal/datatest"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// dealt is a multi-device iterator of a test, over numbers.
type dealt struct {
	t      *testing.T
	d      *kt.Device
	handle kernels.Value
}

func newDealt(t *testing.T, d *kt.Device, name string) *dealt {
	t.Helper()
	attrs := dt.NewPipe(d).Attrs(kt.Attrs{"shared_name": name, "container": "", "devices": []string{"a", "b"}})
	m := &dealt{t, d, d.Run(t, kt.Op{Type: "MultiDeviceIterator", Attrs: attrs})[0]}
	t.Cleanup(m.handle.Release)
	return m
}

// begin begins anew over a dataset, which it takes over, and returns the incarnation. A shard holds one element.
func (m *dealt) begin(p *dt.Pipe) int64 {
	m.t.Helper()
	out := m.d.Run(m.t, kt.Op{Type: "MultiDeviceIteratorInit", Functions: dt.Functions}, p.Value(), dt.Retained(m.handle), dt.Int(1))
	defer out[0].Release()
	return tensor.Of[int64](out[0].Tensor)[0]
}

// ask requests a shard's next element.
func (m *dealt) ask(shard int32, incarnation int64) <-chan kt.Result {
	m.t.Helper()
	op := kt.Op{Type: "MultiDeviceIteratorGetNextFromShard", Attrs: dt.NewPipe(m.d).Attrs(nil), Step: kt.NewStep()}
	return kt.Start(m.t, m.d, op, dt.Retained(m.handle), kt.I32(nil, shard), dt.Int(incarnation))
}

// gets checks that a request gets a number.
func (m *dealt) gets(c <-chan kt.Result, want int64) {
	m.t.Helper()
	r := await(m.t, c)
	if r.Err != nil {
		m.t.Errorf("instead of %d: %v", want, r.Err)
		return
	}
	kt.Expect(m.t, r.Out, dt.Int(want))
}

func await(t *testing.T, c <-chan kt.Result) kt.Result {
	t.Helper()
	select {
	case r := <-c:
		return r
	case <-time.After(20 * time.Second):
		t.Fatal("a shard waits")
		panic("unreachable")
	}
}

// TestLateEndOfAMultiDeviceIterator begins anew while a shard waits for the input of the incarnation before, which then ends: the new one has all
// its elements.
func TestLateEndOfAMultiDeviceIterator(t *testing.T) {
	d := kt.NewDevice(t)
	asked, ends := make(chan struct{}), make(chan struct{})
	dt.Functions["ends late"] = func(_ *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
		args[0].Release()
		close(asked)
		<-ends
		done(nil, status.Errorf(status.OutOfRange, "no more"))
	}
	defer delete(dt.Functions, "ends late")
	m := newDealt(t, d, "late")
	late := m.ask(0, m.begin(dt.NewPipe(d).Numbers(1).Mapped("ends late")))
	<-asked
	now := m.begin(dt.NewPipe(d).Numbers(2))
	close(ends)
	if r := await(t, late); status.CodeOf(r.Err) != status.InvalidArgument {
		t.Errorf("the incarnation before got %v", r.Err)
	}
	m.gets(m.ask(0, now), 0)
	m.gets(m.ask(1, now), 1)
}

// TestShardThatWaitsWhileItsIteratorBegins begins anew while a shard waits for another one to take its element: the wait ends.
func TestShardThatWaitsWhileItsIteratorBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := kt.NewDevice(t)
		m := newDealt(t, d, "waits")
		first := m.begin(dt.NewPipe(d).Numbers(8))
		m.gets(m.ask(0, first), 0)
		m.gets(m.ask(0, first), 2) // shard 1 holds the element between them
		waits := m.ask(0, first)
		synctest.Wait()
		now := m.begin(dt.NewPipe(d).Numbers(8))
		if r := await(t, waits); status.CodeOf(r.Err) != status.InvalidArgument {
			t.Errorf("the incarnation before got %v", r.Err)
		}
		m.gets(m.ask(0, now), 0)
	})
}
