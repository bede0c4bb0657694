package iterator_test

import (
	"strings"
	"testing"
	"time"

	modelpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/model_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	dt "github.com/troupe-run/troupe/kernels/data/internal/datatest"
	"github.com/troupe-run/troupe/kernels/data/internal/iterator"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
	"google.golang.org/protobuf/proto"
)

// stagesOf returns the iterator's stages.
func stagesOf(it *dt.Iterator) []dataset.StageStats {
	return it.Handle.Tensor.Handles()[0].Local.(*iterator.Resource).Stages()
}

// tree returns the stages' names, each followed by its inner stages in brackets.
func tree(list []dataset.StageStats, parent int) string {
	var parts []string
	for i, s := range list {
		if s.Parent == parent {
			name := s.Name
			if in := tree(list, i); in != "" {
				name += "(" + in + ")"
			}
			parts = append(parts, name)
		}
	}
	return strings.Join(parts, " ")
}

func find(t *testing.T, list []dataset.StageStats, name string) dataset.StageStats {
	t.Helper()
	for _, s := range list {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no stage %s in %s", name, tree(list, -1))
	return dataset.StageStats{}
}

func TestStages(t *testing.T) {
	d := kt.NewDevice(t)
	dt.FunctionDevice = d
	p := dt.NewPipe(d).Numbers(40).Op("TakeDataset", nil, dt.Int(-1)).Op("FlatMapDataset", dt.Calls("f", "twice")).Op("RepeatDataset", nil, dt.Int(3)).
		Op("ShuffleDataset", nil, dt.Int(7), dt.Int(1), dt.Int(2)).Ahead("double", 3).Batch(4, false).Op("PrefetchDataset", nil, dt.Int(5))
	it := p.Iterate(t)
	defer p.Now.Release()
	if got := len(stagesOf(it)); got == 0 {
		t.Error("no stages before the first element")
	}
	const asked = 20
	for range asked {
		it.Next()
	}
	list := stagesOf(it)
	if got, want := tree(list, -1), "Prefetch(BatchV2(ParallelMapV2(Shuffle(FiniteRepeat(FlatMap(Range TensorSlice))))))"; got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	prefetch, batch, ahead, shuffle := find(t, list, "Prefetch"), find(t, list, "BatchV2"), find(t, list, "ParallelMapV2"), find(t, list, "Shuffle")
	if prefetch.Elements != asked || prefetch.BufferSize != 5 || prefetch.Buffered < 0 || prefetch.Buffered > 5 || prefetch.Tuned {
		t.Errorf("%+v", prefetch)
	}
	if prefetch.ConsumerWait <= 0 || prefetch.Rate <= 0 || prefetch.Since <= 0 {
		t.Errorf("%+v", prefetch)
	}
	if batch.Elements < asked || batch.BufferSize != -1 || batch.Open != 1 {
		t.Errorf("%+v", batch)
	}
	if ahead.Elements < 4*asked || ahead.Parallelism != 3 || ahead.Running > 3 {
		t.Errorf("%+v", ahead)
	}
	if shuffle.Elements < 4*asked || shuffle.Buffered > 7 || shuffle.Bytes > 7*8 || shuffle.Buffered == 0 {
		t.Errorf("%+v", shuffle)
	}
	// The datasets that the flat map opens in turn are one stage.
	if s := find(t, list, "TensorSlice"); s.Elements < 4*asked || s.Open > 1 {
		t.Errorf("%+v", s)
	}
	it.Rest(1000)
	list = stagesOf(it)
	if got := find(t, list, "Range").Elements; got != 3*40 {
		t.Errorf("the source has given %d elements", got)
	}
	if got := find(t, list, "Shuffle").Elements; got != 3*80 {
		t.Errorf("the shuffle has given %d elements", got)
	}
	resource := it.Handle.Tensor.Handles()[0].Local.(*iterator.Resource)
	it.Close()
	if list := resource.Stages(); list != nil {
		t.Errorf("a deleted iterator has stages: %s", tree(list, -1))
	}
}

// A buffer sized by the server grows while its reader finds it empty, and stays within its bounds.
func TestTunedPrefetch(t *testing.T) {
	d := kt.NewDevice(t)
	p := dt.NewPipe(d).Numbers(1<<40).Op("PrefetchDataset", nil, dt.Int(-1))
	it := p.Iterate(t)
	defer p.Now.Release()
	begun := time.Now()
	size := func() int64 { return find(t, stagesOf(it), "Prefetch").BufferSize }
	it.Next()
	first := size()
	for size() < 16 && time.Since(begun) < 30*time.Second {
		for range 200 {
			it.Next()
		}
		for s := find(t, stagesOf(it), "Prefetch"); s.Buffered < s.BufferSize && time.Since(begun) < 30*time.Second; {
			s = find(t, stagesOf(it), "Prefetch")
		}
	}
	if got := size(); first < 4 || got < 16 || got > 512 || !find(t, stagesOf(it), "Prefetch").Tuned {
		t.Errorf("the buffer has grown from %d to %d", first, got)
	}
	it.Close()
}

// After the elements that are counted individually, the count lags by at most 15.
func TestManyElementsAreCounted(t *testing.T) {
	d := kt.NewDevice(t)
	p := dt.NewPipe(d).Numbers(1 << 40)
	it := p.Iterate(t)
	defer p.Now.Release()
	for n := int64(1); n <= 3000; n++ {
		it.Next()
		if got := stagesOf(it)[0].Elements; got > n || got < n-15 || n <= 1000 && got != n {
			t.Fatalf("%d elements counted of %d", got, n)
		}
	}
	it.Close()
}

func TestModelOfAnIterator(t *testing.T) {
	d := kt.NewDevice(t)
	dt.FunctionDevice = d
	p := dt.NewPipe(d).Numbers(9).Ahead("double", -1).Op("PrefetchDataset", nil, dt.Int(2))
	it := p.Iterate(t)
	defer p.Now.Release()
	it.Next()
	out := d.Run(t, kt.Op{Type: "IteratorGetModelProto"}, dt.Retained(it.Handle))[0]
	m := &modelpb.ModelProto{}
	if err := proto.Unmarshal([]byte(out.Tensor.Strings()[0]), m); err != nil {
		t.Fatal(err)
	}
	out.Release()
	last := m.GetNodes()[m.GetOutput()]
	if len(m.GetNodes()) != 3 || last.GetName() != "Prefetch" || len(last.GetInputs()) != 1 || last.GetNumElements() != 1 {
		t.Errorf("got %v", m)
	}
	if before := m.GetNodes()[last.GetInputs()[0]]; before.GetName() != "ParallelMapV2" || !before.GetAutotune() || before.GetParameters()[0].GetName() != "parallelism" {
		t.Errorf("got %v", m)
	}
	it.Close()
	none := d.Run(t, kt.Op{Type: "IteratorV2", Attrs: p.Attrs(kt.Attrs{"shared_name": "none", "container": ""})})[0]
	if _, err := d.Try(kt.Op{Type: "IteratorGetModelProto"}, none); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("got %v", err)
	}
}

// BenchmarkStages measures an element's way through three stages, with no observer.
func BenchmarkStages(b *testing.B) {
	d := kt.NewDevice(b)
	p := dt.NewPipe(d).Numbers(1<<40).Op("SkipDataset", nil, dt.Int(1)).Op("TakeDataset", nil, dt.Int(1<<40)).Batch(1000, true)
	it := p.Iterate(b)
	defer p.Now.Release()
	b.ResetTimer()
	for range b.N / 1000 {
		out, err := d.Try(kt.Op{Type: "IteratorGetNext", Attrs: p.Attrs(nil), Step: kt.NewStep()}, dt.Retained(it.Handle))
		if err != nil {
			b.Fatal(err)
		}
		for _, v := range out {
			kernels.Value.Release(v)
		}
	}
	b.StopTimer()
	it.Close()
}
