package data_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	dt "github.com/troupe-run/troupe/kernels/data/internal/datatest"
	"github.com/troupe-run/troupe/kernels/internal/tfrecord"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// window returns the attributes of GroupByWindowDataset.
func window(key, size, reduce string) kt.Attrs {
	none := []tensor.DType{}
	return kt.Attrs{"key_func": kt.Func{Name: key}, "reduce_func": kt.Func{Name: reduce}, "window_size_func": kt.Func{Name: size},
		"Tkey_func_other_arguments": none, "Treduce_func_other_arguments": none, "Twindow_size_func_other_arguments": none}
}

// pipelines are datasets, with the elements that TensorFlow returns for them.
var pipelines = []struct {
	name string
	make func(p *dt.Pipe) *dt.Pipe
	want string
}{
	{"range", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(5) }, "0 1 2 3 4 end"},
	{"range down", func(p *dt.Pipe) *dt.Pipe { return p.Op("RangeDataset", nil, dt.Int(5), dt.Int(-2), dt.Int(-3)) }, "5 2 -1 end"},
	{"list", func(p *dt.Pipe) *dt.Pipe { return p.List(3, 1, 2) }, "3 1 2 end"},
	{"take", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(9).Op("TakeDataset", nil, dt.Int(3)) }, "0 1 2 end"},
	{"take all", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(3).Op("TakeDataset", nil, dt.Int(-1)) }, "0 1 2 end"},
	{"skip", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(5).Op("SkipDataset", nil, dt.Int(3)) }, "3 4 end"},
	{"skip all", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(5).Op("SkipDataset", nil, dt.Int(-1)) }, "end"},
	{"shard", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(7).Op("ShardDataset", nil, dt.Int(3), dt.Int(1)) }, "1 4 end"},
	{"repeat", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(2).Op("RepeatDataset", nil, dt.Int(2)) }, "0 1 0 1 end"},
	{"repeat nothing for ever", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(0).Op("RepeatDataset", nil, dt.Int(-1)) }, "end"},
	{"map", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(4).Mapped("double") }, "0 2 4 6 end"},
	{"map that ends", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(9).Mapped("stop") }, "0 1 2 3 end"},
	{"map that fails", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(5).Mapped("fail") }, "0 1 INVALID_ARGUMENT 3 4 end"},
	{"parallel map", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(6).Ahead("double", 3) }, "0 2 4 6 8 10 end"},
	{"parallel map that fails", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(6).Ahead("fail", 3) }, "0 1 INVALID_ARGUMENT 3 4 INVALID_ARGUMENT end"},
	{"parallel map that ends", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(9).Ahead("stop", 3) }, "0 1 2 3 end"},
	{"filter", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(6).Op("FilterDataset", dt.Calls("predicate", "even")) }, "0 2 4 end"},
	{"parallel filter", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(6).Op("ParallelFilterDataset", dt.Calls("predicate", "even"), dt.Int(2))
	}, "0 2 4 end"},
	{"take while", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(9).Op("TakeWhileDataset", dt.Calls("predicate", "small")) }, "0 1 2 3 4 end"},
	{"flat map", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(4).Op("FlatMapDataset", dt.Calls("f", "count")) }, "0 0 1 0 1 2 end"},
	{"interleave", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(5).Op("InterleaveDataset", dt.Calls("f", "twice"), dt.Int(2), dt.Int(1))
	}, "0 1 0 1 2 3 2 3 4 4 end"},
	{"interleave of blocks", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(4).Op("InterleaveDataset", dt.Calls("f", "count"), dt.Int(3), dt.Int(2))
	}, "0 0 1 0 1 2 end"},
	{"parallel interleave", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(5).Op("ParallelInterleaveDatasetV4", dt.Calls("f", "twice"), dt.Int(2), dt.Int(1), dt.Int(4), dt.Int(0), dt.Int(2))
	}, "0 1 0 1 2 3 2 3 4 4 end"},
	{"batch", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(5).Batch(2, false) }, "[0,1] [2,3] [4] end"},
	{"whole batches", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(5).Batch(2, true) }, "[0,1] [2,3] end"},
	{"unbatch", func(p *dt.Pipe) *dt.Pipe {
		p.Numbers(5).Batch(2, false)
		p.Shape = nil
		return p.Op("UnbatchDataset", nil)
	}, "0 1 2 3 4 end"},
	{"rebatch", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(7).Batch(3, false).Op("RebatchDatasetV2", nil, kt.I64(kt.S(2), 2, 1), dt.Bool(false))
	}, "[0,1] [2] [3,4] [5] [6] end"},
	{"batches split", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(7).Batch(4, false).Op("RebatchDataset", nil, dt.Int(3))
	}, "[0,1] [2,3] [] [4] [5] [6] end"},
	{"index flat map", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(3).Op("IndexFlatMapDataset", kt.Attrs{"map_func": kt.Func{Name: "tens"}, "index_map_func": kt.Func{Name: "halves"},
			"Tmap_func_args": []tensor.DType{}, "Tindex_map_func_args": []tensor.DType{}}, dt.Int(6))
	}, "0 1 10 11 20 21 end"},
	{"weighted flat map", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(4).Op("WeightedFlatMapDataset", nil, dt.NewPipe(p.Device).Numbers(8).Value(), weight(0.5), weight(0.25))
	}, "0 1 2 3 0 1 end"},
	{"fastest", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(5).Mapped("fail").Op("ChooseFastestDataset", kt.Attrs{"num_experiments": int64(2)}, dt.NewPipe(p.Device).Numbers(5).Ahead("fail", 2).Value())
	}, "0 1 INVALID_ARGUMENT 3 4 end"},
	{"fastest branch", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(6).Op("ChooseFastestBranchDataset", kt.Attrs{"branches": []kt.Func{{Name: "same"}, {Name: "same"}}, "num_elements_per_branch": int64(2),
			"other_arguments_lengths": []int64{0, 0}, "Targuments": []tensor.DType{}}, dt.Int(1), dt.Int(1))
	}, "0 1 2 3 4 5 end"},
	{"stages after", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(9).Op("AssertNextDataset", nil, kt.Str(kt.S(2), "FiniteTake", "Batch")).Op("SkipDataset", nil, dt.Int(0)).Op("TakeDataset", nil, dt.Int(4)).Batch(2, true)
	}, "[0,1] [2,3] end"},
	{"datasets before", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(3).Op("TakeDataset", nil, dt.Int(2)).Op("AssertPrevDataset", nil, kt.Str(kt.S(2), "name: 'TakeDataset'",
			"name: 'RangeDataset' attr { key: 'replicate_on_split' value { b: false } }"))
	}, "0 1 end"},
	{"optimized", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(3).Mapped("double").Op("OptimizeDatasetV2", nil, kt.Str(kt.S(1), "map_fusion"), kt.Str(kt.S(0)), kt.Str(kt.S(0)))
	}, "0 2 4 end"},
	{"sharded by data", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(7).Mapped("double").Op("PrefetchDataset", nil, dt.Int(2)).Op("AutoShardDataset", nil, dt.Int(3), dt.Int(1))
	}, "2 8 end"},
	{"sharded by data, with batches for replicas", func(p *dt.Pipe) *dt.Pipe {
		p.Numbers(9).Batch(3, false).Op("RebatchDatasetV2", nil, kt.I64(kt.S(1), 2), dt.Bool(false))
		return p.Op("AutoShardDataset", kt.Attrs{"auto_shard_policy": int64(2), "num_replicas": int64(3)}, dt.Int(3), dt.Int(1))
	}, "[1] [4] [7] end"},
	{"sharded where it says", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(7).Op("ShardDataset", nil, dt.Int(-1), dt.Int(-1)).Mapped("double").Op("AutoShardDataset", kt.Attrs{"auto_shard_policy": int64(3)}, dt.Int(3), dt.Int(2))
	}, "4 10 end"},
	{"not sharded", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(3).Op("AutoShardDataset", kt.Attrs{"auto_shard_policy": int64(-1)}, dt.Int(3), dt.Int(2))
	}, "0 1 2 end"},
	{"rebatch, whole", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(7).Batch(3, false).Op("RebatchDatasetV2", nil, kt.I64(kt.S(1), 2), dt.Bool(true))
	}, "[0,1] [2,3] [4,5] end"},
	{"shuffle", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(8).Op("ShuffleDataset", kt.Attrs{"reshuffle_each_iteration": true}, dt.Int(3), dt.Int(7), dt.Int(9)).Op("RepeatDataset", nil, dt.Int(2))
	}, "2 3 0 4 6 5 7 1 0 3 1 5 2 4 6 7 end"},
	{"shuffle and repeat", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(4).Op("ShuffleAndRepeatDataset", nil, dt.Int(3), dt.Int(1), dt.Int(2), dt.Int(2))
	}, "1 3 2 0 1 3 2 0 end"},
	{"global shuffle", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(6).Op("GlobalShuffleDataset", nil, dt.Int(1), dt.Int(2), dt.Seedless(p)).Op("RepeatDataset", nil, dt.Int(2))
	}, "3 4 5 1 0 2 1 4 3 0 5 2 end"},
	{"cache", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(3).Op("CacheDataset", nil, kt.Str(nil, "")).Op("RepeatDataset", nil, dt.Int(2))
	}, "0 1 2 0 1 2 end"},
	{"prefetch", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(4).Op("PrefetchDataset", nil, dt.Int(2)) }, "0 1 2 3 end"},
	{"prefetch nothing", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(4).Op("PrefetchDataset", nil, dt.Int(0)) }, "0 1 2 3 end"},
	{"group by window", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(7).Op("GroupByWindowDataset", window("parity", "two", "first"))
	}, "0 2 1 3 4 6 5 end"},
	{"window", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(6).Op("WindowDataset", nil, dt.Int(3), dt.Int(2), dt.Int(1), dt.Bool(false)).Op("FlatMapDataset", dt.Calls("f", "same"))
	}, "0 1 2 2 3 4 4 5 end"},
	{"windows ahead", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(6).Op("WindowDataset", nil, dt.Int(2), dt.Int(2), dt.Int(1), dt.Bool(true)).Op("PrefetchDataset", nil, dt.Int(2)).Op("FlatMapDataset", dt.Calls("f", "same"))
	}, "0 1 2 3 4 5 end"},
	{"sliding window", func(p *dt.Pipe) *dt.Pipe {
		p.Numbers(7)
		p.Shape = tensor.Shape{-1}
		return p.Op("SlidingWindowDataset", kt.Attrs{"drop_remainder": false}, dt.Int(3), dt.Int(2), dt.Int(2))
	}, "[0,2,4] [2,4,6] [4,6] [6] end"},
	{"sampling", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(20).Op("SamplingDataset", nil, kt.Of(tensor.Float32, nil, float32(0.4)), dt.Int(3), dt.Int(7))
	}, "2 3 5 7 16 17 18 19 end"},
	{"parse example", func(p *dt.Pipe) *dt.Pipe {
		texts := kt.Attrs{"Toutput_types": []tensor.DType{tensor.String}, "output_types": []tensor.DType{tensor.String}}
		p.Op("TensorSliceDataset", texts, kt.Str(kt.S(5), numbered(0), numbered(11), numbered(22), "\n\x50cut off", numbered(44)))
		p.Op("BatchDatasetV2", texts, dt.Int(2), dt.Bool(false))
		p.Shape = tensor.Shape{-1}
		none := []tensor.DType{}
		return p.Op("ParseExampleDatasetV2", kt.Attrs{"dense_keys": []string{"x"}, "Tdense": dt.Int64s, "dense_shapes": []tensor.Shape{nil}, "sparse_keys": []string{},
			"sparse_types": none, "ragged_keys": []string{}, "ragged_value_types": none, "ragged_split_types": none, "deterministic": "true"}, dt.Int(2), dt.Int(9))
	}, "[0,11] INVALID_ARGUMENT [44] end"},
	{"scan", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(5).Op("ScanDataset", dt.Reducing("add"), dt.Int(10)) }, "10 11 13 16 20 end"},
	{"unique", func(p *dt.Pipe) *dt.Pipe { return p.List(3, 1, 3, 2, 1).Op("UniqueDataset", nil) }, "3 1 2 end"},
	{"assert cardinality", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(3).Op("AssertCardinalityDataset", nil, dt.Int(2)) }, "0 1 FAILED_PRECONDITION end"},
	{"ignore errors", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(6).Mapped("fail").Op("IgnoreErrorsDataset", nil) }, "0 1 3 4 end"},
	{"huge buffers", func(p *dt.Pipe) *dt.Pipe {
		return p.Numbers(3).Op("PrefetchDataset", nil, dt.Int(1<<62)).Op("ShuffleDataset", nil, dt.Int(1<<62), dt.Int(1), dt.Int(1)).Op("InterleaveDataset", dt.Calls("f", "twice"), dt.Int(1<<62), dt.Int(1<<62))
	}, "1 1 2 2 0 0 end"},
	{"huge batch", func(p *dt.Pipe) *dt.Pipe { return p.Numbers(3).Batch(1<<62, false) }, "[0,1,2] end"},
}

// numbered returns a serialized tf.train.Example whose feature x is a number below 128.
func numbered(x byte) string { return "\n\f\n\n\n\x01x\x12\x05\x1a\x03\n\x01" + string([]byte{x}) }

func weight(v float64) *tensor.Tensor { return kt.Of(tensor.Float64, nil, v) }

func TestElements(t *testing.T) {
	for _, c := range pipelines {
		t.Run(c.name, func(t *testing.T) {
			d := kt.NewDevice(t)
			dt.FunctionDevice = d
			p := c.make(dt.NewPipe(d))
			it := p.Iterate(t)
			defer p.Now.Release()
			if got := it.Rest(50); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			it.Close()
		})
	}
}

// An iterator that is saved after any number of elements, and restored, even into one at another position, continues with the same
// elements.
func TestSavedAnywhere(t *testing.T) {
	for _, c := range pipelines {
		t.Run(c.name, func(t *testing.T) {
			d := kt.NewDevice(t)
			dt.FunctionDevice = d
			for n := 0; ; n++ {
				p := c.make(dt.NewPipe(d))
				it := p.Iterate(t)
				before := it.Rest(n)
				saved := it.Save()
				want := it.Rest(50)
				// Another iterator over the same dataset, at another position.
				other := c.make(dt.NewPipe(d))
				to := other.Iterate(t)
				to.Rest(n / 2)
				if err := to.Restore(saved); err != nil {
					t.Errorf("after %q: %v", before, err)
				} else if got := to.Rest(50); got != want {
					t.Errorf("after %q:\ngot  %s\nwant %s", before, got, want)
				}
				saved.Release()
				it.Close()
				to.Close()
				p.Now.Release()
				other.Now.Release()
				if want == "end" || n > 30 {
					break
				}
			}
		})
	}
}

// While a stage of an iterator waits for its input, a call that saves the iterator ends when it is cancelled.
func TestSavedWhileItWaits(t *testing.T) {
	// Their datasets look at the inputs, which may not be those of a map.
	looks := map[string]bool{"weighted flat map": true, "datasets before": true, "global shuffle": true}
	enough := status.New(status.Cancelled, "enough")
	for _, c := range pipelines {
		if looks[c.name] {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			d := kt.NewDevice(t)
			dt.FunctionDevice = d
			select {
			case <-dt.Hangs: // from an earlier test
			default:
			}
			p := dt.NewPipe(d)
			p.Stuck = true
			of, err := dataset.InTensor(c.make(p).Now.Tensor)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Now.Release()
			env := dataset.NewEnv(&kernels.Context{Node: &graph.Node{}, Step: kt.NewStep()}, d)
			defer env.Shutdown()
			it, err := of.Open(env)
			if err != nil {
				t.Fatal(err)
			}
			defer it.Close()
			asks, got := &kernels.Cancellation{}, make(chan struct{})
			go func() {
				defer close(got)
				c, end := env.NewCall(0, asks)
				defer end()
				e, _ := it.Next(c)
				e.Release()
			}()
			select {
			case <-dt.Hangs:
				asks.Cancel(enough)
				<-got
			case <-got: // its elements do not come from one of the sources that wait
			}
			saves := &kernels.Cancellation{}
			saves.Cancel(enough)
			saving, end := env.NewCall(0, saves)
			defer end()
			s, err := dataset.SaveState(saving, it)
			if err == nil {
				s.Release()
			} else if status.CodeOf(err) != status.Cancelled {
				t.Error(err)
			}
		})
	}
}

// A state that is damaged, or belongs to another dataset, is rejected or yields some elements. It never crashes.
func TestDamagedStates(t *testing.T) {
	tries := 40
	if extent.Check() {
		tries = 1000
	}
	for _, c := range pipelines {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			d := kt.NewDevice(t)
			dt.FunctionDevice = d
			for range tries {
				p := c.make(dt.NewPipe(d))
				it := p.Iterate(t)
				it.Rest(rng.IntN(6))
				saved := it.Save()
				m, err := saved.Tensor.Proto()
				saved.Release()
				if err != nil {
					t.Fatal(err)
				}
				v := m.VariantVal[0]
				for _, x := range v.Tensors {
					if rng.IntN(8) == 0 && len(x.TensorContent) == 8 {
						x.TensorContent = []byte{byte(rng.IntN(5) - 2), 0, 0, 0, 0, 0, 0, byte(rng.IntN(2) * 0xff)}
					}
				}
				if rng.IntN(4) == 0 && len(v.Tensors) > 1 {
					keys := strings.Split(string(v.Metadata), "@@")
					v.Metadata, v.Tensors = []byte(strings.Join(keys[1:], "@@")), v.Tensors[1:]
				}
				damaged, err := tensor.FromTensorProto(m, d.Pool())
				if err != nil {
					t.Fatal(err)
				}
				if err := it.Restore(kernels.Value{Tensor: damaged}); err == nil {
					it.Rest(30)
				} else if code := status.CodeOf(err); code == status.Internal {
					t.Errorf("restoring: %v", err)
				}
				damaged.Release()
				it.Close()
				p.Now.Release()
			}
		})
	}
}

// An infinite dataset uses only the memory of its buffers.
func TestEndlessDataset(t *testing.T) {
	d := kt.NewDevice(t)
	dt.FunctionDevice = d
	p := dt.NewPipe(d).Numbers(3).Op("RepeatDataset", nil, dt.Int(-1)).Ahead("double", 4).Op("PrefetchDataset", nil, dt.Int(8)).Op("ShuffleDataset", nil, dt.Int(5), dt.Int(1), dt.Int(2))
	it := p.Iterate(t)
	defer p.Now.Release()
	before := d.Pool().Stats().InUse
	for range 5000 {
		if v := it.Next(); v != "0" && v != "2" && v != "4" {
			t.Fatal(v)
		}
	}
	if after := d.Pool().Stats().InUse; after > before+1<<16 {
		t.Errorf("%d bytes in use, after %d", after, before)
	}
	it.Close()
}

// Ten thousand iterators leave nothing behind once they are dropped.
func TestManyIterators(t *testing.T) {
	n := 10000
	if !extent.Check() {
		n = 500
	}
	d := kt.NewDevice(t)
	dt.FunctionDevice = d
	p := dt.NewPipe(d).Numbers(30).Ahead("double", 2).Op("PrefetchDataset", nil, dt.Int(2))
	defer p.Now.Release()
	for k := range n {
		it := p.Iterate(t)
		if k%3 > 0 {
			it.Next()
		}
		it.Close()
	}
}

func TestBadInput(t *testing.T) {
	for _, c := range []struct {
		name, text string
		code       status.Code
		make       func(p *dt.Pipe) *dt.Pipe
	}{
		{"step 0", "step must be a non-zero integer", status.InvalidArgument, func(p *dt.Pipe) *dt.Pipe { return p.Op("RangeDataset", nil, dt.Int(0), dt.Int(1), dt.Int(0)) }},
		{"batch of none", "Batch size must be greater than zero", status.InvalidArgument, func(p *dt.Pipe) *dt.Pipe { return p.Numbers(3).Batch(0, false) }},
		{"shards", "num_shards = 0", status.InvalidArgument, func(p *dt.Pipe) *dt.Pipe { return p.Numbers(3).Op("ShardDataset", nil, dt.Int(0), dt.Int(0)) }},
		{"shard index", "currently index = 3", status.InvalidArgument, func(p *dt.Pipe) *dt.Pipe { return p.Numbers(3).Op("ShardDataset", nil, dt.Int(3), dt.Int(3)) }},
		{"shuffle buffer", "buffer_size must be greater than zero", status.InvalidArgument, func(p *dt.Pipe) *dt.Pipe {
			return p.Numbers(3).Op("ShuffleDataset", nil, dt.Int(0), dt.Int(1), dt.Int(1))
		}},
		{"cycle", "cycle_length must be greater than zero", status.InvalidArgument, func(p *dt.Pipe) *dt.Pipe {
			return p.Numbers(3).Op("InterleaveDataset", dt.Calls("f", "twice"), dt.Int(0), dt.Int(1))
		}},
		{"more calls than datasets", "num_parallel_calls is 3, and cycle_length 2", status.InvalidArgument, func(p *dt.Pipe) *dt.Pipe {
			return p.Numbers(3).Op("ParallelInterleaveDatasetV2", dt.Calls("f", "twice"), dt.Int(2), dt.Int(1), dt.Int(3))
		}},
		{"calls", "num_parallel_calls must be greater than zero", status.InvalidArgument, func(p *dt.Pipe) *dt.Pipe { return p.Numbers(3).Ahead("double", 0) }},
		{"no function", "Function nobody is not defined", status.NotFound, func(p *dt.Pipe) *dt.Pipe { return p.Numbers(3).Mapped("nobody") }},
		{"a count that is a vector", "count must be a scalar", status.InvalidArgument, func(p *dt.Pipe) *dt.Pipe {
			return p.Numbers(3).Op("TakeDataset", nil, kt.I64(kt.S(1), 1))
		}},
		{"global shuffle of a filter", "does not support random access", status.FailedPrecondition, func(p *dt.Pipe) *dt.Pipe {
			return p.Numbers(3).Op("FilterDataset", dt.Calls("predicate", "even")).Op("GlobalShuffleDataset", nil, dt.Int(1), dt.Int(2), dt.Seedless(p))
		}},
		{"no dataset", "Tensor must be a Dataset object", status.InvalidArgument, func(p *dt.Pipe) *dt.Pipe {
			p.Now = p.Device.Run(t, kt.Op{Type: "OptionalNone"})[0]
			return p.Op("TakeDataset", nil, dt.Int(1))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := kt.NewDevice(t)
			dt.FunctionDevice = d
			p := c.make(dt.NewPipe(d))
			if p.Err == nil {
				p.Now.Release()
			}
			if status.CodeOf(p.Err) != c.code || !strings.Contains(fmt.Sprint(p.Err), c.text) {
				t.Errorf("got %v: %v", status.CodeOf(p.Err), p.Err)
			}
		})
	}
}

// A broken or missing file only costs its own records: the error names it, and the next call continues with the next file.
func TestBrokenFiles(t *testing.T) {
	record := func(text string) string { return string(tfrecord.Append(nil, []byte(text))) }
	whole := record("a") + record("b")
	flipped := []byte(whole)
	flipped[len(record("a"))+12] ^= 1 // in the second record's data
	for _, c := range []struct {
		name, content, compression string
		good                       int // records before the break
		code                       status.Code
		text                       string
	}{
		{"cut in the second record", whole[:len(whole)-2], "", 1, status.DataLoss, "truncated record at 17'"},
		{"flipped", string(flipped), "", 1, status.DataLoss, "corrupted record at 29"},
		{"no record", "this is no file of records", "", 0, status.DataLoss, "corrupted record at 0"},
		{"not zipped", whole, "GZIP", 0, status.DataLoss, "inflate()"},
		{"gone", "", "", 0, status.NotFound, "No such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := kt.NewDevice(t)
			directory := t.TempDir()
			broken, next := filepath.Join(directory, "broken"), filepath.Join(directory, "next")
			if c.content != "" {
				write(t, broken, c.content)
			}
			p := dt.NewPipe(d)
			p.Op("TFRecordDataset", nil, kt.Str(kt.S(2), broken, next), kt.Str(nil, c.compression), dt.Int(0))
			p.Op("PrefetchDataset", kt.Attrs{"output_types": []tensor.DType{tensor.String}}, dt.Int(4))
			texts := kt.Attrs{"output_types": []tensor.DType{tensor.String}, "output_shapes": []tensor.Shape{nil}}
			handle := d.Run(t, kt.Op{Type: "IteratorV2", Attrs: kt.Attrs{"shared_name": c.name, "container": "", "output_types": texts["output_types"], "output_shapes": texts["output_shapes"]}})[0]
			d.Run(t, kt.Op{Type: "MakeIterator"}, p.Value(), dt.Retained(handle))
			defer (&dt.Iterator{T: t, Device: d, Handle: handle}).Close()
			get := func() error {
				out, err := d.Try(kt.Op{Type: "IteratorGetNext", Attrs: texts, Step: kt.NewStep()}, dt.Retained(handle))
				for _, v := range out {
					v.Release()
				}
				return err
			}
			for range c.good {
				if err := get(); err != nil {
					t.Fatal(err)
				}
			}
			if err := get(); status.CodeOf(err) != c.code || !contains(err, c.text) || !contains(err, broken) {
				t.Errorf("got %v: %v", status.CodeOf(err), err)
			}
			if err := get(); status.CodeOf(err) != status.NotFound || !contains(err, next) {
				t.Errorf("the file after it: %v", err)
			}
			if err := get(); status.CodeOf(err) != status.OutOfRange {
				t.Errorf("the end: %v", err)
			}
		})
	}
}

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFunctionErrorsNameTheIterator makes a function fail in each stage that calls one.
func TestFunctionErrorsNameTheIterator(t *testing.T) {
	d := kt.NewDevice(t)
	dt.FunctionDevice = d
	fails := kt.Func{Name: "fail"}
	with := func(attrs ...any) kt.Attrs {
		all := kt.Attrs{"Targuments": []tensor.DType{}}
		for n := 0; n < len(attrs); n += 2 {
			all[attrs[n].(string)] = attrs[n+1]
		}
		return all
	}
	for want, make := range map[string]func(p *dt.Pipe) *dt.Pipe{
		"MapDataset:N Iterator::Root::Map": func(p *dt.Pipe) *dt.Pipe { return p.Mapped("fail") },
		"named Iterator::Root::Map": func(p *dt.Pipe) *dt.Pipe {
			return p.Op("MapDataset", with("f", fails, "metadata", "\x0a\x05named"))
		},
		"ParallelMapDatasetV2:N Iterator::Root::ParallelMapV2": func(p *dt.Pipe) *dt.Pipe { return p.Ahead("fail", 2) },
		"MapDataset:N Iterator::Root::BatchV2::Shuffle::Map": func(p *dt.Pipe) *dt.Pipe {
			return p.Mapped("fail").Op("ShuffleDataset", nil, dt.Int(9), dt.Int(1), dt.Int(2)).Batch(2, false)
		},
		"FilterDataset:N Iterator::Root::Filter":         func(p *dt.Pipe) *dt.Pipe { return p.Op("FilterDataset", with("predicate", fails)) },
		"FlatMapDataset:N Iterator::Root::FlatMap":       func(p *dt.Pipe) *dt.Pipe { return p.Op("FlatMapDataset", with("f", fails)) },
		"InterleaveDataset:N Iterator::Root::Interleave": func(p *dt.Pipe) *dt.Pipe { return p.Op("InterleaveDataset", with("f", fails), dt.Int(4), dt.Int(1)) },
		"ParallelInterleaveDatasetV2:N Iterator::Root::ParallelInterleaveV2": func(p *dt.Pipe) *dt.Pipe {
			return p.Op("ParallelInterleaveDatasetV2", with("f", fails), dt.Int(4), dt.Int(1), dt.Int(2))
		},
		"MapDataset:N Iterator::Root::FlatMap[1]::Map": func(p *dt.Pipe) *dt.Pipe { return p.Op("FlatMapDataset", dt.Calls("f", "threes")) },
		"MapDataset:N Iterator::Root::Interleave[1]::Map": func(p *dt.Pipe) *dt.Pipe {
			return p.Op("InterleaveDataset", dt.Calls("f", "threes"), dt.Int(4), dt.Int(1))
		},
		"MapDataset:N Iterator::Root::ParallelInterleaveV2[1]::Map": func(p *dt.Pipe) *dt.Pipe {
			return p.Op("ParallelInterleaveDatasetV2", dt.Calls("f", "threes"), dt.Int(4), dt.Int(1), dt.Int(2))
		},
		"MapDataset:N Iterator::Root::GroupByWindow[0]::Map": func(p *dt.Pipe) *dt.Pipe { return p.Op("GroupByWindowDataset", window("parity", "two", "failing")) },
		"MapDataset:N Iterator::Root::Zip[0]::Map":           func(p *dt.Pipe) *dt.Pipe { return zipped(p.Mapped("fail")) },
		"MapDataset:N Iterator::Root::FiniteTake::Concatenate[1]::Map": func(p *dt.Pipe) *dt.Pipe {
			failing := p.Mapped("fail").Value()
			return dt.NewPipe(p.Device).Numbers(2).Op("ConcatenateDataset", nil, failing).Op("TakeDataset", nil, dt.Int(9))
		},
		"MapDataset:N Iterator::Root::FiniteRepeat[0]::Map": func(p *dt.Pipe) *dt.Pipe { return p.Mapped("fail").Op("RepeatDataset", nil, dt.Int(2)) },
		"MapDataset:N Iterator::Root::DirectedInterleave[1]::Map": func(p *dt.Pipe) *dt.Pipe {
			failing := p.Mapped("fail").Value()
			return dt.NewPipe(p.Device).List(1, 1, 1).Op("DirectedInterleaveDataset", kt.Attrs{"N": int64(2)}, dt.NewPipe(p.Device).Numbers(0).Value(), failing)
		},
		"": func(p *dt.Pipe) *dt.Pipe { return p.Op("TakeWhileDataset", with("predicate", fails)) }, // returns the error unchanged, as TensorFlow's does
	} {
		t.Run(want, func(t *testing.T) {
			p := make(dt.NewPipe(d).Numbers(6))
			it := p.Iterate(t)
			defer it.Close()
			defer p.Now.Release()
			for range 20 {
				out, err := d.Try(kt.Op{Type: "IteratorGetNext", Attrs: p.Attrs(nil), Step: kt.NewStep()}, dt.Retained(it.Handle))
				if err == nil {
					for _, v := range out {
						v.Release()
					}
					continue
				}
				if status.CodeOf(err) != status.InvalidArgument {
					continue // the function's result is neither a dataset nor a boolean
				}
				dataset, iterator, _ := strings.Cut(want, " ")
				if want == "" && err.Error() == "bad 2" {
					return
				}
				text := regexp.MustCompile(`^Error in user-defined function passed to ` + strings.Replace(dataset, "N", `\d+`, 1) + ` transformation with iterator: ` + regexp.QuoteMeta(iterator) + `: bad 2$`)
				if text.MatchString(err.Error()) {
					return
				}
				if strings.Contains(err.Error(), "bad 2") {
					t.Fatalf("the error is %q, which does not match %v", err, text)
				}
			}
			t.Fatal("the function did not fail")
		})
	}
}

// TestDatasetsWithoutEnd checks that functions that create datasets that call them again reach a limit: of depth, or of the memory that
// iterators count as.
func TestDatasetsWithoutEnd(t *testing.T) {
	for _, f := range []string{"itself", "ahead", "wide"} {
		t.Run(f, func(t *testing.T) {
			d := kt.NewDevice(t)
			dt.FunctionDevice = d
			p := dt.NewPipe(d).Numbers(1000).Op("FlatMapDataset", dt.Calls("f", f))
			defer p.Now.Release()
			it := p.Iterate(t)
			if got := it.Next(); got != "RESOURCE_EXHAUSTED" {
				t.Errorf("got %s", got)
			}
			it.Close()
		})
	}
}

// TestIteratorsCount checks that open iterators, datasets and the goroutines of stages count as memory until they are closed.
func TestIteratorsCount(t *testing.T) {
	d := kt.NewDevice(t)
	dt.FunctionDevice = d
	const open = 200
	p := dt.NewPipe(d).Numbers(open).Op("InterleaveDataset", dt.Calls("f", "twice"), dt.Int(open), dt.Int(1))
	defer p.Now.Release()
	it := p.Iterate(t)
	before := d.Pool().Stats().InUse
	for range open {
		if got := it.Next(); got == "end" {
			t.Fatal("it has ended")
		}
	}
	if grown := d.Pool().Stats().InUse - before; grown < open*1024 {
		t.Errorf("%d open iterators count as %d bytes", open, grown)
	}
	it.Close()
}

// looks are the ops that inspect a dataset and its inputs, and request at most one element.
func looks(d *kt.Device) map[string]func(p *dt.Pipe) error {
	try := func(op string, attrs kt.Attrs, more ...any) func(p *dt.Pipe) error {
		return func(p *dt.Pipe) error {
			out, err := d.Try(kt.Op{Type: op, Attrs: p.Attrs(attrs), Functions: dt.Functions}, append([]any{dt.Retained(p.Now)}, more...)...)
			for _, v := range out {
				v.Release()
			}
			return err
		}
	}
	all := map[string]func(p *dt.Pipe) error{
		"cardinality": try("DatasetCardinality", nil), "batch size": try("ComputeBatchSize", nil), "fingerprint": try("DatasetFingerprint", nil),
		"graph":   try("DatasetToGraphV2", kt.Attrs{"external_state_policy": int64(2), "strip_device_assignment": false}),
		"element": try("GetElementAtIndex", nil, dt.Int(0)), "global shuffle": func(p *dt.Pipe) error {
			return try("GlobalShuffleDataset", nil, dt.Int(1), dt.Int(2), dt.Seedless(p))(p)
		},
	}
	all["elements"] = func(p *dt.Pipe) error {
		step := kt.NewStep()
		defer time.AfterFunc(time.Second, func() { step.Cancellation.Cancel(status.New(status.DeadlineExceeded, "it takes too long")) }).Stop()
		out, err := d.Try(kt.Op{Type: "ReduceDataset", Attrs: p.Attrs(dt.Reducing("sum")), Functions: dt.Functions, Step: step}, dt.Retained(p.Now), dt.Int(100))
		for _, v := range out {
			v.Release()
		}
		return err
	}
	for policy := int64(-1); policy <= 3; policy++ {
		all[fmt.Sprint("sharding ", policy)] = try("AutoShardDataset", kt.Attrs{"auto_shard_policy": policy, "num_replicas": int64(1)}, dt.Int(3), dt.Int(1))
	}
	return all
}

// doubled are pipelines in which one dataset is reachable on 2^45 paths.
var doubled = map[string]func(p *dt.Pipe) *dt.Pipe{}

func init() {
	const times = 45
	for name, c := range map[string]struct {
		first  func(p *dt.Pipe) *dt.Pipe
		double func(p *dt.Pipe) *dt.Pipe
	}{
		"concatenation":            {func(p *dt.Pipe) *dt.Pipe { return p.Numbers(0) }, func(p *dt.Pipe) *dt.Pipe { return p.Op("ConcatenateDataset", nil, dt.Retained(p.Now)) }},
		"concatenation of batches": {func(p *dt.Pipe) *dt.Pipe { return p.Numbers(0).Batch(2, true) }, func(p *dt.Pipe) *dt.Pipe { return p.Op("ConcatenateDataset", nil, dt.Retained(p.Now)) }},
		"zip":                      {func(p *dt.Pipe) *dt.Pipe { return p.Numbers(3) }, func(p *dt.Pipe) *dt.Pipe { return zipped(p) }},
		"choice": {func(p *dt.Pipe) *dt.Pipe { return p.Numbers(3) }, func(p *dt.Pipe) *dt.Pipe {
			a, b := p.Now, dt.Retained(p.Now)
			p.Now = kernels.Value{}
			return p.Op("RangeDataset", nil, dt.Int(0), dt.Int(0), dt.Int(1)).Op("DirectedInterleaveDataset", kt.Attrs{"N": int64(2)}, a, b)
		}},
		"concatenation of files": {func(p *dt.Pipe) *dt.Pipe {
			return p.Op("TextLineDataset", nil, kt.Str(tensor.Shape{0}), kt.Str(nil, ""), dt.Int(0))
		}, func(p *dt.Pipe) *dt.Pipe { return p.Op("ConcatenateDataset", nil, dt.Retained(p.Now)) }},
	} {
		doubled[name] = func(p *dt.Pipe) *dt.Pipe {
			p = c.first(p)
			for range times {
				if p.Err == nil {
					p = c.double(p)
				}
			}
			return p
		}
	}
}

// zipped is the dataset zipped with itself.
func zipped(p *dt.Pipe) *dt.Pipe {
	a, b := p.Now, dt.Retained(p.Now)
	p.Now = kernels.Value{}
	return p.Op("ZipDataset", kt.Attrs{"N": int64(2)}, a, b)
}

// TestDatasetsInManyWays checks that each op that inspects a dataset's inputs visits each input once, or ends with its step.
func TestDatasetsInManyWays(t *testing.T) {
	for name, pipeline := range doubled {
		t.Run(name, func(t *testing.T) {
			d := kt.NewDevice(t)
			dt.FunctionDevice = d
			p := pipeline(dt.NewPipe(d))
			if p.Err != nil {
				t.Fatal(p.Err)
			}
			defer p.Now.Release()
			for what, look := range looks(d) {
				ended := make(chan error, 1)
				go func() { ended <- look(p) }()
				select {
				case err := <-ended:
					if status.CodeOf(err) == status.Internal {
						t.Errorf("%s: %v", what, err)
					}
				case <-time.After(20 * time.Second):
					t.Fatalf("%s takes too long", what)
				}
			}
		})
	}
}
