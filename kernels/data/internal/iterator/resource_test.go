package iterator_test

import (
	"testing"

	handlepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/resource_handle_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	dt "github.com/troupe-run/troupe/kernels/data/internal/datatest"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
	"google.golang.org/protobuf/proto"
)

// A cancelled step ends its GetNext, and the iterator continues afterwards.
func TestCancelledGetNext(t *testing.T) {
	for name, hang := range map[string]func(*dt.Pipe) *dt.Pipe{
		"map":          func(p *dt.Pipe) *dt.Pipe { return p.Mapped("hang") },
		"parallel map": func(p *dt.Pipe) *dt.Pipe { return p.Ahead("hang", 2) },
		"filter":       func(p *dt.Pipe) *dt.Pipe { return p.Op("FilterDataset", dt.Calls("predicate", "hang")) },
		"prefetch":     func(p *dt.Pipe) *dt.Pipe { return p.Mapped("hang").Op("PrefetchDataset", nil, dt.Int(2)) },
		"parallel interleave": func(p *dt.Pipe) *dt.Pipe {
			return p.Op("ParallelInterleaveDatasetV2", dt.Calls("f", "twice"), dt.Int(2), dt.Int(1), dt.Int(2)).Mapped("hang")
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := kt.NewDevice(t)
			dt.FunctionDevice = d
			select {
			case <-dt.Hangs: // from an earlier test
			default:
			}
			p := hang(dt.NewPipe(d).Numbers(4))
			it := p.Iterate(t)
			defer p.Now.Release()
			for round := range 2 {
				step := kt.NewStep()
				got := kt.Start(t, d, kt.Op{Type: "IteratorGetNext", Attrs: p.Attrs(nil), Step: step}, dt.Retained(it.Handle))
				if round == 0 {
					<-dt.Hangs // in the function, which may be called ahead for the second round
				}
				step.Cancellation.Cancel(status.New(status.Cancelled, "enough"))
				if r := <-got; status.CodeOf(r.Err) != status.Cancelled {
					t.Errorf("got %v", r.Err)
				}
			}
			it.Close()
		})
	}
}

// Deleting an iterator ends its waiting calls and its work.
func TestDeletedWhileItIsAsked(t *testing.T) {
	d := kt.NewDevice(t)
	p := dt.NewPipe(d).Numbers(4).Ahead("hang", 3).Op("PrefetchDataset", nil, dt.Int(2))
	it := p.Iterate(t)
	defer p.Now.Release()
	got := kt.Start(t, d, kt.Op{Type: "IteratorGetNext", Attrs: p.Attrs(nil), Step: kt.NewStep()}, dt.Retained(it.Handle))
	it.Close()
	if r := <-got; r.Err == nil {
		t.Error("an element of a deleted iterator")
	}
}

func TestUninitializedIterator(t *testing.T) {
	d := kt.NewDevice(t)
	p := dt.NewPipe(d)
	h := d.Run(t, kt.Op{Type: "IteratorV2", Attrs: p.Attrs(kt.Attrs{"shared_name": "u", "container": ""})})[0]
	kt.Fails(t, d, status.FailedPrecondition, "the iterator has not been initialized", kt.Op{Type: "IteratorGetNext", Attrs: p.Attrs(nil)}, dt.Retained(h))
	h.Release()
}

// A string handle is valid only if the iterator's own op returned it.
func TestStringHandles(t *testing.T) {
	d := kt.NewDevice(t)
	p := dt.NewPipe(d).Numbers(3)
	it := p.Iterate(t)
	defer p.Now.Release()
	text := d.Run(t, kt.Op{Type: "IteratorToStringHandle"}, dt.Retained(it.Handle))[0]
	from := kt.Op{Type: "IteratorFromStringHandleV2", Attrs: p.Attrs(nil)}
	h := d.Run(t, from, dt.Retained(text))[0]
	out := d.Run(t, kt.Op{Type: "IteratorGetNext", Attrs: p.Attrs(nil)}, h)
	kt.Expect(t, out, dt.Int(0))
	var message handlepb.ResourceHandleProto
	if err := proto.Unmarshal([]byte(text.Tensor.Strings()[0]), &message); err != nil {
		t.Fatal(err)
	}
	message.HashCode++
	forged, err := proto.Marshal(&message)
	if err != nil {
		t.Fatal(err)
	}
	kt.Fails(t, d, status.NotFound, "does not exist", from, kt.Str(nil, string(forged)))
	kt.Fails(t, d, status.InvalidArgument, "Could not parse", from, kt.Str(nil, "\xff"))
	text.Release()
	it.Close()
}
