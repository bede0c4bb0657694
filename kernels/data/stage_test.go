package data_test

import (
	"strings"
	"testing"
	"time"

	modelpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/model_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	held "github.com/troupe-run/troupe/kernels/data/internal/iterator"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
	"google.golang.org/protobuf/proto"
)

// stages returns the iterator's stages.
func (it *iterator) stages() []dataset.StageStats {
	return it.handle.Tensor.Handles()[0].Local.(*held.Resource).Stages()
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
	functionDevice = d
	p := newPipe(d).numbers(40).op("TakeDataset", nil, i(-1)).op("FlatMapDataset", calls("f", "twice")).op("RepeatDataset", nil, i(3)).
		op("ShuffleDataset", nil, i(7), i(1), i(2)).ahead("double", 3).batch(4, false).op("PrefetchDataset", nil, i(5))
	it := p.iterate(t)
	defer p.now.Release()
	if got := len(it.stages()); got == 0 {
		t.Error("no stages before the first element")
	}
	const asked = 20
	for range asked {
		it.next()
	}
	list := it.stages()
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
	it.rest(1000)
	list = it.stages()
	if got := find(t, list, "Range").Elements; got != 3*40 {
		t.Errorf("the source has given %d elements", got)
	}
	if got := find(t, list, "Shuffle").Elements; got != 3*80 {
		t.Errorf("the shuffle has given %d elements", got)
	}
	resource := it.handle.Tensor.Handles()[0].Local.(*held.Resource)
	it.close()
	if list := resource.Stages(); list != nil {
		t.Errorf("a deleted iterator has stages: %s", tree(list, -1))
	}
}

// A buffer sized by the server grows while its reader finds it empty, and stays within its bounds.
func TestTunedPrefetch(t *testing.T) {
	d := kt.NewDevice(t)
	p := newPipe(d).numbers(1<<40).op("PrefetchDataset", nil, i(-1))
	it := p.iterate(t)
	defer p.now.Release()
	begun := time.Now()
	size := func() int64 { return find(t, it.stages(), "Prefetch").BufferSize }
	it.next()
	first := size()
	for size() < 16 && time.Since(begun) < 30*time.Second {
		for range 200 {
			it.next()
		}
		for s := find(t, it.stages(), "Prefetch"); s.Buffered < s.BufferSize && time.Since(begun) < 30*time.Second; {
			s = find(t, it.stages(), "Prefetch")
		}
	}
	if got := size(); first < 4 || got < 16 || got > 512 || !find(t, it.stages(), "Prefetch").Tuned {
		t.Errorf("the buffer has grown from %d to %d", first, got)
	}
	it.close()
}

// After the elements that are counted individually, the count lags by at most 15.
func TestManyElementsAreCounted(t *testing.T) {
	d := kt.NewDevice(t)
	p := newPipe(d).numbers(1 << 40)
	it := p.iterate(t)
	defer p.now.Release()
	for n := int64(1); n <= 3000; n++ {
		it.next()
		if got := it.stages()[0].Elements; got > n || got < n-15 || n <= 1000 && got != n {
			t.Fatalf("%d elements counted of %d", got, n)
		}
	}
	it.close()
}

func TestModelOfAnIterator(t *testing.T) {
	d := kt.NewDevice(t)
	functionDevice = d
	p := newPipe(d).numbers(9).ahead("double", -1).op("PrefetchDataset", nil, i(2))
	it := p.iterate(t)
	defer p.now.Release()
	it.next()
	out := d.Run(t, kt.Op{Type: "IteratorGetModelProto"}, retained(it.handle))[0]
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
	it.close()
	none := d.Run(t, kt.Op{Type: "IteratorV2", Attrs: p.attrs(kt.Attrs{"shared_name": "none", "container": ""})})[0]
	if _, err := d.Try(kt.Op{Type: "IteratorGetModelProto"}, none); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("got %v", err)
	}
}

// Old graphs request statistics.
func TestStatsAggregator(t *testing.T) {
	d := kt.NewDevice(t)
	stats := d.Run(t, kt.Op{Type: "StatsAggregatorHandle", Attrs: kt.Attrs{"shared_name": "stats"}})[0]
	p := newPipe(d).numbers(5).op("BytesProducedStatsDataset", nil, kt.Str(nil, "bytes")).op("LatencyStatsDataset", nil, kt.Str(nil, "time"))
	p.op("SetStatsAggregatorDataset", nil, retained(stats), kt.Str(nil, "tag"), kt.Str(nil, ""))
	it := p.iterate(t)
	defer p.now.Release()
	if got := it.rest(9); got != "0 1 2 3 4 end" {
		t.Error(got)
	}
	it.close()
	out := d.Run(t, kt.Op{Type: "StatsAggregatorSummary"}, stats)[0]
	text := out.Tensor.Strings()[0]
	if !strings.Contains(text, "tag::bytes") || !strings.Contains(text, "tag::time") {
		t.Errorf("got %q", text)
	}
	out.Release()
}

// BenchmarkStages measures an element's way through three stages, with no observer.
func BenchmarkStages(b *testing.B) {
	d := kt.NewDevice(b)
	p := newPipe(d).numbers(1<<40).op("SkipDataset", nil, i(1)).op("TakeDataset", nil, i(1<<40)).batch(1000, true)
	it := p.iterate(b)
	defer p.now.Release()
	b.ResetTimer()
	for range b.N / 1000 {
		out, err := d.Try(kt.Op{Type: "IteratorGetNext", Attrs: p.attrs(nil), Step: kt.NewStep()}, retained(it.handle))
		if err != nil {
			b.Fatal(err)
		}
		for _, v := range out {
			kernels.Value.Release(v)
		}
	}
	b.StopTimer()
	it.close()
}
