package data_test

import (
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// A dataset that is repeatedly concatenated with itself has an enormous number of elements, but each query visits each of its datasets
// once.
func TestDatasetsOfThemselves(t *testing.T) {
	d := kt.NewDevice(t)
	for _, op := range []string{"ConcatenateDataset", "ZipDataset"} {
		p := newPipe(d).numbers(1).batch(1, false)
		for range 60 {
			twice := p.now
			if op == "ZipDataset" {
				p.op(op, kt.Attrs{"N": 2, "output_types": []tensor.DType{tensor.Int64}, "output_shapes": []tensor.Shape{{-1}}}, retained(twice))
			} else {
				p.op(op, nil, retained(twice))
			}
		}
		if p.err != nil {
			t.Fatal(p.err)
		}
		for _, ask := range []string{"DatasetCardinality", "DatasetFingerprint"} {
			out := d.Run(t, kt.Op{Type: ask}, retained(p.now))
			out[0].Release()
		}
		for _, policy := range []int64{0, 1, 2} { // by what is possible, by files, by elements
			sharded, err := d.Try(kt.Op{Type: "AutoShardDataset", Attrs: p.attrs(kt.Attrs{"auto_shard_policy": policy})}, retained(p.now), i(2), i(0))
			if policy == 1 && status.CodeOf(err) != status.NotFound {
				t.Errorf("%s sharded by files: %v", op, err)
			}
			for _, v := range sharded {
				v.Release()
			}
		}
		p.now.Release()
	}
}

// Datasets may be elements of others, like lists in lists, up to a limit. The last release of the outermost one releases all.
func TestDatasetsInElements(t *testing.T) {
	d := kt.NewDevice(t)
	p := newPipe(d).numbers(1)
	for n := range 1000 {
		out, err := d.Try(kt.Op{Type: "TensorDataset", Attrs: kt.Attrs{"Toutput_types": []tensor.DType{tensor.Variant}, "output_shapes": []tensor.Shape{{}}}}, p.now)
		if err != nil {
			if status.CodeOf(err) != status.ResourceExhausted || n < 50 {
				t.Errorf("after %d: %v", n, err)
			}
			return
		}
		p.now = kernels.Value{Tensor: out[0].Tensor}
	}
	p.now.Release()
	t.Error("a thousand datasets may lie in one another")
}

// A dataset that is repeatedly zipped with itself would open 2^60 iterators. Its step fails, and releases its memory.
func TestIteratorsAtATime(t *testing.T) {
	d := kt.NewDevice(t)
	p := newPipe(d).numbers(3)
	for range 60 {
		p.op("ZipDataset", kt.Attrs{"N": 2, "output_types": []tensor.DType{tensor.Int64}, "output_shapes": []tensor.Shape{{}}}, retained(p.now))
	}
	if _, err := d.Try(kt.Op{Type: "DatasetToSingleElement", Attrs: p.attrs(nil), Functions: functions}, p.now); status.CodeOf(err) != status.ResourceExhausted {
		t.Errorf("2^60 iterators: %v", err)
	}
}
