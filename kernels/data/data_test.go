package data_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	optionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/dataset_options_go_proto"
	handlepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/resource_handle_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/tfrecord"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
	"google.golang.org/protobuf/proto"
)

// window returns the attributes of GroupByWindowDataset.
func window(key, size, reduce string) kt.Attrs {
	none := []tensor.DType{}
	return kt.Attrs{"key_func": kt.Func{Name: key}, "reduce_func": kt.Func{Name: reduce}, "window_size_func": kt.Func{Name: size},
		"Tkey_func_other_arguments": none, "Treduce_func_other_arguments": none, "Twindow_size_func_other_arguments": none}
}

func state(name string) kt.Attrs {
	return kt.Attrs{"f": kt.Func{Name: name}, "Tstate": int64s, "Targuments": []tensor.DType{}}
}

// pipelines are datasets, with the elements that TensorFlow returns for them.
var pipelines = []struct {
	name string
	make func(p *pipe) *pipe
	want string
}{
	{"range", func(p *pipe) *pipe { return p.numbers(5) }, "0 1 2 3 4 end"},
	{"range down", func(p *pipe) *pipe { return p.op("RangeDataset", nil, i(5), i(-2), i(-3)) }, "5 2 -1 end"},
	{"list", func(p *pipe) *pipe { return p.list(3, 1, 2) }, "3 1 2 end"},
	{"take", func(p *pipe) *pipe { return p.numbers(9).op("TakeDataset", nil, i(3)) }, "0 1 2 end"},
	{"take all", func(p *pipe) *pipe { return p.numbers(3).op("TakeDataset", nil, i(-1)) }, "0 1 2 end"},
	{"skip", func(p *pipe) *pipe { return p.numbers(5).op("SkipDataset", nil, i(3)) }, "3 4 end"},
	{"skip all", func(p *pipe) *pipe { return p.numbers(5).op("SkipDataset", nil, i(-1)) }, "end"},
	{"shard", func(p *pipe) *pipe { return p.numbers(7).op("ShardDataset", nil, i(3), i(1)) }, "1 4 end"},
	{"repeat", func(p *pipe) *pipe { return p.numbers(2).op("RepeatDataset", nil, i(2)) }, "0 1 0 1 end"},
	{"repeat nothing for ever", func(p *pipe) *pipe { return p.numbers(0).op("RepeatDataset", nil, i(-1)) }, "end"},
	{"map", func(p *pipe) *pipe { return p.numbers(4).mapped("double") }, "0 2 4 6 end"},
	{"map that ends", func(p *pipe) *pipe { return p.numbers(9).mapped("stop") }, "0 1 2 3 end"},
	{"map that fails", func(p *pipe) *pipe { return p.numbers(5).mapped("fail") }, "0 1 INVALID_ARGUMENT 3 4 end"},
	{"parallel map", func(p *pipe) *pipe { return p.numbers(6).ahead("double", 3) }, "0 2 4 6 8 10 end"},
	{"parallel map that fails", func(p *pipe) *pipe { return p.numbers(6).ahead("fail", 3) }, "0 1 INVALID_ARGUMENT 3 4 INVALID_ARGUMENT end"},
	{"parallel map that ends", func(p *pipe) *pipe { return p.numbers(9).ahead("stop", 3) }, "0 1 2 3 end"},
	{"filter", func(p *pipe) *pipe { return p.numbers(6).op("FilterDataset", calls("predicate", "even")) }, "0 2 4 end"},
	{"parallel filter", func(p *pipe) *pipe { return p.numbers(6).op("ParallelFilterDataset", calls("predicate", "even"), i(2)) }, "0 2 4 end"},
	{"take while", func(p *pipe) *pipe { return p.numbers(9).op("TakeWhileDataset", calls("predicate", "small")) }, "0 1 2 3 4 end"},
	{"flat map", func(p *pipe) *pipe { return p.numbers(4).op("FlatMapDataset", calls("f", "count")) }, "0 0 1 0 1 2 end"},
	{"interleave", func(p *pipe) *pipe { return p.numbers(5).op("InterleaveDataset", calls("f", "twice"), i(2), i(1)) }, "0 1 0 1 2 3 2 3 4 4 end"},
	{"interleave of blocks", func(p *pipe) *pipe { return p.numbers(4).op("InterleaveDataset", calls("f", "count"), i(3), i(2)) }, "0 0 1 0 1 2 end"},
	{"parallel interleave", func(p *pipe) *pipe {
		return p.numbers(5).op("ParallelInterleaveDatasetV4", calls("f", "twice"), i(2), i(1), i(4), i(0), i(2))
	}, "0 1 0 1 2 3 2 3 4 4 end"},
	{"batch", func(p *pipe) *pipe { return p.numbers(5).batch(2, false) }, "[0,1] [2,3] [4] end"},
	{"whole batches", func(p *pipe) *pipe { return p.numbers(5).batch(2, true) }, "[0,1] [2,3] end"},
	{"unbatch", func(p *pipe) *pipe {
		p.numbers(5).batch(2, false)
		p.shape = nil
		return p.op("UnbatchDataset", nil)
	}, "0 1 2 3 4 end"},
	{"rebatch", func(p *pipe) *pipe {
		return p.numbers(7).batch(3, false).op("RebatchDatasetV2", nil, kt.I64(kt.S(2), 2, 1), yes(false))
	}, "[0,1] [2] [3,4] [5] [6] end"},
	{"batches split", func(p *pipe) *pipe {
		return p.numbers(7).batch(4, false).op("RebatchDataset", nil, i(3))
	}, "[0,1] [2,3] [] [4] [5] [6] end"},
	{"index flat map", func(p *pipe) *pipe {
		return p.numbers(3).op("IndexFlatMapDataset", kt.Attrs{"map_func": kt.Func{Name: "tens"}, "index_map_func": kt.Func{Name: "halves"},
			"Tmap_func_args": []tensor.DType{}, "Tindex_map_func_args": []tensor.DType{}}, i(6))
	}, "0 1 10 11 20 21 end"},
	{"weighted flat map", func(p *pipe) *pipe {
		return p.numbers(4).op("WeightedFlatMapDataset", nil, newPipe(p.d).numbers(8).value(), weight(0.5), weight(0.25))
	}, "0 1 2 3 0 1 end"},
	{"fastest", func(p *pipe) *pipe {
		return p.numbers(5).mapped("fail").op("ChooseFastestDataset", kt.Attrs{"num_experiments": int64(2)}, newPipe(p.d).numbers(5).ahead("fail", 2).value())
	}, "0 1 INVALID_ARGUMENT 3 4 end"},
	{"fastest branch", func(p *pipe) *pipe {
		return p.numbers(6).op("ChooseFastestBranchDataset", kt.Attrs{"branches": []kt.Func{{Name: "same"}, {Name: "same"}}, "num_elements_per_branch": int64(2),
			"other_arguments_lengths": []int64{0, 0}, "Targuments": []tensor.DType{}}, i(1), i(1))
	}, "0 1 2 3 4 5 end"},
	{"stages after", func(p *pipe) *pipe {
		return p.numbers(9).op("AssertNextDataset", nil, kt.Str(kt.S(2), "FiniteTake", "Batch")).op("SkipDataset", nil, i(0)).op("TakeDataset", nil, i(4)).batch(2, true)
	}, "[0,1] [2,3] end"},
	{"datasets before", func(p *pipe) *pipe {
		return p.numbers(3).op("TakeDataset", nil, i(2)).op("AssertPrevDataset", nil, kt.Str(kt.S(2), "name: 'TakeDataset'",
			"name: 'RangeDataset' attr { key: 'replicate_on_split' value { b: false } }"))
	}, "0 1 end"},
	{"optimized", func(p *pipe) *pipe {
		return p.numbers(3).mapped("double").op("OptimizeDatasetV2", nil, kt.Str(kt.S(1), "map_fusion"), kt.Str(kt.S(0)), kt.Str(kt.S(0)))
	}, "0 2 4 end"},
	{"sharded by data", func(p *pipe) *pipe {
		return p.numbers(7).mapped("double").op("PrefetchDataset", nil, i(2)).op("AutoShardDataset", nil, i(3), i(1))
	}, "2 8 end"},
	{"sharded by data, with batches for replicas", func(p *pipe) *pipe {
		p.numbers(9).batch(3, false).op("RebatchDatasetV2", nil, kt.I64(kt.S(1), 2), yes(false))
		return p.op("AutoShardDataset", kt.Attrs{"auto_shard_policy": int64(2), "num_replicas": int64(3)}, i(3), i(1))
	}, "[1] [4] [7] end"},
	{"sharded where it says", func(p *pipe) *pipe {
		return p.numbers(7).op("ShardDataset", nil, i(-1), i(-1)).mapped("double").op("AutoShardDataset", kt.Attrs{"auto_shard_policy": int64(3)}, i(3), i(2))
	}, "4 10 end"},
	{"not sharded", func(p *pipe) *pipe {
		return p.numbers(3).op("AutoShardDataset", kt.Attrs{"auto_shard_policy": int64(-1)}, i(3), i(2))
	}, "0 1 2 end"},
	{"rebatch, whole", func(p *pipe) *pipe {
		return p.numbers(7).batch(3, false).op("RebatchDatasetV2", nil, kt.I64(kt.S(1), 2), yes(true))
	}, "[0,1] [2,3] [4,5] end"},
	{"shuffle", func(p *pipe) *pipe {
		return p.numbers(8).op("ShuffleDataset", kt.Attrs{"reshuffle_each_iteration": true}, i(3), i(7), i(9)).op("RepeatDataset", nil, i(2))
	}, "2 3 0 4 6 5 7 1 0 3 1 5 2 4 6 7 end"},
	{"shuffle and repeat", func(p *pipe) *pipe {
		return p.numbers(4).op("ShuffleAndRepeatDataset", nil, i(3), i(1), i(2), i(2))
	}, "1 3 2 0 1 3 2 0 end"},
	{"global shuffle", func(p *pipe) *pipe {
		return p.numbers(6).op("GlobalShuffleDataset", nil, i(1), i(2), seedless(p)).op("RepeatDataset", nil, i(2))
	}, "3 4 5 1 0 2 1 4 3 0 5 2 end"},
	{"cache", func(p *pipe) *pipe {
		return p.numbers(3).op("CacheDataset", nil, kt.Str(nil, "")).op("RepeatDataset", nil, i(2))
	}, "0 1 2 0 1 2 end"},
	{"prefetch", func(p *pipe) *pipe { return p.numbers(4).op("PrefetchDataset", nil, i(2)) }, "0 1 2 3 end"},
	{"prefetch nothing", func(p *pipe) *pipe { return p.numbers(4).op("PrefetchDataset", nil, i(0)) }, "0 1 2 3 end"},
	{"group by window", func(p *pipe) *pipe { return p.numbers(7).op("GroupByWindowDataset", window("parity", "two", "first")) }, "0 2 1 3 4 6 5 end"},
	{"window", func(p *pipe) *pipe {
		return p.numbers(6).op("WindowDataset", nil, i(3), i(2), i(1), yes(false)).op("FlatMapDataset", calls("f", "same"))
	}, "0 1 2 2 3 4 4 5 end"},
	{"windows ahead", func(p *pipe) *pipe {
		return p.numbers(6).op("WindowDataset", nil, i(2), i(2), i(1), yes(true)).op("PrefetchDataset", nil, i(2)).op("FlatMapDataset", calls("f", "same"))
	}, "0 1 2 3 4 5 end"},
	{"sliding window", func(p *pipe) *pipe {
		p.numbers(7)
		p.shape = tensor.Shape{-1}
		return p.op("SlidingWindowDataset", kt.Attrs{"drop_remainder": false}, i(3), i(2), i(2))
	}, "[0,2,4] [2,4,6] [4,6] [6] end"},
	{"sampling", func(p *pipe) *pipe {
		return p.numbers(20).op("SamplingDataset", nil, kt.Of(tensor.Float32, nil, float32(0.4)), i(3), i(7))
	}, "2 3 5 7 16 17 18 19 end"},
	{"parse example", func(p *pipe) *pipe {
		texts := kt.Attrs{"Toutput_types": []tensor.DType{tensor.String}, "output_types": []tensor.DType{tensor.String}}
		p.op("TensorSliceDataset", texts, kt.Str(kt.S(5), numbered(0), numbered(11), numbered(22), "\n\x50cut off", numbered(44)))
		p.op("BatchDatasetV2", texts, i(2), yes(false))
		p.shape = tensor.Shape{-1}
		none := []tensor.DType{}
		return p.op("ParseExampleDatasetV2", kt.Attrs{"dense_keys": []string{"x"}, "Tdense": int64s, "dense_shapes": []tensor.Shape{nil}, "sparse_keys": []string{},
			"sparse_types": none, "ragged_keys": []string{}, "ragged_value_types": none, "ragged_split_types": none, "deterministic": "true"}, i(2), i(9))
	}, "[0,11] INVALID_ARGUMENT [44] end"},
	{"scan", func(p *pipe) *pipe { return p.numbers(5).op("ScanDataset", state("add"), i(10)) }, "10 11 13 16 20 end"},
	{"unique", func(p *pipe) *pipe { return p.list(3, 1, 3, 2, 1).op("UniqueDataset", nil) }, "3 1 2 end"},
	{"assert cardinality", func(p *pipe) *pipe { return p.numbers(3).op("AssertCardinalityDataset", nil, i(2)) }, "0 1 FAILED_PRECONDITION end"},
	{"ignore errors", func(p *pipe) *pipe { return p.numbers(6).mapped("fail").op("IgnoreErrorsDataset", nil) }, "0 1 3 4 end"},
	{"huge buffers", func(p *pipe) *pipe {
		return p.numbers(3).op("PrefetchDataset", nil, i(1<<62)).op("ShuffleDataset", nil, i(1<<62), i(1), i(1)).op("InterleaveDataset", calls("f", "twice"), i(1<<62), i(1<<62))
	}, "1 1 2 2 0 0 end"},
	{"huge batch", func(p *pipe) *pipe { return p.numbers(3).batch(1<<62, false) }, "[0,1,2] end"},
}

// numbered returns a serialized tf.train.Example whose feature x is a number below 128.
func numbered(x byte) string { return "\n\f\n\n\n\x01x\x12\x05\x1a\x03\n\x01" + string([]byte{x}) }

func weight(v float64) *tensor.Tensor { return kt.Of(tensor.Float64, nil, v) }

// seedless returns the handle of a generator that does not exist.
func seedless(p *pipe) kernels.Value {
	out, err := p.d.Try(kt.Op{Type: "DummySeedGenerator"})
	if err != nil {
		panic(err)
	}
	return out[0]
}

func TestElements(t *testing.T) {
	for _, c := range pipelines {
		t.Run(c.name, func(t *testing.T) {
			d := kt.NewDevice(t)
			functionDevice = d
			p := c.make(newPipe(d))
			it := p.iterate(t)
			defer p.now.Release()
			if got := it.rest(50); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			it.close()
		})
	}
}

// An iterator that is saved after any number of elements, and restored, even into one at another position, continues with the same
// elements.
func TestSavedAnywhere(t *testing.T) {
	for _, c := range pipelines {
		t.Run(c.name, func(t *testing.T) {
			d := kt.NewDevice(t)
			functionDevice = d
			for n := 0; ; n++ {
				p := c.make(newPipe(d))
				it := p.iterate(t)
				before := it.rest(n)
				saved := it.save()
				want := it.rest(50)
				// Another iterator over the same dataset, at another position.
				other := c.make(newPipe(d))
				to := other.iterate(t)
				to.rest(n / 2)
				if err := to.restore(saved); err != nil {
					t.Errorf("after %q: %v", before, err)
				} else if got := to.rest(50); got != want {
					t.Errorf("after %q:\ngot  %s\nwant %s", before, got, want)
				}
				saved.Release()
				it.close()
				to.close()
				p.now.Release()
				other.now.Release()
				if want == "end" || n > 30 {
					break
				}
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
			functionDevice = d
			for range tries {
				p := c.make(newPipe(d))
				it := p.iterate(t)
				it.rest(rng.IntN(6))
				saved := it.save()
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
				if err := it.restore(kernels.Value{Tensor: damaged}); err == nil {
					it.rest(30)
				} else if code := status.CodeOf(err); code == status.Internal {
					t.Errorf("restoring: %v", err)
				}
				damaged.Release()
				it.close()
				p.now.Release()
			}
		})
	}
}

// A cancelled step ends its GetNext, and the iterator continues afterwards.
func TestCancelledGetNext(t *testing.T) {
	for name, hang := range map[string]func(*pipe) *pipe{
		"map":          func(p *pipe) *pipe { return p.mapped("hang") },
		"parallel map": func(p *pipe) *pipe { return p.ahead("hang", 2) },
		"filter":       func(p *pipe) *pipe { return p.op("FilterDataset", calls("predicate", "hang")) },
		"prefetch":     func(p *pipe) *pipe { return p.mapped("hang").op("PrefetchDataset", nil, i(2)) },
		"parallel interleave": func(p *pipe) *pipe {
			return p.op("ParallelInterleaveDatasetV2", calls("f", "twice"), i(2), i(1), i(2)).mapped("hang")
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := kt.NewDevice(t)
			functionDevice = d
			select {
			case <-hangs: // from an earlier test
			default:
			}
			p := hang(newPipe(d).numbers(4))
			it := p.iterate(t)
			defer p.now.Release()
			for round := range 2 {
				step := kt.NewStep()
				got := kt.Start(t, d, kt.Op{Type: "IteratorGetNext", Attrs: p.attrs(nil), Step: step}, retained(it.handle))
				if round == 0 {
					<-hangs // in the function, which may be called ahead for the second round
				}
				step.Cancellation.Cancel(status.New(status.Cancelled, "enough"))
				if r := <-got; status.CodeOf(r.Err) != status.Cancelled {
					t.Errorf("got %v", r.Err)
				}
			}
			it.close()
		})
	}
}

// Deleting an iterator ends its waiting calls and its work.
func TestDeletedWhileItIsAsked(t *testing.T) {
	d := kt.NewDevice(t)
	p := newPipe(d).numbers(4).ahead("hang", 3).op("PrefetchDataset", nil, i(2))
	it := p.iterate(t)
	defer p.now.Release()
	got := kt.Start(t, d, kt.Op{Type: "IteratorGetNext", Attrs: p.attrs(nil), Step: kt.NewStep()}, retained(it.handle))
	it.close()
	if r := <-got; r.Err == nil {
		t.Error("an element of a deleted iterator")
	}
}

// An infinite dataset uses only the memory of its buffers.
func TestEndlessDataset(t *testing.T) {
	d := kt.NewDevice(t)
	functionDevice = d
	p := newPipe(d).numbers(3).op("RepeatDataset", nil, i(-1)).ahead("double", 4).op("PrefetchDataset", nil, i(8)).op("ShuffleDataset", nil, i(5), i(1), i(2))
	it := p.iterate(t)
	defer p.now.Release()
	before := d.Pool().Stats().InUse
	for range 5000 {
		if v := it.next(); v != "0" && v != "2" && v != "4" {
			t.Fatal(v)
		}
	}
	if after := d.Pool().Stats().InUse; after > before+1<<16 {
		t.Errorf("%d bytes in use, after %d", after, before)
	}
	it.close()
}

// Ten thousand iterators leave nothing behind once they are dropped.
func TestManyIterators(t *testing.T) {
	n := 10000
	if !extent.Check() {
		n = 500
	}
	d := kt.NewDevice(t)
	functionDevice = d
	p := newPipe(d).numbers(30).ahead("double", 2).op("PrefetchDataset", nil, i(2))
	defer p.now.Release()
	for k := range n {
		it := p.iterate(t)
		if k%3 > 0 {
			it.next()
		}
		it.close()
	}
}

func TestBadInput(t *testing.T) {
	for _, c := range []struct {
		name, text string
		code       status.Code
		make       func(p *pipe) *pipe
	}{
		{"step 0", "step must be a non-zero integer", status.InvalidArgument, func(p *pipe) *pipe { return p.op("RangeDataset", nil, i(0), i(1), i(0)) }},
		{"batch of none", "Batch size must be greater than zero", status.InvalidArgument, func(p *pipe) *pipe { return p.numbers(3).batch(0, false) }},
		{"shards", "num_shards = 0", status.InvalidArgument, func(p *pipe) *pipe { return p.numbers(3).op("ShardDataset", nil, i(0), i(0)) }},
		{"shard index", "currently index = 3", status.InvalidArgument, func(p *pipe) *pipe { return p.numbers(3).op("ShardDataset", nil, i(3), i(3)) }},
		{"shuffle buffer", "buffer_size must be greater than zero", status.InvalidArgument, func(p *pipe) *pipe { return p.numbers(3).op("ShuffleDataset", nil, i(0), i(1), i(1)) }},
		{"cycle", "cycle_length must be greater than zero", status.InvalidArgument, func(p *pipe) *pipe {
			return p.numbers(3).op("InterleaveDataset", calls("f", "twice"), i(0), i(1))
		}},
		{"more calls than datasets", "num_parallel_calls is 3, and cycle_length 2", status.InvalidArgument, func(p *pipe) *pipe {
			return p.numbers(3).op("ParallelInterleaveDatasetV2", calls("f", "twice"), i(2), i(1), i(3))
		}},
		{"calls", "num_parallel_calls must be greater than zero", status.InvalidArgument, func(p *pipe) *pipe { return p.numbers(3).ahead("double", 0) }},
		{"no function", "Function nobody is not defined", status.NotFound, func(p *pipe) *pipe { return p.numbers(3).mapped("nobody") }},
		{"a count that is a vector", "count must be a scalar", status.InvalidArgument, func(p *pipe) *pipe {
			return p.numbers(3).op("TakeDataset", nil, kt.I64(kt.S(1), 1))
		}},
		{"global shuffle of a filter", "does not support random access", status.FailedPrecondition, func(p *pipe) *pipe {
			return p.numbers(3).op("FilterDataset", calls("predicate", "even")).op("GlobalShuffleDataset", nil, i(1), i(2), seedless(p))
		}},
		{"no dataset", "Tensor must be a Dataset object", status.InvalidArgument, func(p *pipe) *pipe {
			p.now = p.d.Run(t, kt.Op{Type: "OptionalNone"})[0]
			return p.op("TakeDataset", nil, i(1))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := kt.NewDevice(t)
			functionDevice = d
			p := c.make(newPipe(d))
			if p.err == nil {
				p.now.Release()
			}
			if status.CodeOf(p.err) != c.code || !strings.Contains(fmt.Sprint(p.err), c.text) {
				t.Errorf("got %v: %v", status.CodeOf(p.err), p.err)
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
			p := newPipe(d)
			p.op("TFRecordDataset", nil, kt.Str(kt.S(2), broken, next), kt.Str(nil, c.compression), i(0))
			p.op("PrefetchDataset", kt.Attrs{"output_types": []tensor.DType{tensor.String}}, i(4))
			texts := kt.Attrs{"output_types": []tensor.DType{tensor.String}, "output_shapes": []tensor.Shape{nil}}
			handle := d.Run(t, kt.Op{Type: "IteratorV2", Attrs: kt.Attrs{"shared_name": c.name, "container": "", "output_types": texts["output_types"], "output_shapes": texts["output_shapes"]}})[0]
			d.Run(t, kt.Op{Type: "MakeIterator"}, p.value(), retained(handle))
			defer (&iterator{t: t, d: d, handle: handle}).close()
			get := func() error {
				out, err := d.Try(kt.Op{Type: "IteratorGetNext", Attrs: texts, Step: kt.NewStep()}, retained(handle))
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

func TestUninitializedIterator(t *testing.T) {
	d := kt.NewDevice(t)
	p := newPipe(d)
	h := d.Run(t, kt.Op{Type: "IteratorV2", Attrs: p.attrs(kt.Attrs{"shared_name": "u", "container": ""})})[0]
	kt.Fails(t, d, status.FailedPrecondition, "the iterator has not been initialized", kt.Op{Type: "IteratorGetNext", Attrs: p.attrs(nil)}, retained(h))
	h.Release()
}

// A string handle is valid only if the iterator's own op returned it.
func TestStringHandles(t *testing.T) {
	d := kt.NewDevice(t)
	p := newPipe(d).numbers(3)
	it := p.iterate(t)
	defer p.now.Release()
	text := d.Run(t, kt.Op{Type: "IteratorToStringHandle"}, retained(it.handle))[0]
	from := kt.Op{Type: "IteratorFromStringHandleV2", Attrs: p.attrs(nil)}
	h := d.Run(t, from, retained(text))[0]
	out := d.Run(t, kt.Op{Type: "IteratorGetNext", Attrs: p.attrs(nil)}, h)
	kt.Expect(t, out, i(0))
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
	it.close()
}

func TestReduceAndSingleElement(t *testing.T) {
	d := kt.NewDevice(t)
	functionDevice = d
	p := newPipe(d).numbers(5)
	attrs := p.attrs(state("sum"))
	kt.Expect(t, d.Run(t, kt.Op{Type: "ReduceDataset", Attrs: attrs, Functions: functions, Step: kt.NewStep()}, p.now, i(100)), i(110))
	p = newPipe(d).numbers(2)
	kt.Fails(t, d, status.InvalidArgument, "more than one element", kt.Op{Type: "DatasetToSingleElement", Attrs: p.attrs(nil)}, p.now)
	p = newPipe(d).numbers(0)
	kt.Fails(t, d, status.InvalidArgument, "Dataset was empty", kt.Op{Type: "DatasetToSingleElement", Attrs: p.attrs(nil)}, p.now)
	p = newPipe(d).numbers(9).op("SkipDataset", nil, i(2)).op("ShardDataset", nil, i(2), i(1)).mapped("double")
	kt.Fails(t, d, status.FailedPrecondition, "unknown cardinality", kt.Op{Type: "GetElementAtIndex", Attrs: p.attrs(nil)}, p.now, i(2))
	p = newPipe(d).numbers(9).op("SkipDataset", nil, i(2)).op("ShardDataset", nil, i(2), i(1))
	kt.Expect(t, d.Run(t, kt.Op{Type: "GetElementAtIndex", Attrs: p.attrs(nil)}, retained(p.now), i(2)), i(7))
	kt.Fails(t, d, status.OutOfRange, "Index out of range [0, 3):3", kt.Op{Type: "GetElementAtIndex", Attrs: p.attrs(nil)}, p.now, i(3))
	p = newPipe(d).numbers(5).op("AssertCardinalityDataset", nil, i(10))
	kt.Fails(t, d, status.FailedPrecondition, "expected to contain 10 elements but index 5", kt.Op{Type: "GetElementAtIndex", Attrs: p.attrs(nil)}, p.now, i(5))
}

// TestOptionsAreMerged reads the merged options of a pipeline's inputs. Later inputs take precedence.
func TestOptionsAreMerged(t *testing.T) {
	d := kt.NewDevice(t)
	options := func(p *pipe, o *optionspb.Options) *pipe {
		text, err := proto.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		return p.op("OptionsDataset", kt.Attrs{"serialized_options": string(text)})
	}
	threads := func(n int32) *optionspb.ThreadingOptions_MaxIntraOpParallelism {
		return &optionspb.ThreadingOptions_MaxIntraOpParallelism{MaxIntraOpParallelism: n}
	}
	first := &optionspb.Options{ThreadingOptions: &optionspb.ThreadingOptions{OptionalMaxIntraOpParallelism: threads(3)}, OptionalDeterministic: &optionspb.Options_Deterministic{Deterministic: true}}
	second := &optionspb.Options{ThreadingOptions: &optionspb.ThreadingOptions{
		OptionalMaxIntraOpParallelism: threads(5), OptionalPrivateThreadpoolSize: &optionspb.ThreadingOptions_PrivateThreadpoolSize{PrivateThreadpoolSize: 7},
	}}
	p := options(options(newPipe(d).numbers(3), first).op("SkipDataset", nil, i(1)), second)
	out := d.Run(t, kt.Op{Type: "GetOptions"}, retained(p.now))
	got := &optionspb.Options{}
	if err := proto.Unmarshal([]byte(out[0].Tensor.Strings()[0]), got); err != nil {
		t.Fatal(err)
	}
	want := proto.Clone(first).(*optionspb.Options)
	proto.Merge(want, second)
	if !proto.Equal(got, want) {
		t.Errorf("the options are %v, want %v", got, want)
	}
	out[0].Release()
	kt.Fails(t, d, status.InvalidArgument, "Could not parse serialized_options", kt.Op{Type: "OptionsDataset", Attrs: p.attrs(kt.Attrs{"serialized_options": "\xff"})}, p.now)
}

// TestNonSerializable tests a dataset that cannot become a graph, while its iterator can be saved.
func TestNonSerializable(t *testing.T) {
	d := kt.NewDevice(t)
	p := newPipe(d).numbers(5).op("NonSerializableDataset", nil)
	it := p.iterate(t)
	if got := it.next() + it.next(); got != "01" {
		t.Errorf("the first elements are %s", got)
	}
	state := it.save()
	it.next()
	if err := it.restore(state); err != nil {
		t.Fatal(err)
	}
	state.Release()
	if got := it.rest(9); got != "2 3 4 end" {
		t.Errorf("the rest is %s", got)
	}
	it.close()
	for _, op := range []string{"DatasetToGraph", "DatasetToGraphV2"} {
		kt.Fails(t, d, status.FailedPrecondition, "NonSerializableDatasetOp::Dataset does not support serialization.", kt.Op{Type: op, Attrs: kt.Attrs{"external_state_policy": int64(0)}}, retained(p.now))
	}
	p.now.Release()
}

// TestFunctionErrorsNameTheIterator makes a function fail in each stage that calls one.
func TestFunctionErrorsNameTheIterator(t *testing.T) {
	d := kt.NewDevice(t)
	functionDevice = d
	fails := kt.Func{Name: "fail"}
	with := func(attrs ...any) kt.Attrs {
		all := kt.Attrs{"Targuments": []tensor.DType{}}
		for n := 0; n < len(attrs); n += 2 {
			all[attrs[n].(string)] = attrs[n+1]
		}
		return all
	}
	for want, make := range map[string]func(p *pipe) *pipe{
		"MapDataset:N Iterator::Root::Map": func(p *pipe) *pipe { return p.mapped("fail") },
		"named Iterator::Root::Map": func(p *pipe) *pipe {
			return p.op("MapDataset", with("f", fails, "metadata", "\x0a\x05named"))
		},
		"ParallelMapDatasetV2:N Iterator::Root::ParallelMapV2": func(p *pipe) *pipe { return p.ahead("fail", 2) },
		"MapDataset:N Iterator::Root::BatchV2::Shuffle::Map": func(p *pipe) *pipe {
			return p.mapped("fail").op("ShuffleDataset", nil, i(9), i(1), i(2)).batch(2, false)
		},
		"FilterDataset:N Iterator::Root::Filter":         func(p *pipe) *pipe { return p.op("FilterDataset", with("predicate", fails)) },
		"FlatMapDataset:N Iterator::Root::FlatMap":       func(p *pipe) *pipe { return p.op("FlatMapDataset", with("f", fails)) },
		"InterleaveDataset:N Iterator::Root::Interleave": func(p *pipe) *pipe { return p.op("InterleaveDataset", with("f", fails), i(4), i(1)) },
		"ParallelInterleaveDatasetV2:N Iterator::Root::ParallelInterleaveV2": func(p *pipe) *pipe {
			return p.op("ParallelInterleaveDatasetV2", with("f", fails), i(4), i(1), i(2))
		},
		"MapDataset:N Iterator::Root::FlatMap[1]::Map":    func(p *pipe) *pipe { return p.op("FlatMapDataset", calls("f", "threes")) },
		"MapDataset:N Iterator::Root::Interleave[1]::Map": func(p *pipe) *pipe { return p.op("InterleaveDataset", calls("f", "threes"), i(4), i(1)) },
		"MapDataset:N Iterator::Root::ParallelInterleaveV2[1]::Map": func(p *pipe) *pipe {
			return p.op("ParallelInterleaveDatasetV2", calls("f", "threes"), i(4), i(1), i(2))
		},
		"MapDataset:N Iterator::Root::GroupByWindow[0]::Map": func(p *pipe) *pipe { return p.op("GroupByWindowDataset", window("parity", "two", "failing")) },
		"MapDataset:N Iterator::Root::Zip[0]::Map":           func(p *pipe) *pipe { return zipped(p.mapped("fail")) },
		"MapDataset:N Iterator::Root::FiniteTake::Concatenate[1]::Map": func(p *pipe) *pipe {
			failing := p.mapped("fail").value()
			return newPipe(p.d).numbers(2).op("ConcatenateDataset", nil, failing).op("TakeDataset", nil, i(9))
		},
		"MapDataset:N Iterator::Root::FiniteRepeat[0]::Map": func(p *pipe) *pipe { return p.mapped("fail").op("RepeatDataset", nil, i(2)) },
		"MapDataset:N Iterator::Root::DirectedInterleave[1]::Map": func(p *pipe) *pipe {
			failing := p.mapped("fail").value()
			return newPipe(p.d).list(1, 1, 1).op("DirectedInterleaveDataset", kt.Attrs{"N": int64(2)}, newPipe(p.d).numbers(0).value(), failing)
		},
		"": func(p *pipe) *pipe { return p.op("TakeWhileDataset", with("predicate", fails)) }, // returns the error unchanged, as TensorFlow's does
	} {
		t.Run(want, func(t *testing.T) {
			p := make(newPipe(d).numbers(6))
			it := p.iterate(t)
			defer it.close()
			defer p.now.Release()
			for range 20 {
				out, err := d.Try(kt.Op{Type: "IteratorGetNext", Attrs: p.attrs(nil), Step: kt.NewStep()}, retained(it.handle))
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

// TestCardinalityOptions checks that the elements of flat maps are counted only if a client requests it, or an index needs it.
func TestCardinalityOptions(t *testing.T) {
	const low, moderate = "\x08\x01", "\x08\x02"
	d := kt.NewDevice(t)
	functionDevice = d
	count := func(p *pipe, options string) []kernels.Value {
		attrs := map[string]any{"cardinality_options": options}
		return d.Run(t, kt.Op{Type: "DatasetCardinality", Attrs: attrs, Functions: functions, Step: kt.NewStep()}, retained(p.now))
	}
	for name, c := range map[string]struct {
		make            func() *pipe
		low, moderately int64
	}{
		"flat map":   {func() *pipe { return newPipe(d).numbers(7).op("FlatMapDataset", calls("f", "count")) }, -2, 9},
		"of nothing": {func() *pipe { return newPipe(d).numbers(0).op("FlatMapDataset", calls("f", "count")) }, -2, 0},
		"nested, then batch": {func() *pipe {
			return newPipe(d).numbers(7).op("FlatMapDataset", calls("f", "twice")).op("FlatMapDataset", calls("f", "count")).op("SkipDataset", nil, i(3))
		}, -2, 15},
		"whose function fails": {func() *pipe { return newPipe(d).numbers(7).op("FlatMapDataset", calls("f", "fail")) }, -2, -2},
		"without an end": {func() *pipe {
			return newPipe(d).numbers(7).op("RepeatDataset", nil, i(-1)).op("FlatMapDataset", calls("f", "count"))
		}, -2, -2},
		"filter": {func() *pipe {
			return newPipe(d).numbers(7).op("FilterDataset", map[string]any{"predicate": calls("f", "even")["f"]})
		}, -2, -2},
		"range": {func() *pipe { return newPipe(d).numbers(7) }, 7, 7},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.make()
			if p.err != nil {
				t.Fatal(p.err)
			}
			for options, want := range map[string]int64{"": c.low, low: c.low} {
				kt.Expect(t, count(p, options), i(want))
			}
			kt.Expect(t, count(p, moderate), i(c.moderately))
			p.now.Release()
		})
	}
	p := newPipe(d).numbers(3)
	kt.Fails(t, d, status.InvalidArgument, "Could not parse cardinality_options", kt.Op{Type: "DatasetCardinality", Attrs: map[string]any{"cardinality_options": "\xff"}}, p.now)
}

// Stages with and without a fixed order return the same elements.
func TestUnorderedStages(t *testing.T) {
	for name, stage := range map[string]func(*pipe) *pipe{
		"map": func(p *pipe) *pipe {
			a := calls("f", "double")
			a["deterministic"] = "false"
			return p.op("ParallelMapDatasetV2", a, i(4))
		},
		"interleave": func(p *pipe) *pipe {
			a := calls("f", "twice")
			a["deterministic"] = "false"
			return p.op("ParallelInterleaveDatasetV4", a, i(3), i(2), i(2), i(0), i(3))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := kt.NewDevice(t)
			functionDevice = d
			p := stage(newPipe(d).numbers(40))
			it := p.iterate(t)
			defer p.now.Release()
			sum, n := int64(0), 0
			for {
				v := it.next()
				if v == "end" {
					break
				}
				x, err := strconv.ParseInt(v, 10, 64)
				if err != nil {
					t.Fatal(v)
				}
				sum, n = sum+x, n+1
			}
			if want := map[string]int{"map": 40, "interleave": 80}[name]; n != want || sum != 40*39 {
				t.Errorf("%d elements, %d in all", n, sum)
			}
			it.close()
		})
	}
}

// TestDatasetsWithoutEnd checks that functions that create datasets that call them again reach a limit: of depth, or of the memory that
// iterators count as.
func TestDatasetsWithoutEnd(t *testing.T) {
	for _, f := range []string{"itself", "ahead", "wide"} {
		t.Run(f, func(t *testing.T) {
			d := kt.NewDevice(t)
			functionDevice = d
			p := newPipe(d).numbers(1000).op("FlatMapDataset", calls("f", f))
			defer p.now.Release()
			it := p.iterate(t)
			if got := it.next(); got != "RESOURCE_EXHAUSTED" {
				t.Errorf("got %s", got)
			}
			it.close()
		})
	}
}

// TestIteratorsCount checks that open iterators, datasets and the goroutines of stages count as memory until they are closed.
func TestIteratorsCount(t *testing.T) {
	d := kt.NewDevice(t)
	functionDevice = d
	const open = 200
	p := newPipe(d).numbers(open).op("InterleaveDataset", calls("f", "twice"), i(open), i(1))
	defer p.now.Release()
	it := p.iterate(t)
	before := d.Pool().Stats().InUse
	for range open {
		if got := it.next(); got == "end" {
			t.Fatal("it has ended")
		}
	}
	if grown := d.Pool().Stats().InUse - before; grown < open*1024 {
		t.Errorf("%d open iterators count as %d bytes", open, grown)
	}
	it.close()
}

// looks are the ops that inspect a dataset and its inputs, and request at most one element.
func looks(d *kt.Device) map[string]func(p *pipe) error {
	try := func(op string, attrs kt.Attrs, more ...any) func(p *pipe) error {
		return func(p *pipe) error {
			out, err := d.Try(kt.Op{Type: op, Attrs: p.attrs(attrs), Functions: functions}, append([]any{retained(p.now)}, more...)...)
			for _, v := range out {
				v.Release()
			}
			return err
		}
	}
	all := map[string]func(p *pipe) error{
		"cardinality": try("DatasetCardinality", nil), "batch size": try("ComputeBatchSize", nil), "fingerprint": try("DatasetFingerprint", nil),
		"graph":   try("DatasetToGraphV2", kt.Attrs{"external_state_policy": int64(2), "strip_device_assignment": false}),
		"element": try("GetElementAtIndex", nil, i(0)), "global shuffle": func(p *pipe) error { return try("GlobalShuffleDataset", nil, i(1), i(2), seedless(p))(p) },
	}
	all["elements"] = func(p *pipe) error {
		step := kt.NewStep()
		defer time.AfterFunc(time.Second, func() { step.Cancellation.Cancel(status.New(status.DeadlineExceeded, "it takes too long")) }).Stop()
		out, err := d.Try(kt.Op{Type: "ReduceDataset", Attrs: p.attrs(state("sum")), Functions: functions, Step: step}, retained(p.now), i(100))
		for _, v := range out {
			v.Release()
		}
		return err
	}
	for policy := int64(-1); policy <= 3; policy++ {
		all[fmt.Sprint("sharding ", policy)] = try("AutoShardDataset", kt.Attrs{"auto_shard_policy": policy, "num_replicas": int64(1)}, i(3), i(1))
	}
	return all
}

// doubled are pipelines in which one dataset is reachable on 2^45 paths.
var doubled = map[string]func(p *pipe) *pipe{}

func init() {
	const times = 45
	for name, c := range map[string]struct {
		first  func(p *pipe) *pipe
		double func(p *pipe) *pipe
	}{
		"concatenation":            {func(p *pipe) *pipe { return p.numbers(0) }, func(p *pipe) *pipe { return p.op("ConcatenateDataset", nil, retained(p.now)) }},
		"concatenation of batches": {func(p *pipe) *pipe { return p.numbers(0).batch(2, true) }, func(p *pipe) *pipe { return p.op("ConcatenateDataset", nil, retained(p.now)) }},
		"zip":                      {func(p *pipe) *pipe { return p.numbers(3) }, func(p *pipe) *pipe { return zipped(p) }},
		"choice": {func(p *pipe) *pipe { return p.numbers(3) }, func(p *pipe) *pipe {
			a, b := p.now, retained(p.now)
			p.now = kernels.Value{}
			return p.op("RangeDataset", nil, i(0), i(0), i(1)).op("DirectedInterleaveDataset", kt.Attrs{"N": int64(2)}, a, b)
		}},
		"concatenation of files": {func(p *pipe) *pipe {
			return p.op("TextLineDataset", nil, kt.Str(tensor.Shape{0}), kt.Str(nil, ""), i(0))
		}, func(p *pipe) *pipe { return p.op("ConcatenateDataset", nil, retained(p.now)) }},
	} {
		doubled[name] = func(p *pipe) *pipe {
			p = c.first(p)
			for range times {
				if p.err == nil {
					p = c.double(p)
				}
			}
			return p
		}
	}
}

// zipped is the dataset zipped with itself.
func zipped(p *pipe) *pipe {
	a, b := p.now, retained(p.now)
	p.now = kernels.Value{}
	return p.op("ZipDataset", kt.Attrs{"N": int64(2)}, a, b)
}

// TestDatasetsInManyWays checks that each op that inspects a dataset's inputs visits each input once, or ends with its step.
func TestDatasetsInManyWays(t *testing.T) {
	for name, pipeline := range doubled {
		t.Run(name, func(t *testing.T) {
			d := kt.NewDevice(t)
			functionDevice = d
			p := pipeline(newPipe(d))
			if p.err != nil {
				t.Fatal(p.err)
			}
			defer p.now.Release()
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
